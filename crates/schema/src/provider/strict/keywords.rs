//! The treatment of each keyword in the strict modes.

use super::super::super::preflight::regex_size::needs_backtracking;
use super::super::flatten::KeywordEntry;
use super::super::json_types::constrained_type;
use super::StrictMode;

/// The values of `format` that both strict modes support. Anthropic also supports `uri`.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The treatment of a keyword in the derivation of a strict schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordAction {
    /// The keyword is copied to the strict schema.
    Keep,
    /// The keyword is skipped and not reported. Either it does not apply to values of the schema's
    /// types, or another function handles it.
    Skip,
    /// The keyword becomes a note in the description. Without the keyword, the strict schema allows
    /// more values than the original, but never fewer.
    Describe,
    /// The whole schema is rejected for strict mode. The keyword has no strict form, and its
    /// omission would change the meaning of the schema.
    Reject,
}

/// Returns the treatment of the keyword `entry` in a schema for values of the given `types`.
///
/// `has_optional` is `true` if the schema has optional properties. In OpenAI's strict mode, an absent
/// optional property is sent as `null`. `maxProperties` and `dependentRequired` would treat this
/// property as present, so they are rejected. In Anthropic's strict mode, an optional property can
/// be absent.
pub(super) fn keyword_action(
    mode: StrictMode,
    entry: &KeywordEntry<'_>,
    types: &[&str],
    has_optional: bool,
) -> KeywordAction {
    let is_about = |name: &str| types.contains(&name) || (name == "number" && types.contains(&"integer"));
    if constrained_type(entry.name).is_some_and(|name| !is_about(name)) {
        return KeywordAction::Skip;
    }
    let text = entry.value.as_str().unwrap_or_default();
    let is_openai = mode == StrictMode::OpenAi;
    match entry.name {
        "minItems" if !is_openai && entry.value.as_u64().is_some_and(|number| number <= 1) => {
            KeywordAction::Keep
        }
        "format" if !is_openai && text == "uri" => KeywordAction::Keep,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" | "minItems"
        | "maxItems"
            if is_openai =>
        {
            KeywordAction::Keep
        }
        // Strict mode does not support look-around in regular expressions.
        "pattern" if is_openai && !needs_backtracking(text) => KeywordAction::Keep,
        "format" if FORMATS.contains(&text) => KeywordAction::Keep,
        "not" if types.iter().any(|name| matches!(*name, "object" | "array")) => KeywordAction::Reject,
        "maxProperties" | "dependentRequired" if is_openai && has_optional => KeywordAction::Reject,
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
