//! Renders the messages of a transcript as steps in a text format.

use std::{marker::PhantomData, sync::Arc};

use haft_core::{
    Message, ToolResult,
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use serde_json::json;

use super::{ANSWER_KEY, StepFormat};
use crate::{FINISH, is_rejected, is_unusable, reasoning_or_text};

/// A message of the transcript, rendered in the text format `F`. The rendered message is cached in
/// the original message.
struct RenderedMessage<F>(Arc<Message>, PhantomData<F>);

pub(super) fn render_message<F: StepFormat>(message: &Arc<Message>) -> Arc<Message> {
    match message.body() {
        MessageBody::Assistant(reply) => {
            render_cached::<F>(message, |message| Message::assistant(format_steps::<F>(message, reply)))
        }
        MessageBody::Tool(result) => render_cached::<F>(message, |_| observation_message(result)),
        // System and user messages are the same in each dialect.
        MessageBody::System { .. } | MessageBody::User { .. } => Arc::clone(message),
    }
}

fn render_cached<F: StepFormat>(message: &Message, write: impl FnOnce(&Message) -> Message) -> Arc<Message> {
    Arc::clone(&message.memoize(|message| RenderedMessage::<F>(Arc::new(write(message)), PhantomData)).0)
}

/// Formats `reply` as steps in the format `F`. Refusals, and unusable texts other than
/// [rejected](is_rejected) answers, are returned unchanged.
fn format_steps<F: StepFormat>(message: &Message, reply: &AssistantMessage) -> String {
    let thought = reasoning_or_text(reply).unwrap_or_default();
    if !reply.tool_calls.is_empty() {
        let steps = reply
            .tool_calls
            .iter()
            .map(|call| F::format_step(&thought, &call.name, &call.arguments.value_or_string()));
        return steps.collect::<Vec<_>>().join("\n");
    }
    let thought = reply.reasoning.as_deref().unwrap_or_default();
    match reply.content.as_slice() {
        [Content::Json { value }] => F::format_step(thought, FINISH, value),
        _ if is_unusable(message) && !is_rejected(message) => reply.text(),
        _ if reply.refusal.is_some() => reply.refusal.clone().unwrap_or_default(),
        _ => F::format_step(thought, FINISH, &json!({ANSWER_KEY: reply.text()})),
    }
}

pub(super) fn observation_text(tool_name: &str, result: &str) -> String {
    format!("Observation from {tool_name}: {result}")
}

fn observation_message(result: &ToolResult) -> Message {
    let text = observation_text(&result.name, &result.model_text());
    let media = result.output().map_or(&[][..], |output| &output.content);
    let media = media.iter().filter(|part| matches!(part, Content::Image { .. } | Content::Audio { .. }));
    let content = std::iter::once(Content::text(text)).chain(media.cloned()).collect();
    Message::new(MessageBody::User { content })
}
