//! ReAct as plain text: thought, action and arguments, a line each.

mod label;
mod listen;
mod nesting;
mod read;
mod relaxed;
mod sections;
mod spoken;

use haft_core::{
    Schema,
    model::{ChatRequest, ChatResponse},
};
use serde_json::Value;

use super::{
    Dialect, FINISH, Listener, Prompt,
    step::{self, Form, Step},
};
use crate::dialect::Reply;
use listen::TextListener;

/// What the model would go on with by itself: what a tool returned, which it cannot know. A thought about observations is
/// none of them.
const STOP: [&str; 2] = ["\nObservation from", "\nObservation:"];

/// How many stop sequences servers take at most.
const STOPS: usize = 4;

/// Thought, action and arguments as lines of plain text, for any model that writes.
///
/// The reply ends where the model would write the observation by itself, by a stop sequence. What models write all the same
/// is tolerated: code fences, words around the lines, other names for the parts, bold ones, the markers of DSPy, a step as JSON;
/// and in the arguments single quotes, trailing commas, Python's constants, missing last braces. What goes on behind the first
/// step is left out. Arguments that may be cut are not completed: the tool refuses them. An answer is taken as it is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextReact;

impl Dialect for TextReact {
    fn name(&self) -> &'static str {
        "text"
    }

    fn request(&self, prompt: &Prompt<'_>) -> ChatRequest {
        let mut request = step::request::<Text>(prompt);
        let stop = &mut request.settings.stop;
        // Those of the caller count: where the reply goes on, it is left out all the same.
        let free = STOPS.saturating_sub(stop.len());
        stop.extend(STOP.into_iter().take(free).map(str::to_owned));
        request
    }

    fn fold(&self, response: ChatResponse, outputs: Option<&Schema>) -> Reply {
        step::fold::<Text>(response, outputs)
    }

    fn listener(&self, outputs: Option<&Schema>) -> Box<dyn Listener> {
        Box::new(TextListener::new(outputs))
    }

    fn reserved_name(&self, _outputs: Option<&Schema>) -> Option<&'static str> {
        Some(FINISH)
    }
}

/// A step as three lines.
struct Text;

impl Form for Text {
    const WRITTEN: &'static str = "three lines, of which the last is one JSON object";

    fn shape(thought: &str, tool_name: &str) -> String {
        lines(thought, tool_name, "{its arguments, as JSON}")
    }

    fn write(thought: &str, tool_name: &str, tool_args: &Value) -> String {
        // A line of a thought must not look like the next part.
        let thought: Vec<_> = thought.split_whitespace().collect();
        lines(&thought.join(" "), tool_name, &tool_args.to_string())
    }

    fn read(text: &str, is_whole: bool, outputs: Option<&Schema>) -> Option<Step> {
        read::step(text, is_whole, outputs)
    }
}

fn lines(thought: &str, tool_name: &str, tool_args: &str) -> String {
    format!("Thought: {thought}\nAction: {tool_name}\nArguments: {tool_args}")
}

#[cfg(test)]
mod tests;
