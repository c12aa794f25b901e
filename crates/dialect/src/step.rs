//! Code shared by the dialects that write a step as text: a thought, a tool name and the arguments.

mod delta_buffer;
mod examples;
mod prompt;
mod render;
mod stream_parser;

use std::sync::{Arc, LazyLock};

use haft_core::{
    Schema, ToolDefinition,
    content::Content,
    model::{ChatRequest, ChatResponse, FinishReason, ResponseFormat, ToolChoice},
    schema::{json_text, parse_json_object},
    text::ThinkSplit,
};
use serde_json::{Value, json};

use crate::{
    FINISH, Prompt, Reply,
    thinking::{join_reasoning, split_thinking},
    written_calls::WrittenCall,
};
pub(crate) use delta_buffer::{DeltaBuffer, ThoughtSource};
use prompt::StepPrompt;
pub(crate) use stream_parser::{StepScanner, StepStreamParser};

/// The name of the argument that contains the answer in a [`FINISH`] call, if no outputs are
/// declared.
pub(crate) const ANSWER_KEY: &str = "answer";

/// Returns the output schema of a step whose [`FINISH`] call has no arguments, because the outputs
/// are requested afterwards.
pub fn bare_finish_schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let empty = json!({"type": "object", "properties": {}, "additionalProperties": false});
        Schema::new(empty).unwrap_or_else(|_| Schema::object())
    });
    &SCHEMA
}

/// Returns `true` if `outputs` is the [`bare_finish_schema`].
fn is_bare(outputs: Option<&Schema>) -> bool {
    outputs.is_some_and(|outputs| outputs == bare_finish_schema())
}

/// A text format of ReAct steps, such as one JSON object or three lines.
pub(crate) trait StepFormat: Send + Sync + 'static {
    /// A description of the format in messages to the model, such as
    /// `one JSON object and nothing else`.
    const DESCRIPTION: &'static str;

    /// The incremental parser of a streamed step.
    type Scanner: StepScanner;

    /// Returns a template of one step. `thought` and `tool_name` are descriptions that the model
    /// replaces, such as `one of the tools below`.
    fn template(thought: &str, tool_name: &str) -> String;

    /// Formats a step with the given thought, tool name and arguments as text.
    fn format_step(thought: &str, tool_name: &str, tool_args: &Value) -> String;

    /// Parses the first step in `text`, or returns `None` if there is none. `is_complete` is `true`
    /// if the generation ended normally, so `text` is not truncated. `outputs` is the schema of the
    /// answer, if the answer is structured.
    fn parse(text: &str, is_complete: bool, outputs: Option<&Schema>) -> Option<ParsedStep>;

    /// Returns the response format that constrains a reply to a step that calls one of `tools`. The
    /// default implementation does not constrain the reply.
    fn response_format(_tools: &[&ToolDefinition]) -> ResponseFormat {
        ResponseFormat::Text
    }
}

/// A step of the model: a thought, and tool calls or the answer.
#[derive(Debug, PartialEq)]
pub(crate) struct ParsedStep {
    pub(crate) thought: Option<String>,
    pub(crate) action: StepAction,
}

/// The action of a [`ParsedStep`]: tool calls or the end of the run.
#[derive(Debug, PartialEq)]
pub(crate) enum StepAction {
    /// Tool calls. Several calls can include calls to [`FINISH`].
    Calls(Vec<WrittenCall>),
    /// The end of the run with a [`FINISH`] call. The value contains the arguments of the call.
    Finish(Value),
    /// The end of the run with an answer as text.
    Answer(String),
}

impl StepAction {
    pub(crate) fn call(name: String, arguments: String) -> Self {
        Self::Calls(vec![WrittenCall { name, arguments }])
    }
}

/// Converts `prompt` to a model request. The instructions in the request describe the format `F`.
pub(crate) fn build_request<F: StepFormat>(prompt: &Prompt<'_>) -> ChatRequest {
    let step_prompt = StepPrompt::<F>::get_or_create(prompt);
    let choice = if prompt.must_answer { &ToolChoice::None } else { prompt.tool_choice };
    // The directive, which describes the tool choice, is the last message. The messages that
    // precede it stay the same in each request, so the provider can cache them.
    let directive = if prompt.must_answer { None } else { prompt::tool_choice_message(choice) };
    let messages = prompt.messages.iter().map(render::render_message::<F>);
    ChatRequest {
        instructions: Some(step_prompt.system_message(prompt)),
        messages: messages.chain(directive.map(Arc::new)).collect(),
        response_format: step_prompt.response_format(prompt.tools, choice),
        settings: prompt.settings.clone(),
        ..ChatRequest::default()
    }
}

