//! `#[tool]` as its users write it.

use expect_test::{Expect, expect};
use haft_core::{Tool, ToolExt, tool};
use serde_json::json;

/// Add two integers.
#[tool]
fn add(x: i64, #[tool(default = 0)] y: i64) -> i64 {
    x + y
}

/// BEHAVIOUR A1.
#[test]
fn a_function_is_a_tool_with_the_schema_of_its_parameters() {
    check(
        Add,
        expect![[r#"
        {
          "name": "add",
          "description": "Add two integers.",
          "input_schema": {
            "type": "object",
            "additionalProperties": false,
            "properties": {
              "x": {
                "type": "integer"
              },
              "y": {
                "type": "integer",
                "default": 0
              }
            },
            "required": [
              "x"
            ]
          }
        }"#]],
    );
    assert_eq!(add(17, 25), 42, "the function stays a function");
}

fn check(tool: impl Tool, expected: Expect) {
    expected.assert_eq(&serde_json::to_string_pretty(tool.definition()).unwrap());
}
