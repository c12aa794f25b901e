//! Integration tests of `haft-core` through its public API.

#[cfg(test)]
mod adaptor_laws;
#[cfg(test)]
mod adaptors;
#[cfg(test)]
mod answers;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod blocking;
#[cfg(test)]
mod call_hooks;
#[cfg(test)]
mod cancel_grace;
#[cfg(test)]
mod macros;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod toolset;
#[cfg(test)]
mod touches;
#[cfg(test)]
mod transcript;