/// Parses the text of `response` as a step in the format `F`. The returned reply contains the tool
/// call or the answer of the step, or a [`problem`](Reply::problem) if there is none.
pub(crate) fn parse_reply<F: StepFormat>(response: ChatResponse, outputs: Option<&Schema>) -> Reply {
    let mut reply = Reply::from(response);
    // A refusal contains no step. Empty replies are handled by the run.
    if reply.message.refusal.is_some() || reply.message.is_empty() {
        return reply;
    }
    // Some servers convert a call in the text to a native tool call. The text then contains no step
    // to parse.
    if !reply.message.tool_calls.is_empty() {
        take_finish_call::<F>(&mut reply, outputs);
        return reply;
    }
    let is_complete = matches!(reply.finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
    let ThinkSplit { reasoning: thinking, text } = split_thinking(&reply.message.text());
    let Some(step) = F::parse(&text, is_complete, outputs) else {
        let template = F::template("why", &format!("a tool, or {FINISH}"));
        reply.problem = Some(format!("Your reply cannot be read. Write {}:\n{template}", F::DESCRIPTION));
        return reply;
    };
    let reasoning = join_reasoning(reply.message.reasoning.take(), Some(thinking));
    reply.message.reasoning = join_reasoning(reasoning, step.thought);
    set_action::<F>(&mut reply, step.action, outputs);
    reply
}

/// Replaces the content of `reply` with the calls or the answer of `action`.
fn set_action<F: StepFormat>(reply: &mut Reply, action: StepAction, outputs: Option<&Schema>) {
    match action {
        StepAction::Calls(calls) => {
            reply.set_calls(calls);
            take_finish_call::<F>(reply, outputs);
        }
        StepAction::Finish(arguments) => set_finish_answer::<F>(reply, arguments, outputs),
        StepAction::Answer(text) if is_bare(outputs) && text.trim().is_empty() => {
            set_answer::<F>(reply, Some(Content::json(json!({}))));
        }
        StepAction::Answer(text) => {
            set_answer::<F>(reply, answer_to_text(Value::String(text)).map(Content::text));
        }
    }
}

/// Removes the calls to [`FINISH`] from `reply`. If the reply has no other calls, sets its answer.
fn take_finish_call<F: StepFormat>(reply: &mut Reply, outputs: Option<&Schema>) {
    let calls = &mut reply.message.tool_calls;
    let has_outputs = outputs.is_some() && !is_bare(outputs);
    if !has_outputs && calls.iter().any(|call| call.name != FINISH) {
        // The run knows no calls to `FINISH` without outputs: the model can finish later.
        calls.retain(|call| call.name != FINISH);
    } else if !has_outputs {
        calls.truncate(1);
    }
    if let Some(arguments) = reply.take_finish() {
        set_finish_answer::<F>(reply, Value::String(arguments.to_string()), outputs);
    }
}

/// Sets the answer of `reply` from `arguments`, the arguments of a [`FINISH`] call.
fn set_finish_answer<F: StepFormat>(reply: &mut Reply, arguments: Value, outputs: Option<&Schema>) {
    let answer = match outputs {
        // The run validates the value against the schema.
        Some(_) => Some(Content::Json { value: arguments }),
        None => extract_answer_text(arguments).map(Content::text),
    };
    set_answer::<F>(reply, answer);
}

/// Sets the answer of `reply`. If `answer` is `None`, sets [`Reply::problem`] instead, so that the
/// model answers again.
fn set_answer<F: StepFormat>(reply: &mut Reply, answer: Option<Content>) {
    match answer {
        Some(answer) => {
            reply.message.content = vec![answer];
            reply.finish_reason = FinishReason::Stop;
        }
        None => {
            let example = F::format_step("why", FINISH, &json!({ANSWER_KEY: "the answer"}));
            reply.problem = Some(format!("Your reply has no answer. To end, write it so:\n{example}"));
        }
    }
}

/// Extracts the answer from the arguments of a [`FINISH`] call, as text. Returns `None` if the
/// answer is missing or blank.
///
/// In an object, the answer is the member [`ANSWER_KEY`] or the only member. If a string contains
/// the JSON text of an object, this object is used. Any other value is itself the answer.
fn extract_answer_text(arguments: Value) -> Option<String> {
    let mut members = match arguments {
        Value::Object(members) => members,
        Value::String(text) => match parse_json_object(&text) {
            Some(members) => members,
            None => return answer_to_text(Value::String(text)),
        },
        other => return answer_to_text(other),
    };
    let answer = match members.shift_remove(ANSWER_KEY) {
        None if members.len() == 1 => members.into_iter().next().map(|(_, answer)| answer),
        answer => answer,
    };
    answer.and_then(answer_to_text)
}

/// Converts an answer to text. Returns `None` if the answer is null or a blank string.
pub(crate) fn answer_to_text(answer: Value) -> Option<String> {
    match answer {
        Value::Null => None,
        Value::String(text) => Some(text).filter(|text| !text.trim().is_empty()),
        other => Some(json_text(&other)),
    }
}
