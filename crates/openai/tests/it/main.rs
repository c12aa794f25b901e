//! The crate as its users meet it, against a server that can do everything wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod addresses;
mod both;
mod characters;
mod connections;
mod echo;
mod endings;
mod failures;
mod formats;
#[cfg(feature = "async-openai")]
mod interop;
mod listen;
mod middleware;
mod providers;
mod quirks;
mod rechunked;
mod refusals;
mod replies;
mod requests;
mod responses;
mod server;
mod streams;
mod structured;
mod thoughts;
mod traces;
mod waits;
