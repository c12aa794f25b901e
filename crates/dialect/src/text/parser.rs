//! The parser of plain text steps: lines with a thought, an action and its arguments.

use haft_core::{
    Schema,
    lenient_json::{self, JsonObject},
    schema::json_text,
};
use serde_json::Value;

use super::section_parser::{SectionParser, StepSections};
use crate::{
    FINISH, json,
    step::{ANSWER_KEY, ParsedStep, StepAction, answer_to_text},
};

/// Parses the first step in `text`: labeled lines, or a JSON object. Returns `None` if `text` has
/// no step or an ambiguous one.
///
/// If `is_complete` is `false`, `text` may be truncated anywhere, so missing closing brackets of
/// arguments are not added.
pub(super) fn parse_step(text: &str, is_complete: bool, outputs: Option<&Schema>) -> Option<ParsedStep> {
    let mut parser = SectionParser::default();
    parser.push(text);
    let reader = StepReader { sections: parser.finish(), is_complete, outputs };
    let non_empty = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let thought = non_empty(&reader.sections.thought);
    if reader.sections.is_ambiguous {
        return None;
    }
    if reader.sections.actions.is_empty() && reader.sections.answer.trim().is_empty() {
        let parse = if thought.is_some() { json::parse_last_step } else { json::parse_step };
        let step = parse(text, outputs)?;
        return Some(ParsedStep { thought: thought.or(step.thought), ..step });
    }
    // Without a thought section, the preamble is the thought.
    let thought = thought.or_else(|| non_empty(&reader.sections.preamble));
    Some(ParsedStep { thought, action: reader.read_action()? })
}

/// A converter from the sections of one step to a [`StepAction`].
struct StepReader<'a> {
    sections: &'a StepSections,
    is_complete: bool,
    outputs: Option<&'a Schema>,
}

impl StepReader<'_> {
    fn read_action(&self) -> Option<StepAction> {
        let Some(action) = self.sections.actions.last() else { return self.read_answer() };
        let (name, rest) = split_call(action);
        if self.sections.actions.iter().any(|other| split_call(other).0 != name) {
            return None;
        }
        if name.is_empty() {
            let as_json = json::parse_step(action, self.outputs).map(|step| step.action);
            return as_json.or_else(|| self.read_answer());
        }
        let arguments = self.sections.arguments.trim_start();
        let text = if arguments.is_empty() { rest } else { arguments };
        if name.eq_ignore_ascii_case(FINISH) {
            return match text.trim() {
                "" => self.read_answer().or_else(|| Some(StepAction::Answer(String::new()))),
                inline if arguments.is_empty() => self.read_finish(strip_brackets(inline)),
                text => self.read_finish(text),
            };
        }
        if name.eq_ignore_ascii_case("none") && text.trim().is_empty() {
            return self.read_answer();
        }
        let has_both = !arguments.is_empty() && self.parse_arguments(rest).is_some();
        // A call is ambiguous if it has arguments both in the action and in the arguments section,
        // or an answer instead of arguments.
        if has_both || (text.is_empty() && !self.sections.answer.trim().is_empty()) {
            return None;
        }
        self.read_call(name, text)
    }

    fn read_call(&self, name: &str, text: &str) -> Option<StepAction> {
        let is_closed = text.contains(')');
        let arguments = match self.parse_arguments(text) {
            Some(arguments) => json_text(&Value::Object(arguments)),
            None if is_only_punctuation(text) && (is_closed || !text.contains('(')) => {
                // In a truncated reply, the arguments of the call may still be missing.
                (self.is_complete || is_closed).then(|| "{}".to_owned())?
            }
            // The unparsed text is passed on, so that the validation error of the call explains the
            // problem to the model.
            None => text.trim().to_owned(),
        };
        Some(StepAction::call(name.to_owned(), arguments))
    }

    fn read_answer(&self) -> Option<StepAction> {
        let answer = self.sections.answer.trim();
        if answer.is_empty() {
            return None;
        }
        let wrapped = || {
            lenient_json::parse_leading_object(strip_opening_fence(answer))
                .filter(|parsed| is_only_punctuation(parsed.rest))
        };
        self.finish_action(answer, wrapped().map(|parsed| parsed.object))
    }

    /// Returns the action of a [`FINISH`] call with the arguments `text`. Returns `None` if the
    /// arguments start with `{` and are truncated or invalid.
    fn read_finish(&self, text: &str) -> Option<StepAction> {
        if self.outputs.is_none() && !strip_opening_fence(text).starts_with(['{', '(']) {
            return Some(StepAction::Answer(text.to_owned()));
        }
        let arguments = self.parse_arguments(text);
        // An object that cannot be parsed may be truncated, so it is not used as the answer.
        if arguments.is_none() && strip_opening_fence(text).starts_with('{') {
            return None;
        }
        self.finish_action(text, arguments)
    }

    /// Returns the action that ends the run. With declared outputs, the answer is `object`, or an
    /// object parsed from `text`. Without outputs, the answer is the member [`ANSWER_KEY`] of
    /// `object`. If there is no such answer, it is the whole `text`.
    fn finish_action(&self, text: &str, object: Option<JsonObject>) -> Option<StepAction> {
        if self.outputs.is_some() {
            let object = object.or_else(|| self.parse_arguments(text));
            return Some(StepAction::Finish(object.map_or_else(|| text.into(), Value::Object)));
        }
        let answer = object.and_then(|mut object| object.shift_remove(ANSWER_KEY));
        Some(StepAction::Answer(match answer {
            Some(answer) => answer_to_text(answer).unwrap_or_default(),
            None => text.to_owned(),
        }))
    }

    /// Parses the arguments of a call: a JSON object or Python keyword arguments. Returns `None` if
    /// they are invalid, truncated, or followed by more arguments.
    fn parse_arguments(&self, text: &str) -> Option<JsonObject> {
        let text = strip_opening_fence(text).trim_start_matches(is_markup);
        let text = text.strip_prefix('(').map_or(text, str::trim_start);
        let parsed = if text.starts_with('{') {
            lenient_json::parse_leading_object(text)
        } else {
            lenient_json::parse_keyword_arguments(text)
        }?;
        let rest = parsed.rest.trim_start();
        // More arguments follow: another object, or more members.
        let continues =
            rest.starts_with('{') || rest.strip_prefix(',').is_some_and(|more| !is_only_punctuation(more));
        ((parsed.is_complete || self.is_complete) && !continues).then_some(parsed.object)
    }
}

