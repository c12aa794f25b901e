//! What the tests of several crates share: a model's server that does as it is told. And the book, compiled.

#[cfg(doctest)]
mod book;
mod model_server;

pub use model_server::{ModelServer, Reply};
