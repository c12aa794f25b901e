//! Reads a step out of what a model wrote.

use haft_core::{Schema, Value};

use super::{
    super::{
        FINISH, json,
        step::{Action, Step},
    },
    relaxed,
    sections::{Section, Sections},
};

/// Reads the first step of a text. A step that was written as JSON is read as well.
pub(super) fn step(text: &str, outputs: Option<&Schema>) -> Option<Step> {
    let parts = Parts::of(text);
    let Some(action) = parts.action(outputs) else { return json::read_step(text, outputs) };
    // What was not called a thought is one if nothing else is.
    let thought =
        [parts.thought.as_str(), &parts.preamble].map(str::trim).into_iter().find(|it| !it.is_empty());
    Some(Step { thought: thought.map(str::to_owned), action })
}

/// What stands in each part of a step.
#[derive(Default)]
struct Parts {
    preamble: String,
    thought: String,
    action: String,
    arguments: String,
    answer: String,
}

impl Parts {
    fn of(text: &str) -> Self {
        let mut parts = Self::default();
        let mut tell = |section, text: &str| match section {
            Section::Preamble => parts.preamble.push_str(text),
            Section::Thought => parts.thought.push_str(text),
            Section::Action => parts.action.push_str(text),
            Section::Arguments => parts.arguments.push_str(text),
            Section::Answer => parts.answer.push_str(text),
            Section::Others => {}
        };
        let mut sections = Sections::default();
        sections.take(text, &mut tell);
        sections.end(&mut tell);
        parts
    }

    fn action(&self, outputs: Option<&Schema>) -> Option<Action> {
        let (name, behind) = called(&self.action);
        if name.is_empty() {
            let as_json = json::read_step(&self.action, outputs).map(|step| step.action);
            return as_json.or_else(|| self.answer());
        }
        let given = if self.arguments.trim().is_empty() { behind } else { &self.arguments };
        let arguments = arguments(given);
        if !name.eq_ignore_ascii_case(FINISH) {
            let arguments = match arguments {
                Some(arguments) => arguments.to_string(),
                // The tool's error says what is wrong with it.
                None => given.trim().to_owned(),
            };
            return Some(Action::Call { name: name.to_owned(), arguments });
        }
        match arguments {
            Some(arguments) if !given.trim().is_empty() => Some(Action::Finish(arguments)),
            _ => self.answer().or_else(|| Some(Action::Finish(Value::from(unfenced(given))))),
        }
    }

    fn answer(&self) -> Option<Action> {
        let answer = self.answer.trim();
        (!answer.is_empty()).then(|| Action::Finish(arguments(answer).unwrap_or_else(|| answer.into())))
    }
}

/// The name of the tool, and what stands behind it, where a call is written as one.
fn called(action: &str) -> (&str, &str) {
    let action = unfenced(action).trim_start_matches(is_mark);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let length = action.find(|letter| !is_part(letter)).unwrap_or(action.len());
    let (name, behind) = action.split_at_checked(length).unwrap_or((action, ""));
    (name.trim_end_matches('.'), behind.trim_start_matches(is_mark))
}

fn is_mark(letter: char) -> bool {
    letter.is_whitespace() || "*`\"'".contains(letter)
}

/// Arguments as they are meant, none for no text; or nothing if that cannot be said.
fn arguments(text: &str) -> Option<Value> {
    let text = unfenced(text);
    if text.trim_matches(|letter| is_mark(letter) || "().,;".contains(letter)).is_empty() {
        return Some(Value::Object(serde_json::Map::new()));
    }
    let object = match text.find('{') {
        Some(start) if !text.get(..start)?.contains('=') => relaxed::object(text.get(start..)?),
        _ => relaxed::keywords(text.trim().trim_start_matches('(')),
    };
    object.map(Value::Object)
}

/// A text without the fence around it.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some((_, fenced)) = text.split_once("```") else { return text };
    let fenced = fenced.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    fenced.split_once("```").map_or(fenced, |(inside, _)| inside).trim()
}
