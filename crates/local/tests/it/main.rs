//! Integration tests with models that have random weights.

#[cfg(test)]
mod calls;
#[cfg(test)]
mod families;
#[cfg(test)]
mod family_files;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod load;
#[cfg(test)]
mod loops;
#[cfg(test)]
mod prefixes;
#[cfg(test)]
mod reasoning;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tiny;
