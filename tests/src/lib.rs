//! Shared test support: a scripted model server, and the doctests of the book.

#[cfg(doctest)]
mod book;
mod model_server;

pub use model_server::{ModelServer, Reply};
