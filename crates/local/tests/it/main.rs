//! Integration tests on models with random weights.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod load;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod tiny;
