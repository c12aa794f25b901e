//! Which keywords are about which type, and which of them the strict subset has.

use serde_json::Value;

use super::super::super::preflight::pattern::backtracks;
use super::super::flat::{Entry, Flat};
use super::super::loss::Loss;

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The types of the values that a schema is about.
pub(super) struct Types<'s> {
    pub(super) names: Vec<&'s str>,
    /// Whether none is given, so that they follow from the other keywords.
    pub(super) is_assumed: bool,
}

/// The types of the values that fit.
pub(super) fn types<'s>(flat: &Flat<'s>) -> Result<Types<'s>, Loss> {
    let declared: Option<Vec<&str>> = match flat.keyword("type").map(|it| it.value) {
        Some(Value::String(name)) => Some(vec![name]),
        Some(Value::Array(names)) => Some(names.iter().filter_map(Value::as_str).collect()),
        _ => None,
    };
    let names = match (declared, constants(flat)) {
        (Some(names), None) => names,
        (Some(mut names), Some(constants)) => {
            names.retain(|name| constants.iter().any(|it| is_of(it, name)));
            names
        }
        (None, Some(constants)) => kinds(&constants),
        (None, None) => {
            let name = assumed(flat).ok_or_else(|| Loss::not_strict(&flat.at, "type", "any value fits"))?;
            return Ok(Types { names: vec![name], is_assumed: true });
        }
    };
    if names.is_empty() {
        return Err(Loss::not_strict(&flat.at, "type", "no value fits"));
    }
    Ok(Types { names, is_assumed: false })
}

/// The values of `enum` or `const`.
pub(super) fn constants<'s>(flat: &Flat<'s>) -> Option<Vec<&'s Value>> {
    let options = flat.keyword("enum").and_then(|it| it.value.as_array()).map(|it| it.iter().collect());
    match flat.keyword("const") {
        Some(only) => {
            let is_option = |options: &Vec<&Value>| options.contains(&only.value);
            Some(if options.as_ref().is_none_or(is_option) { vec![only.value] } else { Vec::new() })
        }
        None => options,
    }
}

/// Whether a value is of a type.
pub(super) fn is_of(value: &Value, name: &str) -> bool {
    let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    match name {
        "integer" => is_whole(),
        "number" => value.is_number(),
        _ => kind(value) == name,
    }
}

/// The types of some values, each once. Among numbers that are not all whole, all are numbers.
fn kinds(values: &[&Value]) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    let has_fraction = values.iter().any(|value| value.is_number() && !is_of(value, "integer"));
    for value in values {
        let kind = match kind(value) {
            "number" if !has_fraction => "integer",
            kind => kind,
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The one type that all keywords are about.
fn assumed(flat: &Flat<'_>) -> Option<&'static str> {
    let is_object = !flat.properties.is_empty() || !flat.required.is_empty();
    let mut subjects = flat.keywords.iter().filter_map(|it| subject(it.name));
    let first = if is_object { "object" } else { subjects.next()? };
    subjects.all(|it| it == first).then_some(first)
}

/// The type that a keyword is about. It says nothing of values of others.
fn subject(keyword: &str) -> Option<&'static str> {
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

/// What becomes of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    /// It says nothing here, or it is handled elsewhere.
    Skipped,
    /// It may be left out: the model can then say more, and nothing that it should say is refused.
    Told,
    /// Without it the schema would mean something else.
    Refused,
}

/// What becomes of a keyword in a schema of these types. `has_optional` says that properties may be `null` for absent:
/// a rule that a further property can break would be broken by what was meant to be absent.
pub(super) fn fate(entry: &Entry<'_>, types: &[&str], has_optional: bool) -> Fate {
    let is_about = |name: &str| types.contains(&name) || (name == "number" && types.contains(&"integer"));
    if subject(entry.name).is_some_and(|name| !is_about(name)) {
        return Fate::Skipped;
    }
    let text = entry.value.as_str().unwrap_or_default();
    match entry.name {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems"
        | "maxItems" => Fate::Kept,
        // The expressions of the subset do not look around.
        "pattern" if !backtracks(text) => Fate::Kept,
        "format" if FORMATS.contains(&text) => Fate::Kept,
        "not" if types.iter().any(|name| matches!(*name, "object" | "array")) => Fate::Refused,
        "maxProperties" | "dependentRequired" if has_optional => Fate::Refused,
        "$dynamicRef" | "if" | "then" | "else" | "dependentSchemas" | "dependencies"
        | "patternProperties" | "prefixItems" | "additionalItems" | "unevaluatedItems" => Fate::Refused,
        "type" | "enum" | "const" | "items" | "additionalProperties" | "unevaluatedProperties" => {
            Fate::Skipped
        }
        _ => Fate::Told,
    }
}
