//! Names of types that other languages have, and what they are in JSON Schema.

use serde_json::Value;

use super::describe;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// How alike two names must be for one to be taken for the other, from 0 to 1.
const ALIKE: f64 = 0.8;

/// What is wrong with the value of `type`, if it names a type that can be told.
pub(super) fn explain(value: &Value) -> Option<String> {
    let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let name = names.iter().filter_map(Value::as_str).find(|name| !TYPES.contains(name))?;
    let known = name.to_lowercase();
    let quoted = describe::quoted(name);
    if matches!(known.as_str(), "any" | "mixed" | "unknown") {
        return Some(format!("{quoted} is no type of JSON Schema, leave `type` out where any value fits"));
    }
    let meant = meant(&known)?;
    Some(format!("{quoted} is no type of JSON Schema, expected \"{meant}\""))
}

/// The type that is meant by a name in lower case.
fn meant(name: &str) -> Option<&'static str> {
    Some(match name {
        "dict" | "dictionary" | "hashmap" | "map" | "record" | "struct" => "object",
        "list" | "tuple" | "set" | "arraylist" => "array",
        "float" | "double" | "decimal" | "real" => "number",
        "int" | "long" | "short" | "byte" | "int32" | "int64" => "integer",
        "str" | "char" | "text" | "date" | "datetime" => "string",
        "bool" => "boolean",
        "none" | "nil" | "undefined" => "null",
        _ if name.len() > 2 * "integer".len() => return None,
        _ => TYPES.into_iter().find(|known| strsim::jaro_winkler(name, known) >= ALIKE)?,
    })
}
