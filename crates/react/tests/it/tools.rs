//! Tools for agents under test.

use haft_core::{
    Toolset,
    schemars::{self, JsonSchema},
    tool_fn,
};
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Add {
    x: i64,
    y: i64,
}

/// `add(x, y)`.
pub(crate) fn calculator() -> Toolset {
    Toolset::new().with(tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y }))
}
