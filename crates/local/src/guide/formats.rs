//! Formats that the grammar engine lacks, each as a pattern of texts that surely have it.

use serde_json::{Map, Value};

/// What the engine knows by itself.
const KNOWN: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// A pattern for a format, narrower than the format where its rules are long.
fn pattern(format: &str) -> Option<&'static str> {
    Some(match format {
        "uri" | "iri" => {
            r"^(https?|file)://[a-z0-9]+(\.[a-z0-9]+)*(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~-]*)*(\?[A-Za-z0-9=&_-]*)?$"
        }
        "uri-reference" | "iri-reference" => r"^(https?://[a-z0-9]+(\.[a-z0-9]+)*)?(/[A-Za-z0-9._~-]*)*$",
        "uri-template" => r"^(https?://[a-z0-9]+(\.[a-z0-9]+)*)?(/[A-Za-z0-9._~-]*|/\{[a-z]+\})*$",
        "idn-email" => r"^[A-Za-z0-9]+([._-][A-Za-z0-9]+)*@[a-z0-9]+(\.[a-z0-9]+)*$",
        "idn-hostname" => r"^[a-z0-9]+(\.[a-z0-9]+)*$",
        "json-pointer" => r"^(/([A-Za-z0-9_. -]|~[01])*)*$",
        "relative-json-pointer" => r"^(0|[1-9][0-9]{0,3})(#|(/([A-Za-z0-9_. -]|~[01])*)*)$",
        "regex" => r"^[A-Za-z0-9 _.^$-]*$",
        _ => return None,
    })
}

/// Puts a format into a guide. A format that nothing is known of says nothing, as JSON Schema has it.
pub(super) fn narrowed(format: &Value, guide: &mut Map<String, Value>) {
    let name = format.as_str().unwrap_or_default();
    if KNOWN.contains(&name) {
        guide.insert("format".to_owned(), format.clone());
    } else if let Some(pattern) = pattern(name)
        && !guide.contains_key("pattern")
    {
        guide.insert("pattern".to_owned(), Value::from(pattern));
    }
}
