use expect_test::{Expect, expect};
use haft_core::Schema;
use proptest::prelude::*;
use reqwest::Url;
use serde_json::{Value, json};

use super::argument_names;
use crate::{
    document::Document,
    operation::{Location, Operation, Parameter, Style, operations},
};

/// Checks the arguments of the operation with `parameters` and `body`.
fn check(parameters: Value, body: Value, expected: &Expect) {
    let document = json!({
        "openapi": "3.1.0",
        "paths": {"/pets/{id}": {"put": {"parameters": parameters, "requestBody": body}}},
        "components": {"schemas": {
            "Named": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            "Aged": {"type": "object", "properties": {"age": {"type": "integer"}}},
        }},
    });
    let document = Document::parse(&document.to_string(), None, 100_000).ok().unwrap();
    let entry = &operations(&document)[0];
    let operation =
        Operation::parse(&document, &[], entry, Url::parse("http://localhost").unwrap(), &[], true).unwrap();
    let schema = operation.arguments.schema;
    Schema::for_arguments(schema.clone()).unwrap();
    let layout = operation.arguments.body.map(|(_, layout)| layout);
    expected.assert_eq(&format!("{layout:?}\n{schema}"));
}

fn id() -> Value {
    json!([{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}])
}

fn json_body(schema: &Value, is_required: bool) -> Value {
    json!({"required": is_required, "description": "The pet.", "content": {"application/json": {"schema": schema}}})
}

#[test]
fn properties_of_the_body_are_arguments() {
    let named = json!({"$ref": "#/components/schemas/Named"});
    check(
        id(),
        json_body(&named, true),
        &expect![[r#"
        Some(Members)
        {"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"}},"required":["id","name"]}"#]],
    );
}

#[test]
fn objects_of_an_all_of_are_combined() {
    let composed = json!({"allOf": [
        {"$ref": "#/components/schemas/Named"}, {"$ref": "#/components/schemas/Aged"}, {"required": ["age"], "type": "object"},
    ]});
    check(
        id(),
        json_body(&composed, true),
        &expect![[r#"
        Some(Members)
        {"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"},"age":{"type":"integer"}},"required":["id","name","age"]}"#]],
    );
}

