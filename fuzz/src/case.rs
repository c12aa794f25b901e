//! The input format of the [laws](crate::laws), except for the law about tool names.

use serde_json::{Deserializer, Value};

/// The input of a [law](crate::laws): a JSON schema, and values to check against it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// A JSON value that is used as the schema. It need not be a valid schema.
    pub schema: Value,
    /// The text after the schema: a sequence of JSON values, or arbitrary text for laws that check
    /// text.
    pub values_text: String,
}

impl Case {
    /// Creates a case from a JSON schema and the values to check against it.
    pub fn new<'v>(schema: Value, values: impl IntoIterator<Item = &'v Value>) -> Self {
        let lines: Vec<_> = values.into_iter().map(Value::to_string).collect();
        Self { schema, values_text: lines.join("\n") }
    }

    /// Parses a fuzz input. Returns `None` if `input` does not start with a JSON value.
    pub fn parse(input: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(input);
        let mut values = Deserializer::from_str(&text).into_iter();
        let schema = values.next()?.ok()?;
        let rest = text.get(values.byte_offset()..)?;
        Some(Self { schema, values_text: rest.strip_prefix('\n').unwrap_or(rest).to_owned() })
    }

    /// Formats this case as a fuzz input.
    pub fn to_bytes(&self) -> Vec<u8> {
        format!("{}\n{}", self.schema, self.values_text).into_bytes()
    }

    /// Parses the values in `values_text`. Stops at the first text that is not JSON.
    pub fn values(&self) -> Vec<Value> {
        Deserializer::from_str(&self.values_text).into_iter().map_while(Result::ok).collect()
    }

    /// Returns `true` if `values_text` contains only JSON values.
    pub fn has_json_values(&self) -> bool {
        Deserializer::from_str(&self.values_text).into_iter::<Value>().all(|value| value.is_ok())
    }
}
