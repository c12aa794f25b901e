//! The ReAct dialect in plain text: thought, action and arguments, one line each.

mod answer_scanner;
mod label;
mod nesting;
mod parser;
mod section_parser;
mod stream_parser;

use haft_core::{
    Schema,
    model::{ChatRequest, ChatResponse},
    schema::json_text,
};
use serde_json::Value;

use crate::{
    Dialect, FINISH, Prompt, Reply, StreamParser,
    step::{self, ParsedStep, StepFormat, StepStreamParser},
};
pub(crate) use label::ends_step;
use stream_parser::TextScanner;

/// Stop sequences that match the start of an observation. They end a reply before the model makes
/// up an observation. The line break and the colon or `from` prevent matches within a thought about
/// observations.
const STOP_SEQUENCES: [&str; 2] = ["\nObservation from", "\nObservation:"];

/// The maximum number of stop sequences in one model request. OpenAI accepts four.
const MAX_STOP_SEQUENCES: usize = 4;

/// A ReAct dialect that works with any text model. Each reply has three lines: a thought, an action
/// and its arguments.
///
/// Stop sequences end the reply before the model can make up an observation. The parser reads the
/// first step of a reply, ignores the rest, and accepts common deviations:
///
/// - In the whole reply: code fences, text around the lines, other or bold labels, the markers of
///   DSPy, and a step as JSON. After a thought, a JSON step must start a line and end the reply,
///   because the thought can quote a call.
/// - In the arguments: single quotes, trailing commas, Python's constants, and missing closing
///   braces at the end.
///
/// Arguments that may be truncated, for example within a string, are not completed. The call then
/// fails validation, and the model can repeat it. The text of an answer is not changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextReact;

impl Dialect for TextReact {
    fn name(&self) -> &'static str {
        "text"
    }

    fn build_request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let mut request = step::build_request::<Self>(prompt);
        let stop = &mut request.settings.stop;
        // The caller's stop sequences have precedence. If there is no room for the sequences of
        // this dialect, the parser still ignores an observation that the model makes up.
        let free = MAX_STOP_SEQUENCES.saturating_sub(stop.len());
        stop.extend(STOP_SEQUENCES.into_iter().take(free).map(str::to_owned));
        request
    }

    fn parse_reply(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        step::parse_reply::<Self>(response, outputs)
    }

    fn stream_parser(&self, outputs: Option<&Schema>) -> Box<dyn StreamParser> {
        Box::new(StepStreamParser::<Self>::new(outputs))
    }

    fn reserved_name(&self, _outputs: Option<&Schema>) -> Option<&'static str> {
        Some(FINISH)
    }
}

/// Each step is three lines of text.
impl StepFormat for TextReact {
    const DESCRIPTION: &'static str = "three lines, of which the last is one JSON object";
    type Scanner = TextScanner;

    fn template(thought: &str, tool_name: &str) -> String {
        format_step(thought, tool_name, "{its arguments, as JSON}")
    }

    fn format_step(thought: &str, tool_name: &str, tool_args: &Value) -> String {
        // The thought is written as one line, because any further line could look like a label.
        let thought: Vec<_> = thought.split_whitespace().collect();
        format_step(&thought.join(" "), tool_name, &json_text(tool_args))
    }

    fn parse(text: &str, is_complete: bool, outputs: Option<&Schema>) -> Option<ParsedStep> {
        parser::parse_step(text, is_complete, outputs)
    }
}

fn format_step(thought: &str, tool_name: &str, tool_args: &str) -> String {
    format!("Thought: {thought}\nAction: {tool_name}\nArguments: {tool_args}")
}

#[cfg(test)]
mod tests;
