//! The rules that a converted schema must follow for its target, from the documentation of the
//! providers.

use haft_core::schema::{ProviderSchema, SchemaTarget};
use serde_json::{Value, json};

/// The JSON Schema keywords supported by OpenAI's strict mode.
const STRICT_KEYWORDS: [&str; 21] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// The JSON Schema keywords supported by Gemini. `title` and `type` are not listed.
const GEMINI: [&str; 19] = [
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "required",
];

/// The JSON Schema keywords that are not allowed in schemas for small models.
const NOT_SMALL: [&str; 7] = ["$defs", "$ref", "$schema", "definitions", "if", "not", "title"];

/// Returns a description of each violation of the rules for `target` in the converted schema.
pub(super) fn broken_rules(target: SchemaTarget, converted: &ProviderSchema) -> Vec<String> {
    let mut broken = Vec::new();
    if converted.value["type"] != "object" {
        broken.push("the root is not an object".to_owned());
    }
    if target != SchemaTarget::OpenAiStrict && converted.is_strict {
        broken.push("strict without a strict mode".to_owned());
    }
    match target {
        SchemaTarget::OpenAiStrict if converted.is_strict => {
            check_each_subschema("", &converted.value, &mut broken, &strict_violations);
        }
        SchemaTarget::OpenAi | SchemaTarget::OpenAiStrict => {
            let rejected = ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"].into_iter();
            let rejected = rejected.filter(|keyword| converted.value.get(keyword).is_some());
            broken.extend(rejected.map(|keyword| format!("`{keyword}` at the root")));
        }
        SchemaTarget::Gemini => check_each_subschema("", &converted.value, &mut broken, &gemini),
        _ => check_each_subschema("", &converted.value, &mut broken, &small),
    }
    broken
}

/// Applies `rule` to `schema` and to each of its subschemas. Adds each violation to `broken`, with
/// the JSON pointer of the subschema.
fn check_each_subschema(
    at: &str,
    schema: &Value,
    broken: &mut Vec<String>,
    rule: &impl Fn(&Value) -> Vec<String>,
) {
    broken.extend(rule(schema).into_iter().map(|problem| format!("{at}: {problem}")));
    for holder in ["properties", "$defs"] {
        for (name, inner) in schema[holder].as_object().into_iter().flatten() {
            check_each_subschema(&format!("{at}/{holder}/{name}"), inner, broken, rule);
        }
    }
    for keyword in ["anyOf", "oneOf", "prefixItems"] {
        for (index, inner) in schema[keyword].as_array().into_iter().flatten().enumerate() {
            check_each_subschema(&format!("{at}/{keyword}/{index}"), inner, broken, rule);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner @ Value::Object(_)) = schema.get(keyword) {
            check_each_subschema(&format!("{at}/{keyword}"), inner, broken, rule);
        }
    }
}

fn strict_violations(schema: &Value) -> Vec<String> {
    let Some(keywords) = schema.as_object() else { return vec!["no object".to_owned()] };
    let unknown = keywords.keys().filter(|keyword| !STRICT_KEYWORDS.contains(&keyword.as_str()));
    let mut broken: Vec<_> = unknown.map(|keyword| format!("`{keyword}`")).collect();
    if keywords.contains_key("$ref") && keywords.len() > 1 {
        broken.push("a keyword beside `$ref`".to_owned());
    }
    if !["type", "$ref", "anyOf"].iter().any(|keyword| keywords.contains_key(*keyword)) {
        broken.push("no type".to_owned());
    }
    let is = |name: &str| {
        schema["type"] == name || schema["type"].as_array().is_some_and(|it| it.contains(&json!(name)))
    };
    let names: Vec<_> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| json!(name)).collect();
    if is("object") && schema["required"].as_array() != Some(&names) {
        broken.push("not all properties are required".to_owned());
    }
    if is("object") && schema["additionalProperties"] != json!(false) {
        broken.push("`additionalProperties` is not `false`".to_owned());
    }
    if is("array") && !schema["items"].is_object() {
        broken.push("no schema for items".to_owned());
    }
    broken
}

fn gemini(schema: &Value) -> Vec<String> {
    let Some(keywords) = schema.as_object() else { return vec!["no object".to_owned()] };
    let known = |keyword: &str| GEMINI.contains(&keyword) || keyword == "title" || keyword == "type";
    let unknown = keywords.keys().filter(|keyword| !known(keyword));
    let mut broken: Vec<_> = unknown.map(|keyword| format!("`{keyword}`")).collect();
    let beside_any_of = ["anyOf", "description", "nullable", "title"];
    if keywords.contains_key("anyOf") {
        let others = keywords.keys().filter(|keyword| !beside_any_of.contains(&keyword.as_str()));
        broken.extend(others.map(|keyword| format!("`{keyword}` beside `anyOf`")));
    } else if !schema["type"].is_string() {
        broken.push("not a single type".to_owned());
    }
    if schema["type"] == "array" && !schema["items"].is_object() {
        broken.push("no items".to_owned());
    }
    let mut options = schema["enum"].as_array().into_iter().flatten();
    if !options.all(|option| option.as_str().is_some_and(|text| !text.is_empty())) {
        broken.push("an enum value that is not text".to_owned());
    }
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if !required.all(|name| schema["properties"].get(name).is_some()) {
        broken.push("a required property without a schema".to_owned());
    }
    broken
}

fn small(schema: &Value) -> Vec<String> {
    let found = NOT_SMALL.into_iter().filter(|keyword| schema.get(keyword).is_some());
    let mut broken: Vec<_> = found.map(|keyword| format!("`{keyword}`")).collect();
    if schema["description"].as_str().is_some_and(|text| text.len() > 300) {
        broken.push("a long description".to_owned());
    }
    broken
}
