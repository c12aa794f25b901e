use haft_core::tool::Annotations;
use serde_json::{Value, json};

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ListLimits, ParsedTool, build_tool_list, is_for_models, parse_definition};
use crate::{
    ServerOptions,
    connection_handle::{ConnectionHandle, SourceStatus},
    feature_tools::FeatureTools,
};

fn rejection(tool: &Value) -> String {
    parse_definition(tool).unwrap_err()
}

/// The input schema is passed on unchanged, including `$ref`, `$defs` and `required`.
#[test]
fn input_schema_is_unchanged() {
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
    let definition = parse_definition(&tool).unwrap().definition;
    let input = definition.input_schema();
    assert_eq!(input.as_value(), &schema);
    assert!(input.is_valid(&json!({"node": {"next": {"next": {}}}, "name": null, "old": 3})));
    assert!(!input.is_valid(&json!({"node": {"next": {"next": 1}}})));
    assert!(!input.is_valid(&json!({"old": "3", "node": {}})));
    assert!(!input.is_valid(&json!({"name": "x"})));
}

/// A tool with a missing or invalid description gets an empty description.
#[test]
fn missing_description_is_empty() {
    for description in [json!({}), json!({"description": null}), json!({"description": 7})] {
        let mut tool = json!({"name": "quiet", "inputSchema": {"type": "object"}});
        tool.as_object_mut().unwrap().extend(description.as_object().unwrap().clone());
        assert_eq!(parse_definition(&tool).unwrap().definition.description(), "");
    }
}

/// An invalid tool is rejected with a reason that names the faulty field.
#[test]
fn invalid_definition_has_a_reason() {
    assert_eq!(rejection(&json!({"inputSchema": {}})), "no `name`");
    assert_eq!(rejection(&json!("add")), "no `name`");
    assert_eq!(rejection(&json!({"name": "a"})), "no `inputSchema`");
    assert_eq!(
        rejection(&json!({"name": "a", "inputSchema": null})),
        "`inputSchema` must be an object, not null"
    );
    let list = json!({"name": "a", "inputSchema": {"type": "array"}});
    assert!(rejection(&list).starts_with("`inputSchema`: "), "{}", rejection(&list));
}

/// A schema with a defect costs its check, and not the tool. A diagnostic names the defect.
#[test]
fn defect_of_a_schema_costs_its_check() {
    let valid = json!({"type": "object"});
    for (input, output, expected) in [
        (valid.clone(), json!({"type": 3}), "`outputSchema`: "),
        (valid.clone(), json!({"$ref": "https://example.org/x"}), "`outputSchema`: "),
        (valid.clone(), json!("text"), "`outputSchema`: "),
        (
            valid.clone(),
            json!({"properties": {"a": {"pattern": "("}}}),
            "/properties/a/pattern cannot be compiled",
        ),
        (
            json!({"properties": {"a": {"pattern": "(?z)"}}}),
            Value::Null,
            "/properties/a/pattern cannot be compiled",
        ),
        (json!({"properties": {"a": {"maxLength": null}}}), Value::Null, "/properties/a/maxLength is null"),
    ] {
        let (_sender, status) = watch::channel(SourceStatus::Starting);
        let handle =
            ConnectionHandle::new("mcp:x".to_owned(), status, CancellationToken::new(), Duration::ZERO);
        let tools = [json!({"name": "a", "inputSchema": input, "outputSchema": output})];
        let limits = ListLimits::from(&ServerOptions::default());
        let list = build_tool_list(&tools, &handle, &limits, &[], FeatureTools::default(), None);
        assert!(list.get("a").is_some(), "{tools:?}");
        let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
        assert!(diagnostics.len() == 1 && diagnostics[0].contains(expected), "{diagnostics:?}");
    }
}

