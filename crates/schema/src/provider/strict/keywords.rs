//! The keywords of the strict subset.

use super::super::super::preflight::pattern::backtracks;
use super::super::flatten::Entry;
use super::super::json_types::subject;

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The treatment of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordAction {
    Keep,
    /// The keyword has no effect here, or is handled elsewhere.
    Skip,
    /// The keyword moves to the description. The schema then allows more values, never fewer.
    Describe,
    /// The keyword cannot be dropped without changing the meaning of the schema.
    Reject,
}

/// Returns the treatment of a keyword in a schema of the given types.
///
/// With `has_optional`, absent properties are sent as `null`. Constraints on the number of
/// properties would then count properties that are meant to be absent.
pub(super) fn keyword_action(entry: &Entry<'_>, types: &[&str], has_optional: bool) -> KeywordAction {
    let is_about = |name: &str| types.contains(&name) || (name == "number" && types.contains(&"integer"));
    if subject(entry.name).is_some_and(|name| !is_about(name)) {
        return KeywordAction::Skip;
    }
    let text = entry.value.as_str().unwrap_or_default();
    match entry.name {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems"
        | "maxItems" => KeywordAction::Keep,
        // The subset has no look-around.
        "pattern" if !backtracks(text) => KeywordAction::Keep,
        "format" if FORMATS.contains(&text) => KeywordAction::Keep,
        "not" if types.iter().any(|name| matches!(*name, "object" | "array")) => KeywordAction::Reject,
        "maxProperties" | "dependentRequired" if has_optional => KeywordAction::Reject,
        "$dynamicRef" | "if" | "then" | "else" | "dependentSchemas" | "dependencies"
        | "patternProperties" | "prefixItems" | "additionalItems" | "unevaluatedItems" => {
            KeywordAction::Reject
        }
        "type" | "enum" | "const" | "items" | "additionalProperties" | "unevaluatedProperties" => {
            KeywordAction::Skip
        }
        _ => KeywordAction::Describe,
    }
}
