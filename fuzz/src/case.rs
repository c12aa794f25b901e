//! What a schema is asked.

use serde_json::{Deserializer, Value};

/// A schema, and what is held against it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The schema, which may be none.
    pub schema: Value,
    /// JSON values, or any text where the law is about text.
    pub rest: String,
}

impl Case {
    /// A schema and values.
    pub fn new<'v>(schema: Value, values: impl IntoIterator<Item = &'v Value>) -> Self {
        let lines: Vec<_> = values.into_iter().map(Value::to_string).collect();
        Self { schema, rest: lines.join("\n") }
    }

    /// Reads an input, unless it does not begin with JSON.
    pub fn read(input: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(input);
        let mut values = Deserializer::from_str(&text).into_iter();
        let schema = values.next()?.ok()?;
        let rest = text.get(values.byte_offset()..)?;
        Some(Self { schema, rest: rest.strip_prefix('\n').unwrap_or(rest).to_owned() })
    }

    /// The input that reads so.
    pub fn write(&self) -> Vec<u8> {
        format!("{}\n{}", self.schema, self.rest).into_bytes()
    }

    /// The values, up to the first text that is none.
    pub fn values(&self) -> Vec<Value> {
        Deserializer::from_str(&self.rest).into_iter().map_while(Result::ok).collect()
    }

    /// Whether there is nothing but values behind the schema.
    pub fn is_json(&self) -> bool {
        Deserializer::from_str(&self.rest).into_iter::<Value>().all(|value| value.is_ok())
    }
}
