use std::{iter, sync::Arc};

use haft_core::{
    ChatModel, Message, Schema, ToolName, Transcript,
    agent::AgentError,
    export::async_trait,
    model::{ChatRequest, ChatResponse, ModelError, ResponseFormat},
    schema::{RepairPolicy, repair},
    text::truncate_with_ellipsis,
    usage::Usage,
};
use serde_json::{Value, json};

use super::{Classifier, RouteChoice, RouteTable, classifier::task_messages};
use crate::{dialect::find_json_object, run::is_from_user};

/// The value of `route` in the model's reply if the route is not clear.
const UNCLEAR_ROUTE: &str = "unclear";

/// The maximum length of a message in the prompt, in bytes. Longer messages are truncated. User
/// messages after the last assistant message have no maximum length.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// The maximum number of messages in the prompt. Older messages are omitted.
const MAX_PROMPT_MESSAGES: usize = 12;

/// The maximum number of model requests for one decision.
const MAX_REQUESTS: u32 = 2;

/// A classifier that sends a model request to select the route.
///
/// If the model supports JSON schemas, the reply is constrained to a JSON object with the name of a
/// route. If the reply is invalid, the request is repeated once, with a description of the problem.
/// If the second reply is also invalid, no route is selected.
#[derive(Clone)]
pub struct ModelClassifier(Arc<dyn ChatModel>);

impl ModelClassifier {
    /// Creates a classifier that uses `model`.
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
    ) -> Result<RouteChoice, AgentError> {
        let schema = reply_schema(table);
        let mut messages = vec![Message::user(task_prompt(conversation))];
        let mut usage = Usage::default();
        for _ in 0..MAX_REQUESTS {
            let chat = async { self.0.chat(&self.build_request(table, &schema, messages.clone())).await };
            let response = ModelError::catch_panic(chat).await.map_err(|error| {
                AgentError::from(error)
                    .with_transcript_and_usage(Transcript::new(), usage + Usage::failed_request())
            })?;
            usage += response.usage.counted_as_request();
            match parse_choice(table, &schema, &response) {
                Ok(choice) => return Ok(RouteChoice { usage, ..choice }),
                Err(problem) => {
                    let reply = Some(response.message).filter(|message| !message.is_empty());
                    messages.extend(reply.map(Message::assistant));
                    messages.push(Message::user(problem));
                }
            }
        }
        let reason = "the model chose an unknown route".to_owned();
        Ok(RouteChoice { reason, usage, ..RouteChoice::default() })
    }
}

impl ModelClassifier {
    fn build_request(&self, table: &RouteTable, schema: &Schema, messages: Vec<Message>) -> ChatRequest {
        let mut request = ChatRequest::new(messages);
        request.instructions = Some(Message::system(classifier_instructions(table, schema)).into());
        if self.0.profile().supports_json_schema {
            let name = ToolName::sanitize("choice");
            request.response_format = ResponseFormat::JsonSchema { name, schema: schema.clone() };
        }
        request
    }
}

/// Returns the route name that stands for an unclear route: [`UNCLEAR_ROUTE`], or `unclear_2` and
/// so on if a route of `table` already has that name.
fn unclear_route_name(table: &RouteTable) -> String {
    let numbered = (2..).map(|number| format!("{UNCLEAR_ROUTE}_{number}"));
    let mut words = iter::once(UNCLEAR_ROUTE.to_owned()).chain(numbered);
    words.find(|word| table.route_names().all(|name| name != word)).unwrap_or_default()
}

/// Returns the prompt for the model: the latest messages of the current task and its context, which
/// [`task_messages`] selects.
fn task_prompt(conversation: &[Arc<Message>]) -> String {
    let messages: Vec<_> = task_messages(conversation).collect();
    let messages = messages.get(messages.len().saturating_sub(MAX_PROMPT_MESSAGES)..).unwrap_or_default();
    if messages.iter().all(|message| is_from_user(message)) {
        return messages.iter().map(|message| message.text()).collect::<Vec<_>>().join("\n");
    }
    let last = messages.iter().rposition(|message| !is_from_user(message)).unwrap_or_default();
    let lines = messages.iter().enumerate().map(|(index, message)| {
        let role = if is_from_user(message) { "user" } else { "assistant" };
        let text = message.text();
        let max_len = if index > last { text.len() } else { MAX_MESSAGE_BYTES };
        format!("{role}: {}\n", truncate_with_ellipsis(&text, max_len))
    });
    format!("This was said last:\n{}\nDecide by what the user wants now.", lines.collect::<String>())
}

fn classifier_instructions(table: &RouteTable, schema: &Schema) -> String {
    let routes: Vec<_> = table.routes.iter().map(|it| format!("- {}: {}", it.name, it.description)).collect();
    format!(
        "Decide who is to do what the user wants. Do not do it yourself. These can be chosen:\n{}\n- {}: it is not clear which \
         of them is meant\nReply with one JSON object of this schema: {}",
        routes.join("\n"),
        unclear_route_name(table),
        schema.as_value()
    )
}

/// Returns the JSON schema of the model's reply.
fn reply_schema(table: &RouteTable) -> Schema {
    let routes: Vec<_> = table.route_names().map(str::to_owned).chain([unclear_route_name(table)]).collect();
    let schema = json!({
        "type": "object",
        "properties": {"reason": {"type": "string"}, "route": {"type": "string", "enum": routes}},
        "required": ["reason", "route"],
        "additionalProperties": false,
    });
    Schema::new(schema).unwrap_or_else(|_| Schema::object())
}

/// Parses the routing decision in `response`. On failure, returns an error message that is sent to
/// the model as the next user message.
fn parse_choice(table: &RouteTable, schema: &Schema, response: &ChatResponse) -> Result<RouteChoice, String> {
    let Some(object) = find_json_object(&response.message.text(), |object| object.contains_key("route"))
    else {
        return Err(format!("Reply with one JSON object of this schema: {}", schema.as_value()));
    };
    let (value, _) = repair(schema, Value::Object(object), RepairPolicy::Default);
    schema.validate(&value).map_err(|violations| violations.to_string())?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let route = Some(text("route")).filter(|route| *route != unclear_route_name(table));
    Ok(RouteChoice { route, reason: text("reason"), ..RouteChoice::default() })
}

impl std::fmt::Debug for ModelClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelClassifier").field("model", &self.0.profile().name).finish()
    }
}
