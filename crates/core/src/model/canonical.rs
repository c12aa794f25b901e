//! The canonical JSON form of a model request.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    content::Content,
    message::{Message, MessageBody},
    model::{ChatRequest, ResponseFormat, ToolChoice},
    tool::ToolDefinition,
};

impl ChatRequest {
    /// Returns the canonical JSON form of the request, for comparisons with other requests. It
    /// contains the instructions, messages, tools, hosted tools, tool choice, response format and
    /// settings.
    ///
    /// Call ids are replaced by numbers. Timestamps, metadata and provider data are omitted.
    /// Requests with the same content therefore have the same canonical form in every run. The
    /// cassettes of `haft-testing` compare requests in this form, and the reply cache uses it as a
    /// part of its keys.
    pub fn to_canonical_json(&self) -> Value {
        let mut ids = CallNumbers::default();
        let mut parts = Map::new();
        let instructions = self.instructions.iter().map(|it| content_to_json(it.content()));
        parts.extend(instructions.map(|content| ("instructions".to_owned(), content)));
        let messages = self.messages.iter().map(|it| message_to_json(it, &mut ids));
        parts.insert("messages".to_owned(), messages.collect());
        let tools: Vec<_> = self.tools.tools().iter().map(|it| tool_to_json(it.definition())).collect();
        if !tools.is_empty() {
            parts.insert("tools".to_owned(), Value::Array(tools));
        }
        if !self.hosted_tools.is_empty() {
            parts.insert("hosted_tools".to_owned(), json!(&*self.hosted_tools));
        }
        if self.tool_choice != ToolChoice::Auto {
            parts.insert("tool_choice".to_owned(), json!(self.tool_choice));
        }
        let format = match &self.response_format {
            ResponseFormat::Text => None,
            ResponseFormat::JsonObject => Some(json!("json_object")),
            ResponseFormat::JsonSchema { name, schema } => {
                Some(json!({"json_schema": {"name": name, "schema": schema}}))
            }
        };
        parts.extend(format.map(|format| ("response_format".to_owned(), format)));
        let settings = json!(self.settings);
        if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
            parts.insert("settings".to_owned(), settings);
        }
        Value::Object(parts)
    }
}

fn tool_to_json(definition: &ToolDefinition) -> Value {
    json!({
        "name": definition.name(),
        "description": definition.description(),
        "input_schema": definition.input_schema(),
    })
}

fn message_to_json<'r>(message: &'r Message, ids: &mut CallNumbers<'r>) -> Value {
    match message.body() {
        MessageBody::System { content } => json!({"role": "system", "content": content_to_json(content)}),
        MessageBody::User { content } => json!({"role": "user", "content": content_to_json(content)}),
        MessageBody::Assistant(reply) => {
            let mut parts = Map::from_iter([("role".to_owned(), json!("assistant"))]);
            if !reply.content.is_empty() {
                parts.insert("content".to_owned(), content_to_json(&reply.content));
            }
            for (name, text) in [("reasoning", &reply.reasoning), ("refusal", &reply.refusal)] {
                parts.extend(text.as_ref().map(|text| (name.to_owned(), json!(text))));
            }
            let calls = reply.tool_calls.iter().map(
                |call| json!({"id": ids.number(&call.id), "name": call.name, "arguments": call.arguments}),
            );
            let calls: Vec<_> = calls.collect();
            if !calls.is_empty() {
                parts.insert("tool_calls".to_owned(), Value::Array(calls));
            }
            Value::Object(parts)
        }
        MessageBody::Tool(result) => {
            let pieces = message.content();
            let media = pieces.iter().any(|piece| !matches!(piece, Content::Text { .. }));
            // Unlike the model text, the pieces do not include the warnings.
            let content = if media { json!([pieces, result.warnings]) } else { json!(result.model_text()) };
            json!({
                "role": "tool",
                "id": ids.number(&result.call_id),
                "name": result.name,
                "success": result.is_success(),
                "content": content,
            })
        }
    }
}

/// Encodes message content as JSON: a single text piece becomes a string, and any other content
/// becomes an array of pieces.
fn content_to_json(pieces: &[Content]) -> Value {
    match pieces {
        [Content::Text { text }] => json!(text),
        pieces => json!(pieces),
    }
}

/// A map from call ids to the numbers that replace them in the canonical form. The numbers are
/// assigned in order of first use, so they are the same in every run, unlike the ids.
#[derive(Default)]
struct CallNumbers<'r>(HashMap<&'r str, usize>);

impl<'r> CallNumbers<'r> {
    fn number(&mut self, id: &'r str) -> String {
        let next = self.0.len() + 1;
        format!("#{}", self.0.entry(id).or_insert(next))
    }
}
