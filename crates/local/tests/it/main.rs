//! The crate from outside, with models that make no sense.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod load;
#[cfg(test)]
mod replies;
#[cfg(feature = "download")]
#[cfg(test)]
mod store;
#[cfg(test)]
mod tiny;
