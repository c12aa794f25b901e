//! What dialects have in common that write each step out: a thought, the name of a tool and its arguments.

mod example;
mod offer;
mod render;
mod told;

use std::sync::Arc;

use haft_core::{
    Schema, ToolCall, ToolDefinition,
    content::Content,
    model::{ChatRequest, ChatResponse, FinishReason, ResponseFormat, ToolChoice},
};
use serde_json::Value;

use super::{FINISH, Prompt, take_finish};
use crate::dialect::Reply;
use offer::Offer;
pub(super) use told::Told;

/// The name of the answer among the arguments of [`FINISH`], where no outputs are declared.
pub(super) const ANSWER: &str = "answer";

/// How a step is written and read.
pub(super) trait Form: Send + Sync + 'static {
    /// What a step is written as.
    const WRITTEN: &'static str;

    /// The shape of a step, with words in the place of its thought and of the name of its tool.
    fn shape(thought: &str, tool_name: &str) -> String;

    /// Writes a step.
    fn write(thought: &str, tool_name: &str, tool_args: &Value) -> String;

    /// Reads the first step of what a model wrote; `is_whole` says whether the model ended it by itself. `outputs` is the
    /// form of the answer, where it is data.
    fn read(text: &str, is_whole: bool, outputs: Option<&Schema>) -> Option<Step>;

    /// What a reply is constrained to: a step with one of these tools.
    fn format(_offered: &[&ToolDefinition]) -> ResponseFormat {
        ResponseFormat::Text
    }
}

/// A step as it was read.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) thought: Option<String>,
    pub(super) action: Action,
}

/// What a step does.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// It calls a tool, with arguments as text.
    Call { name: String, arguments: String },
    /// It ends the run, with these arguments.
    Finish(Value),
    /// It ends the run, with this text.
    Answer(String),
}

/// Puts a request together.
pub(super) fn request<F: Form>(prompt: &Prompt<'_>) -> ChatRequest {
    let offer = Offer::<F>::of(prompt);
    let choice = if prompt.must_answer { &ToolChoice::None } else { prompt.tool_choice };
    // Last, so that what stands before it is the same in every request.
    let demand = if prompt.must_answer { None } else { offer::demand(choice) };
    let messages = prompt.messages.iter().map(render::message::<F>);
    ChatRequest {
        instructions: Some(offer.system(prompt)),
        messages: messages.chain(demand.map(Arc::new)).collect(),
        response_format: offer.format(prompt.tools, choice),
        settings: prompt.settings.clone(),
        ..ChatRequest::default()
    }
}

/// Makes the words of the transcript of a reply.
pub(super) fn fold<F: Form>(response: ChatResponse, outputs: Option<&Schema>) -> Reply {
    let mut reply = Reply::from(response);
    // A refusal is no step.
    if reply.message.refusal.is_some() || reply.message.is_empty() {
        return reply;
    }
    // A server may well have read the calls itself.
    if !reply.message.tool_calls.is_empty() {
        if let Some(arguments) = take_finish(&mut reply.message) {
            finish::<F>(&mut reply, Value::String(arguments.to_string()), outputs);
        }
        return reply;
    }
    let is_whole = reply.finish_reason == FinishReason::Stop;
    let Some(step) = F::read(&reply.message.text(), is_whole, outputs) else {
        let shape = F::shape("why", &format!("a tool, or {FINISH}"));
        reply.problem = Some(format!("Your reply cannot be read. Write {}:\n{shape}", F::WRITTEN));
        return reply;
    };
    if let Some(thought) = step.thought.filter(|thought| !thought.trim().is_empty()) {
        let reasoning = reply.message.reasoning.take().filter(|reasoning| !reasoning.is_empty());
        // What the server takes as thinking is kept beside what the model calls a thought.
        reply.message.reasoning =
            Some(reasoning.map_or_else(|| thought.clone(), |reasoning| told::joined(&reasoning, &thought)));
    }
    match step.action {
        Action::Call { name, arguments } => {
            reply.message.content.clear();
            reply.message.tool_calls = vec![ToolCall::new("", name, arguments)];
        }
        Action::Finish(arguments) => finish::<F>(&mut reply, arguments, outputs),
        Action::Answer(text) => conclude::<F>(&mut reply, plain(Value::String(text)).map(Content::text)),
    }
    reply
}

/// Makes the answer of the arguments of [`FINISH`].
fn finish<F: Form>(reply: &mut Reply, arguments: Value, outputs: Option<&Schema>) {
    let answer = match outputs {
        // Whether it has the form that was asked for, the run says.
        Some(_) => Some(Content::Json { value: arguments }),
        None => answer(arguments).map(Content::text),
    };
    conclude::<F>(reply, answer);
}

fn conclude<F: Form>(reply: &mut Reply, answer: Option<Content>) {
    match answer {
        Some(answer) => reply.message.content = vec![answer],
        None => {
            let right = F::write("why", FINISH, &serde_json::json!({ANSWER: "the answer"}));
            reply.problem = Some(format!("Your reply has no answer. To end, write it so:\n{right}"));
        }
    }
}

/// The text of an answer, however the arguments wrap it.
fn answer(arguments: Value) -> Option<String> {
    match arguments {
        Value::Object(mut arguments) => match arguments.shift_remove(ANSWER) {
            Some(answer) => plain(answer),
            // Under another name, if there is no doubt which.
            None if arguments.len() == 1 => {
                arguments.into_iter().next().and_then(|(_, answer)| plain(answer))
            }
            None => None,
        },
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(arguments @ Value::Object(_)) => answer(arguments),
            _ => plain(Value::String(text)),
        },
        other => plain(other),
    }
}

/// An answer as text, if it says anything.
pub(super) fn plain(answer: Value) -> Option<String> {
    match answer {
        Value::Null => None,
        Value::String(text) => Some(text).filter(|text| !text.trim().is_empty()),
        other => Some(other.to_string()),
    }
}
