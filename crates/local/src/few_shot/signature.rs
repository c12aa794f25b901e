//! Rendering of tool parameters as a function signature.

use haft_core::schema::{Property, Schema};
use serde_json::Value;

/// The maximum nesting depth of a parameter's type. Deeper types are rendered as `any`.
const MAX_TYPE_DEPTH: usize = 3;

/// Renders the parameters that `schema`, the input schema of a tool, declares. For example, returns
/// `city: string, unit: "c" | "f" = "c" /* The unit */`.
pub(super) fn signature(schema: &Schema) -> String {
    let parameters: Vec<_> =
        schema.properties().map(|property| parameter(schema.as_value(), &property)).collect();
    parameters.join(", ")
}

fn parameter(root: &Value, property: &Property<'_>) -> String {
    let note = property.schema.get("description").and_then(Value::as_str);
    let note = note.map(|note| note.split_whitespace().collect::<Vec<_>>().join(" "));
    let note = note.map(|note| format!(" /* {} */", note.trim_end_matches('.'))).unwrap_or_default();
    let default = property.schema.get("default").filter(|default| !default.is_null());
    let kind = type_text(root, property.schema, MAX_TYPE_DEPTH);
    match default {
        Some(default) => format!("{}: {kind} = {default}{note}", property.name),
        None if property.is_required => format!("{}: {kind}{note}", property.name),
        None => format!("{}?: {kind}{note}", property.name),
    }
}

fn type_text(root: &Value, schema: &Value, depth: usize) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "any".to_owned() };
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    if let Some(values) = list("enum") {
        return alternatives(values.iter().map(Value::to_string));
    }
    if let Some(options) = list("anyOf").or(list("oneOf")) {
        return alternatives(options.iter().map(|option| type_text(root, option, depth)));
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or_else(|| "any".to_owned(), |target| type_text(root, target, depth));
    }
    match schema.get("type") {
        Some(Value::String(name)) => named_type_text(root, schema, name, depth),
        Some(Value::Array(names)) => alternatives(
            names.iter().filter_map(Value::as_str).map(|name| named_type_text(root, schema, name, depth)),
        ),
        _ => "any".to_owned(),
    }
}

fn named_type_text(root: &Value, schema: &Value, name: &str, depth: usize) -> String {
    match (name, schema.get("items"), schema.get("properties").and_then(Value::as_object)) {
        ("array", Some(items), _) => format!("{}[]", type_text(root, items, depth)),
        ("object", _, Some(properties)) if !properties.is_empty() => {
            let fields =
                properties.iter().map(|(name, schema)| format!("{name}: {}", type_text(root, schema, depth)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        ("string", ..) => schema.get("format").and_then(Value::as_str).unwrap_or("string").to_owned(),
        _ => name.to_owned(),
    }
}

fn alternatives(kinds: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for kind in kinds {
        if !distinct.contains(&kind) {
            distinct.push(kind);
        }
    }
    distinct.join(" | ")
}
