//! Shared test support: third-party servers and the doctests of the book.

#[cfg(doctest)]
mod book;
pub mod judge;
