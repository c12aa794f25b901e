//! The core from outside.

#[cfg(test)]
mod adaptors;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod blocking;
#[cfg(test)]
mod cache;
#[cfg(test)]
mod chain;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod macros;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod read_result;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod toolset;
#[cfg(test)]
mod transcript;
#[cfg(test)]
mod wire;
