//! Tests of the public API against a local server that can inject faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod both_apis;
mod connections;
mod endpoints;
mod errors;
mod finish_reasons;
mod formats;
mod histories;
mod hosted_tools;
#[cfg(feature = "async-openai")]
mod interop;
mod log_capture;
mod logs;
mod middleware;
mod prompt_cache;
mod provider_formats;
mod quirks;
mod rechunking;
mod replies;
mod requests;
mod responses;
mod round_trip;
mod server;
mod streams;
mod structured;
mod surrogates;
mod think_tags;
mod timeouts;
mod unsupported_params;
