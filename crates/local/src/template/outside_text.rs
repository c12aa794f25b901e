//! Markers that separate untrusted text from the markup of a template.

use std::borrow::Cow;
use std::collections::HashSet;

use minijinja::Value;

use crate::tokenizer::{PromptEncoder, Tokenizer};

/// The character that opens a marker. A marker consists of [`MARKER_OPEN`], the index of an
/// untrusted text, and [`MARKER_CLOSE`]. The template renders the marker in place of the text.
const MARKER_OPEN: char = '\u{F0000}';
/// The character that closes a marker.
pub(super) const MARKER_CLOSE: char = '\u{F0001}';
/// The character that opens a marker within a JSON string. The text that replaces the marker is
/// JSON-escaped.
const MARKER_OPEN_JSON: char = '\u{F0002}';

/// The character that opens a marker in place of a Python string literal.
const MARKER_OPEN_PYTHON: char = '\u{F0003}';
/// The characters that open markers.
const MARKER_OPENS: [char; 3] = [MARKER_OPEN, MARKER_OPEN_JSON, MARKER_OPEN_PYTHON];

/// The untrusted texts of a conversation that are replaced by markers while the template is
/// rendered. Each marker contains the index of its text.
pub(super) struct OutsideText<'a> {
    texts: Vec<String>,
    markup_edges: &'a HashSet<char>,
}

impl<'a> OutsideText<'a> {
    /// Creates an empty list. `markup_edges` contains the first and last characters of all special
    /// tokens. Text without these characters cannot contain or complete the spelling of a special
    /// token.
    pub(super) fn new(markup_edges: &'a HashSet<char>) -> Self {
        Self { texts: Vec::new(), markup_edges }
    }

    /// Stores `text` and returns its marker. The template renders the marker in place of the
    /// text.
    pub(super) fn add_as_marker(&mut self, text: &str) -> String {
        self.texts.push(text.to_owned());
        format!("{MARKER_OPEN}{}{MARKER_CLOSE}", self.texts.len() - 1)
    }

    /// Returns `text` unchanged if it cannot be confused with markup, because a template may
    /// compare it with a constant. Otherwise stores `text` and returns its marker.
    pub(super) fn text_or_marker(&mut self, text: &str) -> Value {
        let touches = |letter: char| {
            self.markup_edges.contains(&letter) || letter == MARKER_CLOSE || MARKER_OPENS.contains(&letter)
        };
        match text.contains(touches) {
            true => Value::from(self.add_as_marker(text)),
            false => Value::from(text),
        }
    }

    /// Converts `json` to a value of the template engine. Strings and keys are replaced by markers
    /// if they could be confused with markup.
    pub(super) fn template_value(&mut self, json: &serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::from(()),
            serde_json::Value::Bool(value) => Value::from(*value),
            serde_json::Value::Number(number) => number_value(number),
            serde_json::Value::String(text) => self.text_or_marker(text),
            serde_json::Value::Array(items) => items.iter().map(|item| self.template_value(item)).collect(),
            serde_json::Value::Object(entries) => {
                let pairs: Vec<_> = entries
                    .iter()
                    .map(|(key, value)| (self.text_or_marker(key), self.template_value(value)))
                    .collect();
                Value::from_pairs(pairs)
            }
        }
    }

    /// Encodes `rendered`, the output of the template, as tokens. Markup of the template may become
    /// special tokens. Untrusted texts replace their markers and never become special tokens.
    pub(super) fn encode(&self, rendered: &str, tokenizer: &Tokenizer) -> Vec<u32> {
        let mut prompt = PromptEncoder::new(tokenizer);
        let mut rest = rendered;
        while let Some(start) = rest.find(MARKER_OPENS) {
            let (markup, marker) = rest.split_at(start);
            prompt.push_markup(markup);
            let Some((index, behind)) = marker.split_once(MARKER_CLOSE) else {
                // The template has cut off the end of a marker. The rest of the output is dropped.
                return prompt.finish();
            };
            rest = behind;
            let open = index.chars().next().unwrap_or(MARKER_OPEN);
            let index = index.trim_start_matches(MARKER_OPENS).parse::<usize>().ok();
            if let Some(text) = index.and_then(|index| self.texts.get(index)) {
                prompt.push_content(&replacement(open, text));
            }
        }
        prompt.push_markup(rest);
        prompt.finish()
    }

    /// Returns `rendered` with each marker replaced by its untrusted text.
    pub(super) fn replace_markers(&self, rendered: &str) -> String {
        self.texts.iter().enumerate().fold(rendered.to_owned(), |rendered, (index, text)| {
            MARKER_OPENS.into_iter().fold(rendered, |rendered, open| {
                rendered.replace(&format!("{open}{index}{MARKER_CLOSE}"), &replacement(open, text))
            })
        })
    }
}

/// Returns the text that replaces a marker for `text`. The marker begins with `open`.
fn replacement(open: char, text: &str) -> Cow<'_, str> {
    match open {
        MARKER_OPEN_JSON => Cow::Owned(json_escaped(text)),
        MARKER_OPEN_PYTHON => Cow::Owned(python_literal(text)),
        _ => Cow::Borrowed(text),
    }
}

/// Replaces [`MARKER_OPEN`] with [`MARKER_OPEN_JSON`] in `literal`, a JSON string literal, so that
/// the text of each marker is inserted JSON-escaped.
pub(super) fn as_json_markers(literal: &str) -> String {
    literal.replace(MARKER_OPEN, &String::from(MARKER_OPEN_JSON))
}

/// Returns a marker that is replaced by a Python string literal, if `text` is a marker.
pub(super) fn as_python_marker(text: &str) -> Option<String> {
    let index = text.strip_prefix(MARKER_OPEN)?;
    (index.find(MARKER_CLOSE)? + MARKER_CLOSE.len_utf8() == index.len()).then_some(())?;
    Some(format!("{MARKER_OPEN_PYTHON}{index}"))
}

/// Returns `text` as a Python string literal, like `repr`. It is quoted with `"` if it contains `'`
/// and no `"`.
pub(super) fn python_literal(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut literal = String::from(quote);
    for letter in text.chars() {
        match letter {
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            '\\' => literal.push_str("\\\\"),
            letter if letter == quote => literal.extend(['\\', letter]),
            letter if letter.is_control() => literal.push_str(&format!("\\x{:02x}", u32::from(letter))),
            letter => literal.push(letter),
        }
    }
    literal.push(quote);
    literal
}

fn json_escaped(text: &str) -> String {
    let literal = serde_json::Value::from(text).to_string();
    literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default().to_owned()
}

fn number_value(number: &serde_json::Number) -> Value {
    match (number.as_i64(), number.as_u64()) {
        (Some(number), _) => Value::from(number),
        (None, Some(number)) => Value::from(number),
        (None, None) => Value::from(number.as_f64().unwrap_or_default()),
    }
}
