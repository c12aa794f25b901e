//! Schemas of servers with defects that cost a check, and not the tool.

use haft_core::Schema;
use serde_json::{Map, Value, json};

/// The maximum number of defects that are named.
const MAX_NAMED: usize = 3;

/// The maximum number of patterns that are compiled in search of a defective one. With more
/// patterns, none is checked.
const MAX_TRIED_PATTERNS: usize = 32;

/// The keywords whose value is any JSON value.
const VALUES: [&str; 2] = ["const", "default"];
/// The keywords whose value is a list of JSON values.
const VALUE_LISTS: [&str; 3] = ["enum", "examples", "example"];
/// The keywords whose value is an object of schemas by name.
const SCHEMA_MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// The keywords that constrain values (JSON Schema 2020-12 and draft 7). The other ones are
/// annotations, definitions or unknown.
const ASSERTIONS: [&str; 38] = [
    "type",
    "enum",
    "const",
    "format",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "prefixItems",
    "items",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$ref",
    "$dynamicRef",
];
/// The keywords under which a schema with fewer constraints would accept less.
const INVERTING: [&str; 3] = ["not", "if", "oneOf"];

/// Compiles `schema` with `compile`. A keyword with the value `null` is an absent keyword, and a
/// pattern that cannot be compiled is left out. Without `$schema`, a list in `items` is the tuple
/// of draft 7, as many generators write it. Returns the schema, and a description of what it does
/// not check.
///
/// # Errors
///
/// Returns a description of a fault other than these.
pub(crate) fn compile<E: ToString>(
    mut schema: Value,
    compile: impl Fn(Value) -> Result<Schema, E>,
) -> Result<(Schema, Option<String>), String> {
    let mut nulls = Vec::new();
    remove_nulls(&mut schema, "", &mut nulls);
    if schema.get("$schema").is_none() {
        rename_tuples(&mut schema);
    }
    let mut defects: Vec<_> = nulls.into_iter().map(|pointer| format!("{pointer} is null")).collect();
    let first = match compile(schema.clone()) {
        Ok(compiled) => return Ok((compiled, describe(&defects))),
        Err(error) => error.to_string(),
    };
    let mut patterns = 0;
    count_patterns(&schema, &mut patterns);
    let is_defective = |pattern: &str| Schema::new(json!({ "pattern": pattern })).is_err();
    let all: &dyn Fn(&str) -> bool = &|_| true;
    let drops: &[_] = if patterns > MAX_TRIED_PATTERNS { &[all] } else { &[&is_defective, all] };
    for drops in drops {
        let mut dropped = Vec::new();
        drop_patterns(&mut schema, "", drops, &mut dropped);
        if dropped.is_empty() {
            continue;
        }
        defects.extend(dropped.into_iter().map(|pointer| format!("{pointer} cannot be compiled")));
        if let Ok(compiled) = compile(schema.clone()) {
            return Ok((compiled, describe(&defects)));
        }
    }
    Err(first)
}

fn describe(defects: &[String]) -> Option<String> {
    let named = defects.get(..MAX_NAMED.min(defects.len()))?.join(", ");
    match defects.len() {
        0 => None,
        count if count > MAX_NAMED => Some(format!("{named}, and {} more", count - MAX_NAMED)),
        _ => Some(named),
    }
}

/// Removes the keywords of `schema` with the value `null`, and adds the pointers of those that
/// would constrain values to `removed`.
fn remove_nulls(schema: &mut Value, pointer: &str, removed: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            members.retain(|key, value| {
                let is_kept = !value.is_null() || VALUES.contains(&key.as_str());
                if !is_kept && is_assertion(key) {
                    removed.push(format!("{pointer}/{key}"));
                }
                is_kept
            });
            for_each_subschema(members, pointer, &mut |subschema, place| {
                let before = removed.len();
                if subschema.is_null() {
                    *subschema = json!({});
                    removed.push(place.to_owned());
                }
                remove_nulls(subschema, place, removed);
                // The value of an unknown keyword is no schema.
                if !is_assertion(first_segment(place, pointer)) {
                    removed.truncate(before);
                }
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                remove_nulls(item, &format!("{pointer}/{index}"), removed);
            }
        }
        _ => {}
    }
}

fn is_assertion(keyword: &str) -> bool {
    ASSERTIONS.contains(&keyword) || SCHEMA_MAPS.contains(&keyword)
}

