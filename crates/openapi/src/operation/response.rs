//! The documented success responses of an operation.

use haft_core::Schema;
use serde_json::Value;

use super::media_type;
use crate::{
    document::Document,
    schema::{Direction, SchemaTranslator, with_definitions},
};

/// The documented success responses of an operation.
pub(crate) struct Responses {
    /// The value of the header `Accept`: the documented media types, JSON first.
    pub(crate) accept: String,
    /// The schema of the body, if there is exactly one success response, and it is JSON.
    pub(crate) output_schema: Option<Schema>,
}

impl Responses {
    pub(super) fn parse(document: &Document, operation: &Value) -> Self {
        let responses = operation.get("responses").and_then(Value::as_object).into_iter().flatten();
        let successes: Vec<_> = responses
            .filter(|(status, _)| is_success(status))
            .filter_map(|(_, response)| document.resolve(response).ok())
            .collect();
        let mut media_types: Vec<_> = successes
            .iter()
            .filter_map(|response| response.get("content")?.as_object())
            .flat_map(|content| content.keys())
            .map(String::as_str)
            .filter(|media_type| !media_type.contains('*') && media_type.is_ascii())
            .collect();
        media_types.sort_by_key(|media_type| !media_type::is_json(media_type));
        media_types.dedup();
        // A server may respond with a problem document, or with another type than documented.
        let accept = match media_types.first() {
            Some(first) => format!("{first}, */*;q=0.5"),
            None => "application/json, */*;q=0.5".to_owned(),
        };
        let output_schema = match successes.as_slice() {
            [only] => output_schema(document, only),
            _ => None,
        };
        Self { accept, output_schema }
    }
}

fn is_success(status: &str) -> bool {
    status.len() == 3 && status.starts_with('2')
}

/// Returns the schema of the JSON body of `response`. `None` if another media type is documented,
/// or if the schema cannot be used.
fn output_schema(document: &Document, response: &Value) -> Option<Schema> {
    let content = response.get("content")?.as_object()?;
    if !content.keys().all(|media_type| media_type::is_json(media_type)) {
        return None;
    }
    let schema = document.resolve(content.values().next()?).ok()?.get("schema")?;
    // The root has a type, so that MCP clients get an object as it is.
    let schema = document.resolve(schema).ok()?;
    let mut translator = SchemaTranslator::new(document, Direction::Response);
    let translated = translator.translate(schema).ok()?;
    let definitions = translator.into_definitions().ok()?;
    match Schema::new(with_definitions(translated, definitions)) {
        Ok(schema) => Some(schema),
        Err(error) => {
            tracing::debug!(%error, "the schema of a response is not used");
            None
        }
    }
}
