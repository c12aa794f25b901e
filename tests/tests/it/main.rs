//! What no crate can test alone: tools from several places, models behind a wire, one agent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod catalogues;
mod child;
mod conformance;
mod fallback;
mod judges;
mod mixed;
mod wire;

use haft_core::tool;

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}
