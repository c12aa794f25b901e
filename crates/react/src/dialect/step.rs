//! Shared parts of the dialects whose steps are text: a thought, the name of a tool, and its
//! arguments.

mod delta_buffer;
mod examples;
mod prompt;
mod render;

use std::sync::Arc;

use haft_core::{
    Schema, ToolCall, ToolDefinition,
    content::Content,
    model::{ChatRequest, ChatResponse, FinishReason, ResponseFormat, ToolChoice},
};
use serde_json::Value;

use super::{FINISH, Prompt, take_finish};
use crate::dialect::Reply;
pub(super) use delta_buffer::DeltaBuffer;
use prompt::StepPrompt;

/// The argument of [`FINISH`] with the answer, if no outputs are declared.
pub(super) const ANSWER: &str = "answer";

/// The text format of a step.
pub(super) trait StepFormat: Send + Sync + 'static {
    /// A description of the format, for the model.
    const DESCRIPTION: &'static str;

    /// Returns a template of a step, with these placeholders for the thought and the tool name.
    fn template(thought: &str, tool_name: &str) -> String;

    /// Formats a step.
    fn write(thought: &str, tool_name: &str, tool_args: &Value) -> String;

    /// Parses the first step of a reply. `is_complete` is set if the model stopped by itself, so
    /// that nothing was truncated. `outputs` is the output schema, if the answer is structured.
    fn parse(text: &str, is_complete: bool, outputs: Option<&Schema>) -> Option<ParsedStep>;

    /// Returns the response format that constrains a reply to a step with one of these tools.
    /// Default: unconstrained text.
    fn response_format(_tools: &[&ToolDefinition]) -> ResponseFormat {
        ResponseFormat::Text
    }
}

/// A step of a reply.
#[derive(Debug, PartialEq)]
pub(super) struct ParsedStep {
    pub(super) thought: Option<String>,
    pub(super) action: StepAction,
}

/// The action of a step.
#[derive(Debug, PartialEq)]
pub(super) enum StepAction {
    /// A tool call, with unparsed arguments.
    Call { name: String, arguments: String },
    /// The end of the run, with the arguments of [`FINISH`].
    Finish(Value),
    /// The end of the run, with a text.
    Answer(String),
}

/// Builds a request.
pub(super) fn request<F: StepFormat>(prompt: &Prompt<'_>) -> ChatRequest {
    let step_prompt = StepPrompt::<F>::cached(prompt);
    let choice = if prompt.must_answer { &ToolChoice::None } else { prompt.tool_choice };
    // The last message, so that the prefix of each request can be cached by the provider.
    let directive = if prompt.must_answer { None } else { prompt::directive(choice) };
    let messages = prompt.messages.iter().map(render::message::<F>);
    ChatRequest {
        instructions: Some(step_prompt.system_message(prompt)),
        messages: messages.chain(directive.map(Arc::new)).collect(),
        response_format: step_prompt.response_format(prompt.tools, choice),
        settings: prompt.settings.clone(),
        ..ChatRequest::default()
    }
}

/// Parses a reply into the form of the transcript.
pub(super) fn fold<F: StepFormat>(response: ChatResponse, outputs: Option<&Schema>) -> Reply {
    let mut reply = Reply::from(response);
    // A refusal has no step. The run handles an empty reply.
    if reply.message.refusal.is_some() || reply.message.is_empty() {
        return reply;
    }
    // Some servers parse calls in text by themselves.
    if !reply.message.tool_calls.is_empty() {
        if let Some(arguments) = take_finish(&mut reply.message) {
            finish::<F>(&mut reply, Value::String(arguments.to_string()), outputs);
        }
        return reply;
    }
    let is_complete = reply.finish_reason == FinishReason::Stop;
    let Some(step) = F::parse(&reply.message.text(), is_complete, outputs) else {
        let template = F::template("why", &format!("a tool, or {FINISH}"));
        reply.problem = Some(format!("Your reply cannot be read. Write {}:\n{template}", F::DESCRIPTION));
        return reply;
    };
    if let Some(thought) = step.thought.filter(|thought| !thought.trim().is_empty()) {
        let reasoning = reply.message.reasoning.take().filter(|reasoning| !reasoning.is_empty());
        reply.message.reasoning =
            Some(reasoning.map_or_else(
                || thought.clone(),
                |reasoning| delta_buffer::join_reasoning(&reasoning, &thought),
            ));
    }
    match step.action {
        StepAction::Call { name, arguments } => {
            reply.message.content.clear();
            reply.message.tool_calls = vec![ToolCall::new("", name, arguments)];
        }
        StepAction::Finish(arguments) => finish::<F>(&mut reply, arguments, outputs),
        StepAction::Answer(text) => conclude::<F>(&mut reply, plain(Value::String(text)).map(Content::text)),
    }
    reply
}

/// Sets the answer from the arguments of [`FINISH`].
fn finish<F: StepFormat>(reply: &mut Reply, arguments: Value, outputs: Option<&Schema>) {
    let answer = match outputs {
        // The run validates it against the schema.
        Some(_) => Some(Content::Json { value: arguments }),
        None => answer_text(arguments).map(Content::text),
    };
    conclude::<F>(reply, answer);
}

/// Sets the answer, or the problem that there is none.
fn conclude<F: StepFormat>(reply: &mut Reply, answer: Option<Content>) {
    match answer {
        Some(answer) => reply.message.content = vec![answer],
        None => {
            let example = F::write("why", FINISH, &serde_json::json!({ANSWER: "the answer"}));
            reply.problem = Some(format!("Your reply has no answer. To end, write it so:\n{example}"));
        }
    }
}

/// Returns the text of an answer: the argument [`ANSWER`], the only argument, or the arguments
/// themselves if they are not an object.
fn answer_text(arguments: Value) -> Option<String> {
    match arguments {
        Value::Object(mut arguments) => match arguments.shift_remove(ANSWER) {
            Some(answer) => plain(answer),
            None if arguments.len() == 1 => {
                arguments.into_iter().next().and_then(|(_, answer)| plain(answer))
            }
            None => None,
        },
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(arguments @ Value::Object(_)) => answer_text(arguments),
            _ => plain(Value::String(text)),
        },
        other => plain(other),
    }
}

/// Returns an answer as text, or `None` if it is null or blank.
pub(super) fn plain(answer: Value) -> Option<String> {
    match answer {
        Value::Null => None,
        Value::String(text) => Some(text).filter(|text| !text.trim().is_empty()),
        other => Some(other.to_string()),
    }
}
