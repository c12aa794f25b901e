//! Tests that combine several crates: agents with HTTP models, and with tools from several sources.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod apis;
mod catalogues;
mod child;
mod conformance;
mod conversations;
mod fallback;
mod judges;
mod mixed;
mod model_faults;
mod permissions;
mod prompt_cache;
mod providers;

use haft_core::tool;

/// Adds two integers.
#[tool]
fn add(x: i64, y: i64) -> i64 {
    x + y
}