/// Returns the first segment of the JSON pointer `place` after `pointer`, its beginning.
fn first_segment<'a>(place: &'a str, pointer: &str) -> &'a str {
    let rest = place.strip_prefix(pointer).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
    rest.split('/').next().unwrap_or_default()
}

/// Replaces the keywords for tuples of draft 7 with those of draft 2020-12: `items` with
/// `prefixItems`, and `additionalItems` with `items`.
fn rename_tuples(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("items").is_some_and(Value::is_array) && !members.contains_key("prefixItems") {
                let rest = members.remove("additionalItems");
                // `prefixItems` has at least one schema.
                let items = members.remove("items").filter(|items| *items != json!([]));
                let items = items.into_iter().map(|items| ("prefixItems".to_owned(), items));
                members.extend(items.chain(rest.map(|rest| ("items".to_owned(), rest))));
            }
            for_each_subschema(members, "", &mut |subschema, _| rename_tuples(subschema));
        }
        Value::Array(items) => items.iter_mut().for_each(rename_tuples),
        _ => {}
    }
}

/// Calls `visit` with each value of `members` that is a schema or a list of schemas.
fn for_each_subschema(
    members: &mut Map<String, Value>,
    pointer: &str,
    visit: &mut dyn FnMut(&mut Value, &str),
) {
    for (key, value) in members {
        let pointer = format!("{pointer}/{key}");
        match value {
            _ if VALUES.contains(&key.as_str()) || VALUE_LISTS.contains(&key.as_str()) => {}
            Value::Object(schemas) if SCHEMA_MAPS.contains(&key.as_str()) => {
                for (name, schema) in schemas {
                    visit(schema, &format!("{pointer}/{name}"));
                }
            }
            value => visit(value, &pointer),
        }
    }
}

/// Adds the number of patterns in `value` to `count`.
fn count_patterns(value: &Value, count: &mut usize) {
    match value {
        Value::Object(members) => {
            let own = members.get("pattern").is_some_and(Value::is_string);
            let names = members.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
            *count += usize::from(own) + names;
            members.values().for_each(|value| count_patterns(value, count));
        }
        Value::Array(items) => items.iter().for_each(|item| count_patterns(item, count)),
        _ => {}
    }
}

