//! Integration tests of the public API of `haft-schema`.

#[cfg(test)]
mod provider;
#[cfg(test)]
mod suite;
