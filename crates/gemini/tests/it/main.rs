//! Tests of the public API against a local server that can inject faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod both_apis;
mod errors;
mod finish_reasons;
mod formats;
mod histories;
mod hosted_tools;
mod interactions;
mod rechunking;
mod replies;
mod requests;
mod server;
