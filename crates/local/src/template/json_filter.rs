//! The `tojson` filter of chat templates.
//!
//! In `transformers`, the filter is `json.dumps(…, ensure_ascii=False)`. The filter of minijinja
//! differs from it: it escapes `<`, `>`, `&` and `'` for HTML.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::outside_text::as_json_markers;

/// The maximum nesting depth of values. Deeper values are written as `null`. Real schemas do not
/// reach this depth.
const MAX_DEPTH: usize = 128;

pub(super) fn to_json(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get("indent")?,
    };
    let indent = indent.and_then(|indent| usize::try_from(indent).ok());
    let mut writer = JsonWriter { text: String::new(), indent };
    writer.write_value(value, 0)?;
    Ok(Value::from_safe_string(writer.text))
}

struct JsonWriter {
    text: String,
    indent: Option<usize>,
}

impl JsonWriter {
    fn write_value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            _ if depth > MAX_DEPTH => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.text.push_str(&value.to_string()),
            ValueKind::String => self.string(&value.to_string()),
            ValueKind::Map => {
                self.text.push('{');
                for (index, key) in value.try_iter()?.enumerate() {
                    self.separate(index, depth + 1);
                    self.string(&key.to_string());
                    self.text.push_str(": ");
                    self.write_value(&value.get_item(&key)?, depth + 1)?;
                }
                self.close('}', value.len(), depth);
            }
            ValueKind::Seq | ValueKind::Iterable => {
                self.text.push('[');
                for (index, item) in value.try_iter()?.enumerate() {
                    self.separate(index, depth + 1);
                    self.write_value(&item, depth + 1)?;
                }
                self.close(']', value.len(), depth);
            }
            _ => self.text.push_str("null"),
        }
        Ok(())
    }

    fn string(&mut self, text: &str) {
        self.text.push_str(&as_json_markers(&serde_json::Value::from(text).to_string()));
    }

    fn separate(&mut self, index: usize, depth: usize) {
        match (index, self.indent) {
            (0, None) => {}
            (0, Some(_)) => self.line(depth),
            (_, None) => self.text.push_str(", "),
            (_, Some(_)) => {
                self.text.push(',');
                self.line(depth);
            }
        }
    }

    fn close(&mut self, bracket: char, length: Option<usize>, depth: usize) {
        if self.indent.is_some() && length != Some(0) {
            self.line(depth);
        }
        self.text.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        self.text.push('\n');
        self.text.push_str(&" ".repeat(self.indent.unwrap_or_default() * depth));
    }
}
