//! Reads a step out of what a model wrote.

use haft_core::{
    Schema,
    text::{CLOSE_TAG, OPEN_TAG},
};
use serde_json::Value;

use super::{
    super::{
        FINISH, json,
        step::{ANSWER, Action, Step, plain},
    },
    relaxed::{self, Object},
    sections::{Parts, Sections},
};

/// Reads the first step of a text. A step that was written as JSON is read as well.
///
/// What was broken off, so that `is_whole` is false, is not completed.
pub(super) fn step(text: &str, is_whole: bool, outputs: Option<&Schema>) -> Option<Step> {
    let mut sections = Sections::default();
    sections.take(text);
    let reader = Reader { parts: sections.end(), is_whole, outputs };
    let thought = |thought: &str| Some(thought.trim().to_owned()).filter(|thought| !thought.is_empty());
    let said = thought(&reader.parts.thought);
    if reader.parts.is_unclear {
        return None;
    }
    if reader.parts.actions.is_empty() && reader.parts.answer.trim().is_empty() {
        let text = behind_thinking(text);
        // Among the words of a thought an object is only spoken of.
        let text = if said.is_some() { from_object(text)? } else { text };
        let step = json::read_step(text, outputs)?;
        return Some(Step { thought: said.or(step.thought), ..step });
    }
    // What was not called a thought is one if nothing else is.
    let thought = said.or_else(|| thought(&reader.parts.preamble));
    Some(Step { thought, action: reader.action()? })
}

fn behind_thinking(text: &str) -> &str {
    match text.trim_start().strip_prefix(OPEN_TAG) {
        Some(thinking) => thinking.split_once(CLOSE_TAG).map_or("", |(_, behind)| behind),
        None => text,
    }
}

/// A text from the first line that begins with an object, or with a fence.
fn from_object(text: &str) -> Option<&str> {
    let mut lines = text.split_inclusive('\n').scan(0, |start, line| {
        let begin = *start;
        *start += line.len();
        Some((begin, line))
    });
    let (start, _) = lines.find(|(_, line)| line.trim_start().starts_with(['{', '`']))?;
    text.get(start..)
}

struct Reader<'a> {
    parts: &'a Parts,
    is_whole: bool,
    outputs: Option<&'a Schema>,
}