/// Splits `action`, such as `add(x=1)`, into the tool name and the text after it.
pub(super) fn split_call(action: &str) -> (&str, &str) {
    let action = strip_opening_fence(action).trim_start_matches(is_markup);
    let is_name_character = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let length = action.find(|letter| !is_name_character(letter)).unwrap_or(action.len());
    let (name, rest) = action.split_at_checked(length).unwrap_or((action, ""));
    (name.trim_end_matches('.'), rest.trim_start_matches(|letter| is_markup(letter) || letter == '.'))
}

fn is_markup(letter: char) -> bool {
    letter.is_whitespace() || "*`\"'".contains(letter)
}

fn is_only_punctuation(text: &str) -> bool {
    text.trim_matches(|letter| is_markup(letter) || "().,;".contains(letter)).is_empty()
}

/// Removes the brackets and quotes around the text of an inline answer, as in `[42]` or `("42")`.
fn strip_brackets(text: &str) -> &str {
    let closed = text.trim_end_matches(|letter| is_markup(letter) || letter == '.');
    let inside = |open, close| closed.strip_prefix(open)?.strip_suffix(close);
    // `(answer="42")` and `({…})` are arguments, not a quoted answer.
    let is_named = |inside: &&str| inside.contains(['=', '{']);
    let Some(inside) = inside('[', ']').or_else(|| inside('(', ')').filter(|inside| !is_named(inside)))
    else {
        return text;
    };
    let quoted = |quote: char| inside.strip_prefix(quote)?.strip_suffix(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(inside)
}

/// Removes the opening code fence of `text` together with its language, as in `` ```json ``.
fn strip_opening_fence(text: &str) -> &str {
    let text = text.trim_start();
    let Some(fenced) = text.strip_prefix("```") else { return text };
    let after_language = fenced.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let after_space = after_language.trim_start_matches([' ', '\t']);
    if after_space.starts_with(['\n', '{']) { after_space.trim_start() } else { fenced }
}
