//! Which keywords the strict subset has.

use super::super::super::preflight::pattern::backtracks;
use super::super::flat::Entry;
use super::super::kinds::subject;

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

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
