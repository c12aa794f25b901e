//! The keywords that OpenAI's strict mode supports.

use super::super::super::preflight::pattern::backtracks;
use super::super::flatten::Entry;
use super::super::json_types::constrained_type;

/// The values of `format` that strict mode supports.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The treatment of a keyword in a strict schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordAction {
    /// The keyword is copied to the strict schema.
    Keep,
    /// The keyword is omitted without a report, because it has no effect on the given types, or
    /// because other code derives it.
    Skip,
    /// The keyword is moved to the description. The derived schema then allows more values than the
    /// original, never fewer.
    Describe,
    /// The keyword has no strict form and cannot be omitted without changing the meaning of the
    /// schema, so the schema has no strict form.
    Reject,
}

/// Returns the treatment of the keyword `entry` in a schema for values of the given `types`.
///
/// If `has_optional` is set, absent optional properties are sent as `null`. `maxProperties` and
/// `dependentRequired` would count these properties, so they are rejected.
pub(super) fn keyword_action(entry: &Entry<'_>, types: &[&str], has_optional: bool) -> KeywordAction {
    let is_about = |name: &str| types.contains(&name) || (name == "number" && types.contains(&"integer"));
    if constrained_type(entry.name).is_some_and(|name| !is_about(name)) {
        return KeywordAction::Skip;
    }
    let text = entry.value.as_str().unwrap_or_default();
    match entry.name {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems"
        | "maxItems" => KeywordAction::Keep,
        // The regular expressions of strict mode have no look-around.
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
