//! The JSON types of the values that a schema allows.

use serde_json::Value;

use super::change::SchemaChange;
use super::flatten::FlatSchema;
use crate::json_type;

/// The JSON types that a schema allows, either declared by `type` or derived from other keywords.
pub(super) struct Types<'s> {
    pub(super) names: Vec<&'s str>,
    /// `true` if the schema has none of `type`, `enum` and `const`, so that `names` was derived
    /// from other keywords.
    pub(super) is_assumed: bool,
}

/// Returns the types of the values that are valid for `flat`. Fails if the types cannot be derived,
/// or if no value is valid.
pub(super) fn infer_types<'s>(flat: &FlatSchema<'s>) -> Result<Types<'s>, SchemaChange> {
    let declared: Option<Vec<&str>> = match flat.keyword("type").map(|it| it.value) {
        Some(Value::String(name)) => Some(vec![name]),
        Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    };
    let names = match (declared, allowed_values(flat)) {
        (Some(names), None) => names,
        (Some(mut names), Some(constants)) => {
            names.retain(|name| constants.iter().any(|it| has_type(it, name)));
            names
        }
        (None, Some(allowed_values)) => distinct_types(&allowed_values),
        (None, None) => {
            let name = assumed_type(flat)
                .ok_or_else(|| SchemaChange::not_strict(&flat.pointer, "type", "any value fits"))?;
            return Ok(Types { names: vec![name], is_assumed: true });
        }
    };
    if names.is_empty() {
        return Err(SchemaChange::not_strict(&flat.pointer, "type", "no value fits"));
    }
    Ok(Types { names, is_assumed: false })
}

/// Returns the values in the `enum` or `const` of `flat`, or `None` if `flat` has neither. If
/// `flat` has both, returns only the `const` value, or an empty list if the `enum` does not contain
/// this value.
pub(super) fn allowed_values<'s>(flat: &FlatSchema<'s>) -> Option<Vec<&'s Value>> {
    let options = flat.keyword("enum").and_then(|it| it.value.as_array()).map(|it| it.iter().collect());
    match flat.keyword("const") {
        Some(only) => {
            let is_option = |options: &Vec<&Value>| options.contains(&only.value);
            Some(if options.as_ref().is_none_or(is_option) { vec![only.value] } else { Vec::new() })
        }
        None => options,
    }
}

/// Returns `true` if `value` has the JSON Schema type `name`. `3.0` is an `integer` and a `number`.
pub(super) fn has_type(value: &Value, name: &str) -> bool {
    let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    match name {
        "integer" => is_whole(),
        "number" => value.is_number(),
        _ => json_type(value) == name,
    }
}

/// Returns the JSON Schema types of `values` without duplicates. All numbers count as `number` if
/// at least one number has a fraction, and as `integer` if no number has a fraction.
fn distinct_types(values: &[&Value]) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    let has_fraction = values.iter().any(|value| value.is_number() && !has_type(value, "integer"));
    for value in values {
        let kind = match json_type(value) {
            "number" | "integer" => {
                if has_fraction {
                    "number"
                } else {
                    "integer"
                }
            }
            kind => kind,
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

/// Returns the only JSON Schema type that the keywords of `flat` constrain. Returns `None` if they
/// constrain no type or several types.
fn assumed_type(flat: &FlatSchema<'_>) -> Option<&'static str> {
    let is_object = !flat.properties.is_empty() || !flat.required.is_empty();
    let mut subjects = flat.keywords.iter().filter_map(|it| constrained_type(it.name));
    let first = if is_object { "object" } else { subjects.next()? };
    subjects.all(|it| it == first).then_some(first)
}

/// Returns the JSON Schema type that `keyword` constrains. The keyword has no effect on values of
/// other types. Returns `None` for a keyword that applies to all types, such as `enum`.
pub(super) fn constrained_type(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "minLength" | "maxLength" | "pattern" | "format" => "string",
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => "number",
        "items" | "prefixItems" | "additionalItems" | "unevaluatedItems" | "contains" | "minContains"
        | "maxContains" | "minItems" | "maxItems" | "uniqueItems" => "array",
        "additionalProperties"
        | "patternProperties"
        | "unevaluatedProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "dependencies" => "object",
        _ => return None,
    })
}
