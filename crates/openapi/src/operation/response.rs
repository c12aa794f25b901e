//! The documented success responses of an operation.

use std::sync::OnceLock;

use haft_core::Schema;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::media_type;
use crate::{
    document::Document,
    schema::{Direction, SchemaTranslator, with_definitions},
};

/// The documented success responses of an operation.
pub(crate) struct Responses {
    /// The value of the header `Accept`: the documented media types, JSON first.
    pub(crate) accept: String,
    /// The schema of the structured content of each success: the documented body, or a
    /// [status object](status_object). `None` unless exactly one success has a JSON body with a
    /// schema, and no other success has a body.
    pub(crate) output_schema: Option<Schema>,
    documented: Vec<DocumentedResponse>,
}

/// A documented success response.
pub(crate) struct DocumentedResponse {
    /// A status such as `200`, the range `2XX`, or `default`.
    status: String,
    /// `true` if all documented media types are JSON.
    pub(crate) is_json: bool,
    body: Option<BodySchema>,
}

/// The schema of a JSON body.
struct BodySchema {
    schema: Map<String, Value>,
    definitions: Map<String, Value>,
    /// The compiled schema. Large documents have thousands of responses, and few are received.
    compiled: OnceLock<Option<Schema>>,
}

impl Responses {
    /// Parses the responses of `operation`. Without `has_schemas`, bodies are not checked.
    pub(crate) fn parse(document: &Document, method: &Method, operation: &Value, has_schemas: bool) -> Self {
        let responses = operation.get("responses").and_then(Value::as_object).into_iter().flatten();
        let resolved = responses.filter_map(|(key, response)| Some((key, document.resolve(response).ok()?)));
        let mut successes: Vec<_> =
            resolved.filter(|(key, _)| is_success(key) || *key == "default").collect();
        // Beside a success, the default response describes errors.
        if successes.iter().any(|(key, _)| is_success(key)) {
            successes.retain(|(key, _)| is_success(key));
        }
        let mut media_types: Vec<_> = successes
            .iter()
            .filter_map(|(_, response)| response.get("content")?.as_object())
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
        // A response to HEAD has no body (RFC 9110, section 9.3.2).
        let has_schemas = has_schemas && *method != Method::HEAD;
        let documented: Vec<_> = successes
            .iter()
            .map(|(status, response)| DocumentedResponse::parse(document, status, response, has_schemas))
            .collect();
        let bodies: Vec<_> =
            successes.iter().zip(&documented).filter(|((_, response), _)| has_content(response)).collect();
        let output_schema = match bodies.as_slice() {
            [(_, DocumentedResponse { body: Some(body), .. })] => body.output_schema(document),
            _ => None,
        };
        Self { accept, output_schema, documented }
    }

    /// Returns the documented response with `status`.
    pub(crate) fn for_status(&self, status: StatusCode) -> Option<&DocumentedResponse> {
        let find = |key: &str| self.documented.iter().find(|it| it.status.eq_ignore_ascii_case(key));
        find(status.as_str()).or_else(|| find("2XX")).or_else(|| find("default"))
    }
}

impl DocumentedResponse {
    fn parse(document: &Document, status: &str, response: &Value, has_schema: bool) -> Self {
        let content = response.get("content").and_then(Value::as_object);
        let is_json = content
            .is_some_and(|content| !content.is_empty() && content.keys().all(|it| media_type::is_json(it)));
        let entry = content.and_then(|content| content.values().next()).filter(|_| is_json && has_schema);
        let body = entry.and_then(|entry| BodySchema::parse(document, entry));
        Self { status: status.to_owned(), is_json, body }
    }

    /// Returns the schema of the body. `None` if the document has no schema, or one that cannot be
    /// used.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        let BodySchema { schema, definitions, compiled } = self.body.as_ref()?;
        let compile = || {
            let schema = with_definitions(Value::Object(schema.clone()), definitions.clone());
            Schema::new(schema).inspect_err(|error| tracing::debug!(%error, "a response is not checked")).ok()
        };
        compiled.get_or_init(compile).as_ref()
    }
}

impl BodySchema {
    /// Translates the schema of the media type `entry`. `None` if it has none, permits every value,
    /// or cannot be used.
    fn parse(document: &Document, entry: &Value) -> Option<Self> {
        let schema = document.resolve(entry).ok()?.get("schema")?;
        let mut translator = SchemaTranslator::new(document, Direction::Response);
        // The root has a type, so that MCP clients get an object as it is.
        let Ok(Value::Object(schema)) = translator.translate_target(schema) else { return None };
        let definitions = translator.into_definitions().ok()?;
        (!schema.is_empty()).then(|| Self { schema, definitions, compiled: OnceLock::new() })
    }

    /// Returns the schema of this body or a status object. `None` if it cannot be used.
    fn output_schema(&self, document: &Document) -> Option<Schema> {
        let status = json!({
            "type": "object",
            "description": "A success without the documented body.",
            "required": ["http_status"],
            "properties": {"http_status": {"type": "integer"}, "location": {"type": "string"}, "body": {}},
            "additionalProperties": false,
        });
        let mut root = Map::new();
        if let Some(object) = self.schema.get("type").filter(|it| *it == "object") {
            root.insert("type".to_owned(), object.clone());
        }
        root.insert("anyOf".to_owned(), json!([self.schema, status]));
        let schema = document.compile(with_definitions(Value::Object(root), self.definitions.clone()));
        schema.inspect_err(|error| tracing::debug!(%error, "the schema of a response is not used")).ok()
    }
}

/// Returns the structured content of a success without the documented body. A tool with an output
/// schema has structured content in each result, as MCP requires.
pub(crate) fn status_object(status: StatusCode, location: Option<&str>, body: Option<Value>) -> Value {
    let mut object = Map::from_iter([("http_status".to_owned(), status.as_u16().into())]);
    object.extend(location.map(|it| ("location".to_owned(), it.into())));
    object.extend(body.map(|it| ("body".to_owned(), it)));
    Value::Object(object)
}

fn is_success(status: &str) -> bool {
    status.len() == 3 && status.starts_with('2')
}

fn has_content(response: &Value) -> bool {
    response.get("content").and_then(Value::as_object).is_some_and(|content| !content.is_empty())
}