/// A property with the name of a parameter would be ambiguous.
#[test]
fn body_with_the_name_of_a_parameter_is_one_argument() {
    let schema = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
    check(
        id(),
        json_body(&schema, true),
        &expect![[r#"
        Some(Single("body"))
        {"type":"object","properties":{"id":{"type":"integer"},"body":{"type":"object","properties":{"id":{"type":"integer"}},"description":"The pet."}},"required":["id","body"],"additionalProperties":false}"#]],
    );
}

/// An optional body may be absent although it has required properties.
#[test]
fn optional_body_with_required_properties_is_one_argument() {
    check(
        id(),
        json_body(&json!({"$ref": "#/components/schemas/Named"}), false),
        &expect![[r##"
        Some(Single("body"))
        {"type":"object","properties":{"id":{"type":"integer"},"body":{"$ref":"#/$defs/Named","description":"The pet."}},"required":["id"],"additionalProperties":false,"$defs":{"Named":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}}}"##]],
    );
}

/// A union, a free-form object and an array have no list of properties.
#[test]
fn other_bodies_are_one_argument() {
    let union =
        json!({"oneOf": [{"$ref": "#/components/schemas/Named"}, {"$ref": "#/components/schemas/Aged"}]});
    check(
        id(),
        json_body(&union, true),
        &expect![[r##"
        Some(Single("body"))
        {"type":"object","properties":{"id":{"type":"integer"},"body":{"oneOf":[{"$ref":"#/$defs/Named"},{"$ref":"#/$defs/Aged"}],"description":"The pet."}},"required":["id","body"],"additionalProperties":false,"$defs":{"Named":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}},"Aged":{"type":"object","properties":{"age":{"type":"integer"}}}}}"##]],
    );
    check(
        id(),
        json_body(&json!({"type": "object"}), true),
        &expect![[r#"
        Some(Single("body"))
        {"type":"object","properties":{"id":{"type":"integer"},"body":{"type":"object","description":"The pet."}},"required":["id","body"],"additionalProperties":false}"#]],
    );
    let list = json!({"type": "array", "items": {"type": "string"}});
    check(
        id(),
        json_body(&list, false),
        &expect![[r#"
        Some(Single("body"))
        {"type":"object","properties":{"id":{"type":"integer"},"body":{"type":"array","items":{"type":"string"},"description":"The pet."}},"required":["id"],"additionalProperties":false}"#]],
    );
}

#[test]
fn names_of_parameters_are_valid_and_unique() {
    let parameters = json!([
        {"name": "id", "in": "path", "required": true},
        {"name": "id", "in": "query"},
        {"name": "filter[status]", "in": "query", "description": "The status."},
        {"name": "$top", "in": "query"},
        {"name": "X-Trace", "in": "header"},
        {"name": "body", "in": "query"},
    ]);
    check(
        parameters,
        json!({"content": {"text/plain": {}}}),
        &expect![[r#"
        Some(Single("body_2"))
        {"type":"object","properties":{"id_path":{},"id_query":{},"filter_status":{"description":"The status."},"top":{},"X-Trace":{},"body":{},"body_2":{"type":"string","description":"The body, as text/plain."}},"required":["id_path"],"additionalProperties":false}"#]],
    );
}

#[test]
fn files_are_arguments_in_base64() {
    let schema = json!({"type": "object", "required": ["photo"], "properties": {
        "photo": {"type": "string", "format": "binary", "description": "A photo."},
        "others": {"type": "array", "items": {"type": "string", "contentMediaType": "application/octet-stream"}},
        "optional": {"anyOf": [{"type": "array", "items": {"type": "string", "format": "binary"}}, {"type": "null"}]},
        "title": {"type": "string"},
    }});
    let form = json!({"required": true, "content": {"multipart/form-data": {"schema": schema}}});
    check(
        id(),
        form,
        &expect![[r#"
            Some(Members)
            {"type":"object","properties":{"id":{"type":"integer"},"photo":{"type":"string","contentEncoding":"base64","description":"A photo. The file is in base64."},"others":{"type":"array","items":{"type":"string","contentEncoding":"base64"},"description":"The content of the file, in base64."},"optional":{"type":"array","items":{"type":"string","contentEncoding":"base64"},"description":"The content of the file, in base64."},"title":{"type":"string"}},"required":["id","photo"]}"#]],
    );
    let raw = json!({"required": true, "content": {"image/png": {}}});
    check(
        id(),
        raw,
        &expect![[r#"
        Some(Single("body"))
        {"type":"object","properties":{"id":{"type":"integer"},"body":{"type":"string","contentEncoding":"base64","description":"The body of type image/png, in base64."}},"required":["id","body"],"additionalProperties":false}"#]],
    );
}

proptest! {
    /// Two parameters never share an argument, and each name is valid for the APIs of models.
    #[test]
    fn argument_names_are_injective(names in proptest::collection::vec(("[a-c_\\[$é]{0,4}|id|id_query|[a-z]{80}", 0..4_usize), 0..8)) {
        let locations = [Location::Path, Location::Query, Location::Header, Location::Cookie];
        let parameter = |(name, location): &(String, usize)| Parameter {
            name: name.clone(),
            location: locations[*location],
            is_required: false,
            style: Style::Json,
            schema: json!({}),
        };
        let arguments = argument_names(&names.iter().map(parameter).collect::<Vec<_>>());
        let unique: std::collections::BTreeSet<_> = arguments.iter().collect();
        prop_assert_eq!(unique.len(), names.len(), "{:?}", arguments);
        for name in &arguments {
            prop_assert!((1..=64).contains(&name.len()), "{name}");
            prop_assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c)), "{name}");
        }
    }
}