/// Removes the patterns of `schema` for which `drops` returns `true`, and adds their pointers to
/// `dropped`. Keywords that would accept less without the pattern are removed as well.
fn drop_patterns(schema: &mut Value, pointer: &str, drops: &dyn Fn(&str) -> bool, dropped: &mut Vec<String>) {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                drop_patterns(item, &format!("{pointer}/{index}"), drops, dropped);
            }
            return;
        }
        _ => return,
    };
    if members.get("pattern").and_then(Value::as_str).is_some_and(drops) {
        members.remove("pattern");
        dropped.push(format!("{pointer}/pattern"));
    }
    if let Some(Value::Object(patterns)) = members.get_mut("patternProperties") {
        let before = dropped.len();
        patterns.retain(|pattern, _| {
            let is_kept = !drops(pattern);
            if !is_kept {
                dropped.push(format!("{pointer}/patternProperties/{pattern}"));
            }
            is_kept
        });
        if dropped.len() > before {
            for rest in ["additionalProperties", "unevaluatedProperties"] {
                members.remove(rest);
            }
        }
    }
    let mut inverted = Vec::new();
    for_each_subschema(members, pointer, &mut |subschema, place| {
        let before = dropped.len();
        drop_patterns(subschema, place, drops, dropped);
        let key = place.rsplit('/').next().unwrap_or_default();
        if dropped.len() > before && place.len() == pointer.len() + 1 + key.len() && INVERTING.contains(&key)
        {
            inverted.push(key.to_owned());
        }
    });
    for key in inverted {
        members.remove(&key);
        if key == "if" {
            members.remove("then");
            members.remove("else");
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_core::Schema;
    use serde_json::{Value, json};

    use super::compile;

    fn compiled(schema: Value) -> (Value, Option<String>) {
        let (schema, unchecked) = compile(schema, Schema::new).unwrap();
        (schema.as_value().clone(), unchecked)
    }

    #[test]
    fn null_keyword_is_absent() {
        for (schema, expected, unchecked) in [
            (
                json!({"type": "string", "maxLength": null}),
                json!({"type": "string"}),
                Some("/maxLength is null"),
            ),
            (json!({"title": null, "description": null}), json!({}), None),
            (json!({"enum": null, "required": null}), json!({}), Some("/enum is null, /required is null")),
            (
                json!({"properties": {"x": {"items": null}, "type": {"pattern": null}}}),
                json!({"properties": {"x": {}, "type": {}}}),
                Some("/properties/x/items is null, /properties/type/pattern is null"),
            ),
            (json!({"anyOf": [{"minimum": null}]}), json!({"anyOf": [{}]}), Some("/anyOf/0/minimum is null")),
            (
                json!({"properties": {"x": null}}),
                json!({"properties": {"x": {}}}),
                Some("/properties/x is null"),
            ),
            (
                json!({"default": null, "const": null, "enum": [null], "examples": [null]}),
                json!({"default": null, "const": null, "enum": [null], "examples": [null]}),
                None,
            ),
            (json!({"default": {"pattern": null}}), json!({"default": {"pattern": null}}), None),
            (
                json!({"type": "string", "example": null, "examples": null, "x-order": null, "deprecated": null}),
                json!({"type": "string"}),
                None,
            ),
            (
                json!({"properties": {"example": {"x-ui": {"type": null}, "type": null}}}),
                json!({"properties": {"example": {"x-ui": {}}}}),
                Some("/properties/example/type is null"),
            ),
        ] {
            assert_eq!(compiled(schema.clone()), (expected, unchecked.map(str::to_owned)), "{schema}");
        }
    }

    #[test]
    fn defective_pattern_is_left_out() {
        for (schema, expected) in [
            (json!({"type": "string", "pattern": "("}), json!({"type": "string"})),
            (
                json!({"properties": {"a": {"pattern": "[z-a]"}, "b": {"pattern": "^b$"}}}),
                json!({"properties": {"a": {}, "b": {"pattern": "^b$"}}}),
            ),
            (
                json!({"patternProperties": {"(": {}, "^x": {}}, "additionalProperties": false}),
                json!({"patternProperties": {"^x": {}}}),
            ),
            (json!({"not": {"pattern": "("}}), json!({})),
            (json!({"oneOf": [{"pattern": "("}, {"type": "null"}]}), json!({})),
            (
                json!({"if": {"pattern": "("}, "then": {"maxLength": 1}, "minLength": 1}),
                json!({"minLength": 1}),
            ),
            (json!({"items": [{"pattern": "a{1,99999999}"}]}), json!({"items": [{}]})),
        ] {
            let schema = match schema.get("items").is_some() {
                true => {
                    json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": schema["items"]})
                }
                false => schema,
            };
            let (mut value, unchecked) = compiled(schema.clone());
            value.as_object_mut().unwrap().remove("$schema");
            assert_eq!(value, expected, "{schema}");
            assert!(unchecked.unwrap().contains("cannot be compiled"), "{schema}");
        }
    }

    #[test]
    fn many_patterns_are_not_tried_one_by_one() {
        let properties: serde_json::Map<_, _> = (0..100)
            .map(|n| (format!("p{n}"), json!({"pattern": if n == 50 { "(" } else { "^a$" }})))
            .collect();
        let (schema, unchecked) = compiled(json!({ "properties": properties }));
        assert_eq!(schema["properties"]["p1"], json!({}));
        assert!(unchecked.unwrap().ends_with("and 97 more"));
    }

    #[test]
    fn list_in_items_is_a_tuple() {
        for (schema, expected) in [
            (json!({"items": [{"type": "string"}]}), json!({"prefixItems": [{"type": "string"}]})),
            (
                json!({"properties": {"items": {"items": [true], "additionalItems": false}}}),
                json!({"properties": {"items": {"prefixItems": [true], "items": false}}}),
            ),
            (json!({"anyOf": [{"items": [{"items": []}]}]}), json!({"anyOf": [{"prefixItems": [{}]}]})),
            (json!({"default": {"items": [1]}}), json!({"default": {"items": [1]}})),
        ] {
            assert_eq!(compiled(schema.clone()), (expected, None), "{schema}");
        }
    }

    #[test]
    fn other_fault_is_an_error() {
        for schema in
            [json!({"type": 3}), json!({"$ref": "https://example.org/x"}), json!({"pattern": "(", "type": 3})]
        {
            assert!(compile(schema.clone(), Schema::new).is_err(), "{schema}");
        }
    }
}
