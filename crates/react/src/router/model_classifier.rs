use std::{iter, sync::Arc};

use haft_core::{
    ChatModel, Message, Schema, ToolName, Transcript,
    agent::AgentError,
    export::async_trait,
    message::MessageBody,
    model::{ChatRequest, ModelError, ResponseFormat},
    schema::{RepairPolicy, repair},
    text::truncate_with_ellipsis,
    usage::Usage,
};
use serde_json::{Value, json};

use super::{Classifier, RouteChoice, RouteTable, classifier::last_answer_index};
use crate::{dialect::find_json_object, transcript::is_from_user};

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
        let unclear = unclear_route_name(table);
        let schema = reply_schema(table, &unclear);
        let instructions = classifier_instructions(table, &unclear, &schema);
        let mut messages = vec![Message::user(task_prompt(conversation))];
        let mut usage = Usage::default();
        for _ in 0..MAX_REQUESTS {
            let chat = async {
                let mut request = ChatRequest::new(messages.clone());
                request.instructions = Some(Message::system(instructions.as_str()).into());
                if self.0.profile().supports_json_schema {
                    let name = ToolName::sanitize("choice");
                    request.response_format = ResponseFormat::JsonSchema { name, schema: schema.clone() };
                }
                self.0.chat(&request).await
            };
            let response = ModelError::catch_panic(chat).await.map_err(|error| {
                let usage = usage + Usage::failed_request();
                AgentError::from(error).with_transcript_and_usage(Transcript::new(), usage)
            })?;
            usage += response.usage.counted_as_request();
            match parse_reply(&response.message.text(), &schema) {
                Ok((reason, route)) => {
                    let route = Some(route).filter(|route| *route != unclear);
                    return Ok(RouteChoice { route, reason, usage, ..RouteChoice::default() });
                }
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

/// Returns the route name that stands for an unclear route: [`UNCLEAR_ROUTE`], or `unclear_2` and
/// so on if a route of `table` already has that name.
fn unclear_route_name(table: &RouteTable) -> String {
    let numbered = (2..).map(|number| format!("{UNCLEAR_ROUTE}_{number}"));
    let mut words = iter::once(UNCLEAR_ROUTE.to_owned()).chain(numbered);
    words.find(|word| table.routes.iter().all(|route| route.name != *word)).unwrap_or_default()
}

/// Returns the prompt for the model: the latest messages of the current task and its context. The
/// context is the last answer, the user message before that answer, and the clarifying questions
/// after the answer.
fn task_prompt(conversation: &[Arc<Message>]) -> String {
    let answer = last_answer_index(conversation).unwrap_or_default();
    let question = conversation.iter().take(answer).rfind(|message| is_from_user(message));
    let is_reply = |message: &Message| matches!(message.body(), MessageBody::Assistant(_));
    let task = conversation.iter().skip(answer).filter(|message| is_from_user(message) || is_reply(message));
    let messages: Vec<_> = question.into_iter().chain(task).collect();
    let messages = messages.get(messages.len().saturating_sub(MAX_PROMPT_MESSAGES)..).unwrap_or_default();
    let Some(last) = messages.iter().rposition(|message| is_reply(message)) else {
        return messages.iter().map(|message| message.text()).collect::<Vec<_>>().join("\n");
    };
    let lines = messages.iter().enumerate().map(|(index, message)| {
        let role = if is_reply(message) { "assistant" } else { "user" };
        let text = message.text();
        let max_len = if index > last { text.len() } else { MAX_MESSAGE_BYTES };
        format!("{role}: {}\n", truncate_with_ellipsis(&text, max_len))
    });
    format!("This was said last:\n{}\nDecide by what the user wants now.", lines.collect::<String>())
}

fn classifier_instructions(table: &RouteTable, unclear: &str, schema: &Schema) -> String {
    let routes: Vec<_> = table.routes.iter().map(|it| format!("- {}: {}", it.name, it.description)).collect();
    format!(
        "Decide who is to do what the user wants. Do not do it yourself. These can be chosen:\n{}\n- {unclear}: it is not \
         clear which of them is meant\nReply with one JSON object of this schema: {}",
        routes.join("\n"),
        schema.as_value()
    )
}

/// Returns the JSON schema of the model's reply.
fn reply_schema(table: &RouteTable, unclear: &str) -> Schema {
    let routes: Vec<_> = table.routes.iter().map(|route| &*route.name).chain([unclear]).collect();
    let schema = json!({
        "type": "object",
        "properties": {"reason": {"type": "string"}, "route": {"type": "string", "enum": routes}},
        "required": ["reason", "route"],
        "additionalProperties": false,
    });
    Schema::new(schema).unwrap_or_else(|_| Schema::object())
}

/// Returns the reason and the route in a reply of the model. On failure, returns an error message
/// that is sent to the model as the next user message.
fn parse_reply(reply: &str, schema: &Schema) -> Result<(String, String), String> {
    let object = find_json_object(reply, |object| object.contains_key("route"))
        .ok_or_else(|| format!("Reply with one JSON object of this schema: {}", schema.as_value()))?;
    let (value, _) = repair(schema, Value::Object(object), RepairPolicy::Default);
    schema.validate(&value).map_err(|violations| violations.to_string())?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((text("reason"), text("route")))
}

impl std::fmt::Debug for ModelClassifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelClassifier").field("model", &self.0.profile().name).finish()
    }
}