/// Annotations are copied to the definition, but do not change the tool's policy.
#[test]
fn annotations_are_kept_and_not_trusted() {
    let tool = json!({
        "name": "delete.all", "inputSchema": {"type": "object"},
        "annotations": {"title": "Delete", "readOnlyHint": true, "idempotentHint": true, "destructiveHint": "no"},
        "_meta": {"vendor/cost": 3},
    });
    let ParsedTool { original_name, definition, .. } = parse_definition(&tool).unwrap();
    assert_eq!(original_name, "delete.all");
    assert_eq!(definition.title(), Some("Delete"));
    let expected = Annotations { read_only: Some(true), idempotent: Some(true), ..Annotations::default() };
    assert_eq!(definition.annotations(), &expected);
    assert_eq!(Value::Object(definition.metadata().clone()), json!({"vendor/cost": 3}));
    assert_eq!(definition.policy(), &haft_core::tool::ToolPolicy::default());
}

/// Hidden characters are removed from all texts of a definition that a model reads, also from the
/// values and names in its schemas.
#[test]
fn hidden_characters_are_removed() {
    let tags = "\u{e0068}\u{e0069}";
    let tool = json!({
        "name": "add", "description": format!("Adds.{tags}"), "title": "A\u{202e}dd",
        "inputSchema": {"type": "object", "properties": {
            "x": {"type": "integer", "description": "A\u{200b} number."},
            "mode": {"enum": ["a\u{200b}"], "description": "\u{1b}[31mred"},
            "description": {"type": "string"},
            "default": {"type": "string", "description": "A\u{2060} default."},
        }},
        "outputSchema": {"properties": {"sum\u{2060}": {"title": "A\u{3164} sum."}}},
    });
    let definition = parse_definition(&tool).unwrap().definition;
    assert_eq!((definition.description(), definition.title()), ("Adds.", Some("Add")));
    let schema = definition.input_schema().as_value();
    assert_eq!(schema["properties"]["x"]["description"], "A number.");
    assert_eq!(schema["properties"]["mode"], json!({"enum": ["a"], "description": "[31mred"}));
    assert_eq!(schema["properties"]["description"], json!({"type": "string"}));
    assert_eq!(schema["properties"]["default"]["description"], "A default.");
    let output = definition.output_schema().unwrap().as_value();
    assert_eq!(*output, json!({"properties": {"sum": {"title": "A sum."}}}));
}

#[test]
fn tool_for_an_app_only_is_not_offered() {
    let is_offered = |ui| is_for_models(&json!({"name": "x", "_meta": {"ui": ui}}));
    assert!(is_for_models(&json!({"name": "x"})));
    assert!(is_offered(json!({"visibility": ["app", "model"]})));
    assert!(!is_offered(json!({"visibility": ["app"]})));
    assert!(!is_offered(json!({"visibility": []})));
}

#[test]
fn call_timeout_is_the_timeout_of_the_tools() {
    let (_sender, status) = watch::channel(SourceStatus::Starting);
    let handle = ConnectionHandle::new("mcp:x".to_owned(), status, CancellationToken::new(), Duration::ZERO);
    let tools = [json!({"name": "a", "inputSchema": {"type": "object"}})];
    let timeout = Duration::from_secs(600);
    let options = ServerOptions::default();
    for (options, expected) in [(options.clone(), None), (options.with_call_timeout(timeout), Some(timeout))]
    {
        let limits = ListLimits::from(&options);
        let list = build_tool_list(&tools, &handle, &limits, &[], FeatureTools::default(), None);
        assert_eq!(list.get("a").unwrap().definition().policy().timeout, expected);
    }
}

/// The pins compare only the first tool of each name, so a later one is not offered, also if the
/// first is invalid.
#[test]
fn repeated_name_is_not_offered() {
    let (_sender, status) = watch::channel(SourceStatus::Starting);
    let handle = ConnectionHandle::new("mcp:x".to_owned(), status, CancellationToken::new(), Duration::ZERO);
    let tools =
        [json!({"name": "a", "inputSchema": null}), json!({"name": "a", "inputSchema": {"type": "object"}})];
    let limits = ListLimits::from(&ServerOptions::default());
    let list = build_tool_list(&tools, &handle, &limits, &[], FeatureTools::default(), None);
    assert!(list.is_empty());
    assert!(list.diagnostics()[1].to_string().contains("an earlier tool has the same name"));
}