impl Reader<'_> {
    fn action(&self) -> Option<Action> {
        let Some(action) = self.parts.actions.last() else { return self.answer() };
        let (name, behind) = called(action);
        if self.parts.actions.iter().any(|other| called(other).0 != name) {
            return None;
        }
        if name.is_empty() {
            let as_json = json::read_step(action, self.outputs).map(|step| step.action);
            return as_json.or_else(|| self.answer());
        }
        let arguments = self.parts.arguments.trim_start();
        let given = if arguments.is_empty() { behind } else { arguments };
        if name.eq_ignore_ascii_case(FINISH) {
            return match given.trim() {
                "" => self.answer().or_else(|| Some(Action::Answer(String::new()))),
                inline if arguments.is_empty() => self.finish(unwrapped(inline)),
                given => self.finish(given),
            };
        }
        if name.eq_ignore_ascii_case("none") && given.trim().is_empty() {
            return self.answer();
        }
        let has_both = !arguments.is_empty() && self.arguments(behind).is_some();
        // A call with two sets of arguments, or one without any before an answer: nobody knows which is meant.
        if has_both || (given.is_empty() && !self.parts.answer.trim().is_empty()) {
            return None;
        }
        self.call(name, given)
    }

    fn call(&self, name: &str, given: &str) -> Option<Action> {
        let is_closed = given.contains(')');
        let arguments = match self.arguments(given) {
            Some(arguments) => Value::Object(arguments).to_string(),
            None if is_nothing(given) && (is_closed || !given.contains('(')) => {
                // They may have been to come.
                (self.is_whole || is_closed).then(|| "{}".to_owned())?
            }
            // The tool's error says what is wrong with it.
            None => given.trim().to_owned(),
        };
        Some(Action::Call { name: name.to_owned(), arguments })
    }

    fn answer(&self) -> Option<Action> {
        let answer = self.parts.answer.trim();
        if answer.is_empty() {
            return None;
        }
        let wrapped = || relaxed::object(unfenced(answer)).filter(|read| is_nothing(read.behind));
        self.ends(answer, wrapped().map(|read| read.object))
    }

    /// The end, with what was given to [`FINISH`].
    fn finish(&self, given: &str) -> Option<Action> {
        if self.outputs.is_none() && !unfenced(given).starts_with(['{', '(']) {
            return Some(Action::Answer(given.to_owned()));
        }
        let arguments = self.arguments(given);
        // Half an answer is none.
        if arguments.is_none() && unfenced(given).starts_with('{') {
            return None;
        }
        self.ends(given, arguments)
    }

    /// The end with this text, or with what it says as an object.
    fn ends(&self, text: &str, object: Option<Object>) -> Option<Action> {
        if self.outputs.is_some() {
            let object = object.or_else(|| self.arguments(text));
            return Some(Action::Finish(object.map_or_else(|| text.into(), Value::Object)));
        }
        let answer = object.and_then(|mut object| object.shift_remove(ANSWER));
        Some(Action::Answer(match answer {
            Some(answer) => plain(answer).unwrap_or_default(),
            None => text.to_owned(),
        }))
    }

    /// Arguments as they are meant, if that can be said.
    fn arguments(&self, text: &str) -> Option<Object> {
        let text = unfenced(text).trim_start_matches(is_mark);
        let text = text.strip_prefix('(').map_or(text, str::trim_start);
        let read = if text.starts_with('{') { relaxed::object(text) } else { relaxed::keywords(text) }?;
        let behind = read.behind.trim_start();
        // Another object, or the rest of this one.
        let goes_on = behind.starts_with('{') || behind.strip_prefix(',').is_some_and(|it| !is_nothing(it));
        ((read.is_whole || self.is_whole) && !goes_on).then_some(read.object)
    }
}

/// The name of the tool, and what stands behind it, where a call is written as one.
pub(super) fn called(action: &str) -> (&str, &str) {
    let action = unfenced(action).trim_start_matches(is_mark);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let length = action.find(|letter| !is_part(letter)).unwrap_or(action.len());
    let (name, behind) = action.split_at_checked(length).unwrap_or((action, ""));
    (name.trim_end_matches('.'), behind.trim_start_matches(|letter| is_mark(letter) || letter == '.'))
}

fn is_mark(letter: char) -> bool {
    letter.is_whitespace() || "*`\"'".contains(letter)
}

fn is_nothing(text: &str) -> bool {
    text.trim_matches(|letter| is_mark(letter) || "().,;".contains(letter)).is_empty()
}

/// An answer that is written as in a call, `Finish[42]`, without what is around it.
fn unwrapped(given: &str) -> &str {
    let closed = given.trim_end_matches(|letter| is_mark(letter) || letter == '.');
    let inside = |open, close| closed.strip_prefix(open)?.strip_suffix(close);
    // What has a name is read as arguments.
    let is_named = |inside: &&str| inside.contains(['=', '{']);
    let Some(inside) = inside('[', ']').or_else(|| inside('(', ')').filter(|inside| !is_named(inside)))
    else {
        return given;
    };
    let quoted = |quote: char| inside.strip_prefix(quote)?.strip_suffix(quote);
    quoted('"').or_else(|| quoted('\'')).unwrap_or(inside)
}

/// A text without the beginning of the fence around it.
fn unfenced(text: &str) -> &str {
    let text = text.trim_start();
    let Some(fenced) = text.strip_prefix("```") else { return text };
    let behind_word = fenced.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let behind_space = behind_word.trim_start_matches([' ', '\t']);
    if behind_space.starts_with(['\n', '{']) { behind_space.trim_start() } else { fenced }
}
