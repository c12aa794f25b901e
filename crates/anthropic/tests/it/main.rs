//! Tests of the public API against a local server that can inject faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod caching;
mod errors;
mod formats;
mod histories;
mod hosted;
mod judge;
mod rechunking;
mod replies;
mod requests;
mod server;
mod streams;
mod thinking;
