//! Parsing of structured answers.

use haft_core::{
    Schema,
    content::Content,
    schema::{RepairPolicy, repair},
};
use serde_json::Value;

use crate::dialect::find_json_object;

/// Parses `content`, an answer of the model, as a JSON object, repairs common mistakes, and
/// validates the object against `schema`. The error text is sent to the model.
pub(super) fn parse_answer(schema: &Schema, content: &[Content]) -> Result<Value, String> {
    let value = match content {
        [Content::Json { value }] => value.clone(),
        pieces => {
            let text: Vec<_> = pieces.iter().map(Content::as_text).collect();
            find_json_object(&text.join("\n"), |_| true).map(Value::Object).ok_or_else(|| {
                format!("The answer must be one JSON object of this schema: {}", schema.as_value())
            })?
        }
    };
    let (value, _repairs) = repair(schema, value, RepairPolicy::Default);
    match schema.validate(&value) {
        Ok(()) => Ok(value),
        Err(violations) => {
            Err(format!("The answer does not have the form that it must have:\n{violations}\nGive it again."))
        }
    }
}
