//! The engine from outside.

#[cfg(test)]
mod misfit;
#[cfg(test)]
mod provider;
#[cfg(test)]
mod suite;
