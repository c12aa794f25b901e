use haft_core::tool::Annotations;
use serde_json::{Value, json};

use super::definition;

fn refusal(tool: &Value) -> String {
    definition(tool).map(|(name, _)| name.to_owned()).unwrap_err()
}

/// Behaviour F44: validated as the server wrote it, `required` kept exactly.
#[test]
fn schemas_are_kept_whole() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"]},
            "node": {"$ref": "#/$defs/node"},
            "old": {"$ref": "#/definitions/old"},
        },
        "required": ["node"],
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "definitions": {"old": {"type": "integer"}},
    });
    let tool = json!({"name": "walk", "inputSchema": schema});
    let (_, definition) = definition(&tool).unwrap();
    let input = definition.input_schema();
    assert_eq!(input.as_value(), &schema);
    assert!(input.is_valid(&json!({"node": {"next": {"next": {}}}, "name": null, "old": 3})));
    assert!(!input.is_valid(&json!({"node": {"next": {"next": 1}}})));
    assert!(!input.is_valid(&json!({"old": "3", "node": {}})));
    assert!(!input.is_valid(&json!({"name": "x"})));
}

/// Behaviour F81, also where a server writes null or worse.
#[test]
fn no_description_is_an_empty_one() {
    for description in [json!({}), json!({"description": null}), json!({"description": 7})] {
        let mut tool = json!({"name": "quiet", "inputSchema": {"type": "object"}});
        tool.as_object_mut().unwrap().extend(description.as_object().unwrap().clone());
        assert_eq!(definition(&tool).unwrap().1.description(), "");
    }
}

/// Behaviour F45.
#[test]
fn what_cannot_be_used_says_why() {
    assert_eq!(refusal(&json!({"inputSchema": {}})), "it has no name");
    assert_eq!(refusal(&json!("add")), "it has no name");
    assert_eq!(refusal(&json!({"name": "a"})), "it has no inputSchema");
    assert_eq!(refusal(&json!({"name": "a", "inputSchema": null})), "its inputSchema is no schema but null");
    let list = json!({"name": "a", "inputSchema": {"type": "array"}});
    assert!(refusal(&list).starts_with("its inputSchema: "), "{}", refusal(&list));
    let output = json!({"name": "a", "inputSchema": {}, "outputSchema": {"type": 3}});
    assert!(refusal(&output).starts_with("its outputSchema: "), "{}", refusal(&output));
}

/// Behaviour F46: kept, and not part of the policy.
#[test]
fn hints_are_kept_and_not_trusted() {
    let tool = json!({
        "name": "delete.all", "inputSchema": {"type": "object"},
        "annotations": {"title": "Delete", "readOnlyHint": true, "idempotentHint": true, "destructiveHint": "no"},
        "_meta": {"vendor/cost": 3},
    });
    let (foreign_name, definition) = definition(&tool).unwrap();
    assert_eq!(foreign_name, "delete.all");
    assert_eq!(definition.title(), Some("Delete"));
    let expected = Annotations { read_only: Some(true), idempotent: Some(true), ..Annotations::default() };
    assert_eq!(definition.annotations(), &expected);
    assert_eq!(Value::Object(definition.metadata().clone()), json!({"vendor/cost": 3}));
    assert_eq!(definition.policy(), &haft_core::tool::Policy::default());
}
