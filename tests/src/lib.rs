//! Shared test support: a scripted model server, third-party servers, and the doctests of the book.

#[cfg(doctest)]
mod book;
pub mod judge;
mod model_server;

pub use model_server::{ModelServer, Reply};
