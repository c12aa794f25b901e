#![allow(clippy::unwrap_used, reason = "tests may panic")]

use haft_core::{ToolDefinition, ToolName, schema::Schema};
use serde_json::json;

use super::format_tool;

/// The definition of a tool from an MCP server may contain escape sequences for the terminal. They
/// must not reach the output.
#[test]
fn control_characters_are_removed() {
    let schema = json!({ "type": "object", "properties": {
        "colour": { "default": "\u{9b}31mred", "description": "\u{1b}[1mAny\u{7f}." },
        "size\u{9b}": { "enum": ["\u{9b}5m", "large"] },
    } });
    let definition = ToolDefinition::new(ToolName::new("paint").unwrap(), Schema::new(schema).unwrap());
    let text = anstream::adapter::strip_str(&format_tool(&definition)).to_string();
    assert_eq!(text, "paint\n    colour: any = \"31mred\"  [1mAny.\n    size?: \"5m\" | \"large\"\n\n");
}
