use std::{iter, sync::Arc};

use haft_core::{
    ChatModel, Message, Schema, ToolName, Transcript,
    agent::AgentError,
    export::async_trait,
    model::{ChatRequest, ChatResponse, ResponseFormat},
    schema::{RepairPolicy, repair},
    usage::Usage,
};
use serde_json::Value;
use serde_json::json;

use super::{
    Choice, Classifier, RouteTable,
    classifier::{exchange, task},
};
use crate::{dialect::json_object, run::is_from_user};

/// The reply of the model if no route fits.
const UNCLEAR: &str = "unclear";

/// Maximum number of bytes of each earlier message.
const PIECE: usize = 1_000;

/// Maximum number of messages, counted from the latest.
const LATEST: usize = 12;

/// Maximum number of requests for one choice.
const TRIES: u32 = 2;

/// A classifier that asks a model. The reply is constrained to the known routes, if the model
/// supports that. An unknown route is requested once more.
#[derive(Clone)]
pub struct ModelClassifier(Arc<dyn ChatModel>);

impl ModelClassifier {
    /// Creates a classifier with this model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self(Arc::new(model))
    }
}

#[async_trait]
impl Classifier for ModelClassifier {
    async fn classify(
        &self,
        table: &RouteTable,
        conversation: &[Arc<Message>],
    ) -> Result<Choice, AgentError> {
        let form = form(table);
        let mut messages = vec![Message::user(question(conversation))];
        let mut usage = Usage::default();
        for _ in 0..TRIES {
            let response = self.0.chat(&self.request(table, &form, messages.clone())).await;
            let response = response.map_err(|error| {
                AgentError::from(error).with_run(Transcript::new(), usage + Usage::failed_request())
            })?;
            usage += response.usage.of_reply();
            match read(table, &form, &response) {
                Ok(choice) => return Ok(Choice { usage, ..choice }),
                Err(problem) => {
                    let said = Some(response.message).filter(|message| !message.is_empty());
                    messages.extend(said.map(Message::assistant));
                    messages.push(Message::user(problem));
                }
            }
        }
        let reason = "the model chose no route that there is".to_owned();
        Ok(Choice { reason, usage, ..Choice::default() })
    }
}

impl ModelClassifier {
    fn request(&self, table: &RouteTable, form: &Schema, messages: Vec<Message>) -> ChatRequest {
        let mut request = ChatRequest::new(messages);
        request.instructions = Some(Message::system(instructions(table, form)).into());
        if self.0.profile().json_schema {
            let name = ToolName::sanitize("choice");
            request.response_format = ResponseFormat::JsonSchema { name, schema: form.clone() };
        }
        request
    }
}

/// [`UNCLEAR`], with a number if a route has that name.
fn unclear(table: &RouteTable) -> String {
    let numbered = (2..).map(|number| format!("{UNCLEAR}_{number}"));
    let mut words = iter::once(UNCLEAR.to_owned()).chain(numbered);
    words.find(|word| table.names().all(|name| name != word)).unwrap_or_default()
}

/// The text for the model: the task, and its context if there is one.
fn question(conversation: &[Arc<Message>]) -> String {
    let said: Vec<_> = exchange(conversation).collect();
    let said = said.get(said.len().saturating_sub(LATEST)..).unwrap_or_default();
    if said.iter().all(|message| is_from_user(message)) {
        return task(conversation).join("\n");
    }
    let last = said.iter().rposition(|message| !is_from_user(message)).unwrap_or_default();
    let lines = said.iter().enumerate().map(|(place, message)| {
        let who = if is_from_user(message) { "user" } else { "assistant" };
        let text = message.text();
        let most = if place > last { text.len() } else { PIECE };
        let start = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
        format!("{who}: {start}{}\n", if start.len() < text.len() { "…" } else { "" })
    });
    format!("This was said last:\n{}\nDecide by what the user wants now.", lines.collect::<String>())
}

fn instructions(table: &RouteTable, form: &Schema) -> String {
    let routes: Vec<_> = table.routes.iter().map(|it| format!("- {}: {}", it.name, it.description)).collect();
    format!(
        "Decide who is to do what the user wants. Do not do it yourself. These can be chosen:\n{}\n- {}: it is not clear which \
         of them is meant\nReply with one JSON object of this schema: {}",
        routes.join("\n"),
        unclear(table),
        form.as_value()
    )
}

fn form(table: &RouteTable) -> Schema {
    let routes: Vec<_> = table.names().map(str::to_owned).chain([unclear(table)]).collect();
    let form = json!({
        "type": "object",
        "properties": {"reason": {"type": "string"}, "route": {"type": "string", "enum": routes}},
        "required": ["reason", "route"],
        "additionalProperties": false,
    });
    Schema::new(form).unwrap_or_else(|_| Schema::object())
}

/// The choice in a reply, or the problem with the reply.
fn read(table: &RouteTable, form: &Schema, response: &ChatResponse) -> Result<Choice, String> {
    let Some(object) = json_object(&response.message.text(), |object| object.contains_key("route")) else {
        return Err(format!("Reply with one JSON object of this schema: {}", form.as_value()));
    };
    let (value, _) = repair(form, Value::Object(object), RepairPolicy::Default);
    form.validate(&value).map_err(|violations| violations.to_string())?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let route = Some(text("route")).filter(|route| *route != unclear(table));
    Ok(Choice { route, reason: text("reason"), ..Choice::default() })
}

impl std::fmt::Debug for ModelClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelClassifier").field("model", &self.0.profile().name).finish()
    }
}
