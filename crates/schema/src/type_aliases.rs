//! Suggestions for type names that JSON Schema does not define, such as `dict`.

use serde_json::Value;

use super::wording;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// The minimum Jaro-Winkler similarity between a misspelled type name and the suggested name, from
/// 0 to 1.
const MIN_SIMILARITY: f64 = 0.8;

/// Explains why `value` is invalid for the keyword `type`, and suggests the intended type. Returns
/// `None` if the intended type cannot be guessed.
pub(super) fn explain(value: &Value) -> Option<String> {
    let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let name = names.iter().filter_map(Value::as_str).find(|name| !TYPES.contains(name))?;
    let known = name.to_lowercase();
    let quoted = wording::quoted(name);
    if matches!(known.as_str(), "any" | "mixed" | "unknown") {
        return Some(format!("{quoted} is not a type of JSON Schema, omit `type` to allow any value"));
    }
    let intended = intended_type(&known)?;
    Some(format!("{quoted} is not a type of JSON Schema, expected \"{intended}\""))
}

/// Returns the JSON Schema type that the lower-case `name` probably means, for example `object` for
/// `dict`. Returns `None` if the type cannot be guessed.
fn intended_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "dict" | "dictionary" | "hashmap" | "map" | "record" | "struct" => "object",
        "list" | "tuple" | "set" | "arraylist" => "array",
        "float" | "double" | "decimal" | "real" => "number",
        "int" | "long" | "short" | "byte" | "int32" | "int64" => "integer",
        "str" | "char" | "text" | "date" | "datetime" => "string",
        "bool" => "boolean",
        "none" | "nil" | "undefined" => "null",
        _ if name.len() > 2 * "integer".len() => return None,
        _ => TYPES.into_iter().find(|known| strsim::jaro_winkler(name, known) >= MIN_SIMILARITY)?,
    })
}
