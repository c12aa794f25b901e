//! Tests of the public API.

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod provider;
#[cfg(test)]
mod suite;
