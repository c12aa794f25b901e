//! Integration tests of `haft-dialect`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod reading;
mod requests;
mod tool_rejection;

use haft_core::{Schema, ToolDefinition, ToolName, tool::DynamicTool, toolset::ToolList};
use serde_json::json;

/// Returns a list with the tool `add`, which has the parameters `x` and `y`.
fn calculator() -> ToolList {
    let integer = || json!({"type": "integer"});
    let schema = json!({"properties": {"x": integer(), "y": integer()}, "required": ["x", "y"]});
    let definition =
        ToolDefinition::new(ToolName::new("add").unwrap(), Schema::for_arguments(schema).unwrap());
    ToolList::new("test", [DynamicTool::new(definition, |_, _| async {})])
}
