//! Regular expressions for string formats. They replace formats that the grammar engine does not
//! support, or for which its own pattern is too permissive.

use serde_json::{Map, Value};

/// The formats that remain in a derived schema. The grammar engine has its own pattern for each of
/// them.
const ENGINE_FORMATS: [&str; 8] =
    ["date-time", "time", "date", "duration", "hostname", "ipv4", "ipv6", "uuid"];

/// A pattern for email addresses that limits the length of the local part and of each label. The
/// engine's own pattern has no limits and permits long addresses, which validation rejects.
const EMAIL_PATTERN: &str = r"^[A-Za-z0-9_+-]{1,30}(\.[A-Za-z0-9_+-]{1,15}){0,2}@[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?){1,3}$";

/// Returns a regular expression for the string format `format`, or `None` if this module has none.
/// The expression may be stricter than the format.
fn format_pattern(format: &str) -> Option<&'static str> {
    Some(match format {
        "uri" | "iri" => {
            r"^(https?|file)://[a-z0-9]+(\.[a-z0-9]+)*(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~-]*)*(\?[A-Za-z0-9=&_-]*)?$"
        }
        "uri-reference" | "iri-reference" => r"^(https?://[a-z0-9]+(\.[a-z0-9]+)*)?(/[A-Za-z0-9._~-]*)*$",
        "uri-template" => r"^(https?://[a-z0-9]+(\.[a-z0-9]+)*)?(/[A-Za-z0-9._~-]*|/\{[a-z]+\})*$",
        "email" | "idn-email" => EMAIL_PATTERN,
        "idn-hostname" => r"^[a-z0-9]+(\.[a-z0-9]+)*$",
        "json-pointer" => r"^(/([A-Za-z0-9_. -]|~[01])*)*$",
        "relative-json-pointer" => r"^(0|[1-9][0-9]{0,3})(#|(/([A-Za-z0-9_. -]|~[01])*)*)$",
        "regex" => r"^[A-Za-z0-9 _.^$-]*$",
        _ => return None,
    })
}

/// Adds the string format `format` to the schema `derived`: as the keyword `format` if it is in
/// [`ENGINE_FORMATS`], and otherwise as a pattern. An existing pattern is not replaced. An
/// unknown format is ignored, as JSON Schema specifies.
pub(super) fn add_format(format: &Value, derived: &mut Map<String, Value>) {
    let name = format.as_str().unwrap_or_default();
    if ENGINE_FORMATS.contains(&name) {
        derived.insert("format".to_owned(), format.clone());
    } else if let Some(pattern) = format_pattern(name)
        && !derived.contains_key("pattern")
    {
        derived.insert("pattern".to_owned(), Value::from(pattern));
    }
}
