//! The engine from outside.

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod provider;
#[cfg(test)]
mod suite;
