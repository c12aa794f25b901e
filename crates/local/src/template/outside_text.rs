//! Placeholders that keep untrusted text apart from template markup.

use std::collections::HashSet;

use minijinja::Value;

use crate::tokenizer::Tokenizer;

/// The character that opens a placeholder. A placeholder consists of [`OPEN`], the index of a text,
/// and [`CLOSE`].
const OPEN: char = '\u{F0000}';
const CLOSE: char = '\u{F0001}';
/// The character that opens the placeholder of a text inside a JSON string. The text is escaped
/// when it replaces the placeholder.
const OPEN_JSON: char = '\u{F0002}';

/// The untrusted texts of a conversation, by the index in their placeholders.
pub(super) struct OutsideText<'a> {
    texts: Vec<String>,
    markup_edges: &'a HashSet<char>,
}

impl<'a> OutsideText<'a> {
    /// Creates an empty list of texts. `markup_edges` are the first and last characters of all
    /// special tokens. Text without these characters cannot contain or complete the spelling of a
    /// special token.
    pub(super) fn new(markup_edges: &'a HashSet<char>) -> Self {
        Self { texts: Vec::new(), markup_edges }
    }

    /// Stores a text and returns its placeholder.
    pub(super) fn placeholder(&mut self, text: &str) -> String {
        self.texts.push(text.to_owned());
        format!("{OPEN}{}{CLOSE}", self.texts.len() - 1)
    }

    /// Returns the text itself if it cannot be confused with markup, because a template may compare
    /// it with a constant. Otherwise returns a placeholder.
    pub(super) fn text(&mut self, text: &str) -> Value {
        let touches =
            |letter: char| self.markup_edges.contains(&letter) || matches!(letter, OPEN | CLOSE | OPEN_JSON);
        match text.contains(touches) {
            true => Value::from(self.placeholder(text)),
            false => Value::from(text),
        }
    }

    /// Converts a JSON value to a value of the template engine, with placeholders where necessary.
    pub(super) fn value(&mut self, json: &serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::from(()),
            serde_json::Value::Bool(value) => Value::from(*value),
            serde_json::Value::Number(number) => number_value(number),
            serde_json::Value::String(text) => self.text(text),
            serde_json::Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            serde_json::Value::Object(entries) => {
                let pairs: Vec<_> =
                    entries.iter().map(|(key, value)| (self.text(key), self.value(value))).collect();
                Value::from_pairs(pairs)
            }
        }
    }

    /// Encodes a rendered conversation. Markup may become special tokens, but the texts of the
    /// placeholders do not.
    pub(super) fn encode(&self, rendered: &str, tokenizer: &Tokenizer) -> Vec<u32> {
        let mut tokens = Vec::new();
        let mut rest = rendered;
        while let Some(start) = rest.find([OPEN, OPEN_JSON]) {
            let (markup, placeholder) = rest.split_at(start);
            tokens.extend(tokenizer.encode_markup(markup));
            let Some((index, behind)) = placeholder.split_once(CLOSE) else {
                // The template split a placeholder, so the text after it is lost.
                return tokens;
            };
            rest = behind;
            let is_json = index.starts_with(OPEN_JSON);
            let index = index.trim_start_matches([OPEN, OPEN_JSON]).parse::<usize>().ok();
            if let Some(text) = index.and_then(|index| self.texts.get(index)) {
                let escaped = if is_json { Some(json_escaped(text)) } else { None };
                tokens.extend(tokenizer.encode_content(escaped.as_deref().unwrap_or(text)));
            }
        }
        tokens.extend(tokenizer.encode_markup(rest));
        tokens
    }

    /// Replaces the placeholders of a rendered conversation by their texts.
    pub(super) fn expand(&self, rendered: &str) -> String {
        self.texts.iter().enumerate().fold(rendered.to_owned(), |rendered, (index, text)| {
            let rendered = rendered.replace(&format!("{OPEN}{index}{CLOSE}"), text);
            rendered.replace(&format!("{OPEN_JSON}{index}{CLOSE}"), &json_escaped(text))
        })
    }
}

/// Marks the placeholders in a JSON literal, so that their texts are escaped.
pub(super) fn as_json_placeholders(literal: &str) -> String {
    literal.replace(OPEN, &String::from(OPEN_JSON))
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
