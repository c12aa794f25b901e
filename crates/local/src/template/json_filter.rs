//! The filters `tojson` and `string` of chat templates.
//!
//! In `transformers`, `tojson` is `json.dumps(…, ensure_ascii=False)`. The filter of minijinja
//! differs from it: it escapes `<`, `>`, `&` and `'` for HTML. `string` is Python's `str`, which
//! writes lists and dictionaries as Python literals. SmolLM3 lists tools in this form.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::outside_text::{as_json_markers, as_python_marker, python_literal};

/// The maximum nesting depth of values. Deeper values are written as `null` or `None`. Real schemas
/// do not reach this depth.
const MAX_DEPTH: usize = 128;

pub(super) fn to_json(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get("indent")?,
    };
    let indent = indent.and_then(|indent| usize::try_from(indent).ok());
    write(value, indent, Syntax::Json)
}

/// Writes `value` as JSON on one line.
pub(super) fn to_json_text(value: &Value) -> Result<Value, Error> {
    write(value, None, Syntax::Json)
}

/// Converts `value` to text like Python's `str`.
pub(super) fn to_python_text(value: &Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.clone()),
        ValueKind::Undefined => Ok(Value::from("")),
        _ => write(value, None, Syntax::Python),
    }
}

fn write(value: &Value, indent: Option<usize>, syntax: Syntax) -> Result<Value, Error> {
    let mut writer = LiteralWriter { text: String::new(), indent, syntax };
    writer.write_value(value, 0)?;
    Ok(Value::from_safe_string(writer.text))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Json,
    Python,
}

struct LiteralWriter {
    text: String,
    indent: Option<usize>,
    syntax: Syntax,
}

impl LiteralWriter {
    fn write_value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let [no, yes, none] = match self.syntax {
            Syntax::Json => ["false", "true", "null"],
            Syntax::Python => ["False", "True", "None"],
        };
        match value.kind() {
            _ if depth > MAX_DEPTH => self.text.push_str(none),
            ValueKind::Bool => self.text.push_str(if value.is_true() { yes } else { no }),
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
            _ => self.text.push_str(none),
        }
        Ok(())
    }

    fn string(&mut self, text: &str) {
        let literal = match self.syntax {
            Syntax::Json => as_json_markers(&serde_json::Value::from(text).to_string()),
            Syntax::Python => as_python_marker(text).unwrap_or_else(|| python_literal(text)),
        };
        self.text.push_str(&literal);
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
