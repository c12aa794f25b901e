//! The canonical JSON form of a request.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    content::Content,
    message::{Message, MessageBody},
    model::{ChatRequest, ResponseFormat, ToolChoice},
    tool::ToolDefinition,
};

impl ChatRequest {
    /// Returns the request as JSON: instructions, messages, tools, tool choice, format and settings.
    ///
    /// Call ids are replaced by their order, and timestamps and metadata are left out, so that two
    /// requests with the same content have the same form in every run. Cassettes and reply caches
    /// compare requests by it.
    pub fn to_canonical_json(&self) -> Value {
        canonical_json(self)
    }
}

fn canonical_json(request: &ChatRequest) -> Value {
    let mut ids = Ids::default();
    let mut parts = Map::new();
    if let Some(instructions) = &request.instructions {
        parts.insert("instructions".to_owned(), content(instructions.content()));
    }
    let messages = request.messages.iter().map(|it| message(it, &mut ids));
    parts.insert("messages".to_owned(), messages.collect());
    let tools: Vec<_> = request.tools.tools().iter().map(|it| tool(it.definition())).collect();
    if !tools.is_empty() {
        parts.insert("tools".to_owned(), Value::Array(tools));
    }
    if request.tool_choice != ToolChoice::Auto {
        parts.insert("tool_choice".to_owned(), json!(request.tool_choice));
    }
    match &request.response_format {
        ResponseFormat::Text => {}
        ResponseFormat::JsonObject => drop(parts.insert("response_format".to_owned(), json!("json_object"))),
        ResponseFormat::JsonSchema { name, schema } => {
            let format = json!({"name": name, "schema": schema});
            parts.insert("response_format".to_owned(), json!({"json_schema": format}));
        }
    }
    let settings = json!(request.settings);
    if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        parts.insert("settings".to_owned(), settings);
    }
    Value::Object(parts)
}

/// What a model is told of a tool.
fn tool(definition: &ToolDefinition) -> Value {
    json!({
        "name": definition.name(),
        "description": definition.description(),
        "input_schema": definition.input_schema(),
    })
}

fn message<'r>(message: &'r Message, ids: &mut Ids<'r>) -> Value {
    match message.body() {
        MessageBody::System { content: said } => json!({"role": "system", "content": content(said)}),
        MessageBody::User { content: said } => json!({"role": "user", "content": content(said)}),
        MessageBody::Assistant(said) => {
            let mut parts = Map::from_iter([("role".to_owned(), json!("assistant"))]);
            if !said.content.is_empty() {
                parts.insert("content".to_owned(), content(&said.content));
            }
            for (name, text) in [("reasoning", &said.reasoning), ("refusal", &said.refusal)] {
                parts.extend(text.as_ref().map(|text| (name.to_owned(), json!(text))));
            }
            let calls = said.tool_calls.iter().map(
                |call| json!({"id": ids.number(&call.id), "name": call.name, "arguments": call.arguments}),
            );
            let calls: Vec<_> = calls.collect();
            if !calls.is_empty() {
                parts.insert("tool_calls".to_owned(), Value::Array(calls));
            }
            Value::Object(parts)
        }
        MessageBody::Tool(result) => {
            let media = message.content().iter().any(|piece| !matches!(piece, Content::Text { .. }));
            let said = if media { content(message.content()) } else { json!(result.model_text()) };
            json!({"role": "tool", "id": ids.number(&result.call_id), "name": result.name, "success": result.is_success(), "content": said})
        }
    }
}

/// One text as it is, all else as pieces.
fn content(pieces: &[Content]) -> Value {
    match pieces {
        [Content::Text { text }] => json!(text),
        pieces => json!(pieces),
    }
}

/// Ids by the order in which they come: they may be made up anew in each run.
#[derive(Default)]
struct Ids<'r>(HashMap<&'r str, usize>);

impl<'r> Ids<'r> {
    fn number(&mut self, id: &'r str) -> String {
        let next = self.0.len() + 1;
        format!("#{}", self.0.entry(id).or_insert(next))
    }
}
