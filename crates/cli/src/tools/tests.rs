#![allow(clippy::unwrap_used, reason = "a test may fail")]

use haft_core::{ToolDefinition, ToolName, schema::Schema};
use serde_json::json;

use super::for_people;

/// What a server says of its tools does not control the terminal.
#[test]
fn what_comes_from_outside_is_shown_as_text() {
    let schema = json!({ "type": "object", "properties": {
        "colour": { "default": "\u{9b}31mred", "description": "\u{1b}[1mAny\u{7f}." },
        "size\u{9b}": { "enum": ["\u{9b}5m", "large"] },
    } });
    let definition = ToolDefinition::new(ToolName::new("paint").unwrap(), Schema::new(schema).unwrap());
    let text = anstream::adapter::strip_str(&for_people(&definition)).to_string();
    assert_eq!(text, "paint\n    colour: any = \"31mred\"  [1mAny.\n    size?: \"5m\" | \"large\"\n\n");
}
