//! The engine from outside.

#[cfg(test)]
mod misfit;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod wire;
