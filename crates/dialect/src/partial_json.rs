//! A parser for incomplete JSON that returns the value received so far.

use std::mem;

use haft_core::text::{JsonStringTracker, StringDecoder};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The maximum number of nested objects and arrays, as in `serde_json`.
const MAX_DEPTH: usize = 128;

/// The share of the received text that must be new before the next snapshot: 1 / 16. The total size
/// of all snapshots is thus linear in the length of the text.
const SNAPSHOT_SHARE: usize = 16;

/// The length of text for which each change gives a snapshot, in bytes.
const SHORT_TEXT: usize = 256;

/// An incremental parser for JSON text that arrives in pieces, such as the arguments of a call
/// while the model writes them. Each character is parsed once.
///
/// The value of incomplete text has all complete parts. Open strings, arrays and objects are
/// closed. Incomplete numbers, literals and keys are omitted. Text after the first value is
/// ignored. After a syntax error, the value does not change any more.
///
/// # Examples
///
/// ```
/// use haft_dialect::PartialJson;
/// use serde_json::json;
///
/// let mut partial = PartialJson::default();
/// partial.push(r#"{"title": "The Mo"#);
/// assert_eq!(partial.value(), Some(json!({"title": "The Mo"})));
/// partial.push(r#"on", "years": [19"#);
/// assert_eq!(partial.value(), Some(json!({"title": "The Moon", "years": []})));
/// partial.push("69]}");
/// assert_eq!(partial.value(), Some(json!({"title": "The Moon", "years": [1969]})));
/// assert!(partial.is_complete());
/// ```
#[derive(Clone, Debug, Default)]
pub struct PartialJson {
    /// The objects and arrays that are not closed yet, outermost first.
    open: Vec<Container>,
    token: Token,
    tracker: JsonStringTracker,
    decoder: StringDecoder,
    /// The complete value.
    complete: Option<Value>,
    is_invalid: bool,
    /// The number of received bytes.
    received: usize,
    /// The number of bytes that were received before the last snapshot.
    snapshot_at: usize,
    /// `true` if the value has changed since the last snapshot.
    is_changed: bool,
}

#[derive(Clone, Debug)]
enum Container {
    Array(Vec<Value>),
    /// An object. The key belongs to the member whose value is not complete yet.
    Object(Map<String, Value>, Option<String>),
}

/// The token that is not complete yet.
#[derive(Clone, Debug, Default)]
enum Token {
    #[default]
    None,
    Key(String),
    Text(String),
    /// A number, `true`, `false` or `null`.
    Literal(String),
}

impl PartialJson {
    /// Parses `text`, the next piece of the JSON text.
    pub fn push(&mut self, text: &str) {
        self.received += text.len();
        for character in text.chars() {
            if self.is_invalid || self.complete.is_some() {
                return;
            }
            self.push_char(character);
        }
    }

    /// Returns the value received so far. `None` if there is none yet, for example because the text
    /// is the beginning of a number.
    pub fn value(&self) -> Option<Value> {
        if let Some(complete) = &self.complete {
            return Some(complete.clone());
        }
        let inner = if let Token::Text(text) = &self.token { Some(Value::from(text.as_str())) } else { None };
        self.open.iter().rev().fold(inner, |inner, container| Some(container.with(inner)))
    }

    /// Returns [`value`](Self::value) if it has changed since the last snapshot and, beyond the
    /// first 256 bytes, at least 1/16 of the received text is new. Otherwise returns `None`. All
    /// snapshots together cost time linear in the length of the text.
    pub fn take_snapshot(&mut self) -> Option<Value> {
        let new = self.received - self.snapshot_at;
        if !self.is_changed || new < self.received.saturating_sub(SHORT_TEXT) / SNAPSHOT_SHARE {
            return None;
        }
        (self.snapshot_at, self.is_changed) = (self.received, false);
        self.value()
    }

    /// Returns `true` if the text contains a complete value. A number at the end of the text is not
    /// complete.
    pub fn is_complete(&self) -> bool {
        self.complete.is_some()
    }

    /// Returns `true` if the last [snapshot](Self::take_snapshot) was the complete value `value`.
    pub fn has_emitted(&self, value: &Value) -> bool {
        !self.is_changed && self.complete.as_ref() == Some(value)
    }

    fn push_char(&mut self, character: char) {
        match &mut self.token {
            Token::Key(text) | Token::Text(text) => {
                self.tracker.feed_open_string(character);
                if self.tracker.is_inside() {
                    if let Some(decoded) = self.decoder.feed(character) {
                        text.push(decoded);
                        self.is_changed = true;
                    }
                    return;
                }
                match mem::take(&mut self.token) {
                    Token::Key(key) => {
                        if let Some(Container::Object(_, open)) = self.open.last_mut() {
                            *open = Some(key);
                        }
                    }
                    Token::Text(text) => self.add(Value::String(text)),
                    Token::None | Token::Literal(_) => {}
                }
            }
            Token::Literal(text) if character.is_ascii_alphanumeric() || "+-.".contains(character) => {
                text.push(character);
            }
            Token::Literal(text) => match serde_json::from_str(text) {
                Ok(value) => {
                    self.token = Token::None;
                    self.add(value);
                    self.push_structure(character);
                }
                Err(_) => self.is_invalid = true,
            },
            Token::None => self.push_structure(character),
        }
    }

    /// Parses a character outside strings and literals.
    fn push_structure(&mut self, character: char) {
        if self.complete.is_some() {
            return;
        }
        let expects_key = matches!(self.open.last(), Some(Container::Object(_, None)));
        match character {
            ',' | ':' if !self.open.is_empty() => {}
            '"' => {
                self.tracker.open('"');
                self.decoder = StringDecoder::default();
                self.is_changed |= !expects_key;
                self.token = if expects_key { Token::Key(String::new()) } else { Token::Text(String::new()) };
            }
            '}' | ']' => self.close(character),
            '{' | '[' if !expects_key && self.open.len() < MAX_DEPTH => {
                self.is_changed = true;
                let object = || Container::Object(Map::new(), None);
                self.open.push(if character == '{' { object() } else { Container::Array(Vec::new()) });
            }
            _ if character.is_ascii_whitespace() => {}
            _ if !expects_key && (character.is_ascii_alphanumeric() || character == '-') => {
                self.token = Token::Literal(character.into());
            }
            _ => self.is_invalid = true,
        }
    }

    fn close(&mut self, bracket: char) {
        match (self.open.pop(), bracket) {
            (Some(Container::Array(items)), ']') => self.add(Value::Array(items)),
            (Some(Container::Object(members, None)), '}') => self.add(Value::Object(members)),
            (container, _) => {
                self.open.extend(container);
                self.is_invalid = true;
            }
        }
    }

    /// Adds a complete value to the innermost open container.
    fn add(&mut self, value: Value) {
        self.is_changed = true;
        match self.open.last_mut() {
            Some(container) => container.add(value),
            None => self.complete = Some(value),
        }
    }
}

impl Container {
    fn add(&mut self, value: Value) {
        match self {
            Self::Array(items) => items.push(value),
            Self::Object(members, key) => {
                if let Some(key) = key.take() {
                    members.insert(key, value);
                }
            }
        }
    }

    /// Returns the container as a value, with `inner` as its last element.
    fn with(&self, inner: Option<Value>) -> Value {
        let mut copy = self.clone();
        if let Some(inner) = inner {
            copy.add(inner);
        }
        match copy {
            Self::Array(items) => Value::Array(items),
            Self::Object(members, _) => Value::Object(members),
        }
    }
}

/// Deserializes `partial`, an incomplete value, into a `T`. Members that are still missing have
/// their values in `T::default()`, also in nested objects.
///
/// # Examples
///
/// ```
/// use haft_dialect::parse_partial;
/// use serde_json::json;
///
/// #[derive(Default, serde::Serialize, serde::Deserialize)]
/// struct Recipe {
///     title: String,
///     steps: Vec<String>,
/// }
///
/// let recipe: Recipe = parse_partial(&json!({"title": "Pancakes"}))?;
/// assert_eq!(recipe.title, "Pancakes");
/// assert!(recipe.steps.is_empty());
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// Fails if a value has the wrong type for `T`, for example the incomplete name of an enum variant.
pub fn parse_partial<T: Default + Serialize + DeserializeOwned>(partial: &Value) -> serde_json::Result<T> {
    let mut value = serde_json::to_value(T::default())?;
    overlay(&mut value, partial);
    serde_json::from_value(value)
}

/// Replaces the parts of `value` that `new` contains.
fn overlay(value: &mut Value, new: &Value) {
    match (value, new) {
        (Value::Object(members), Value::Object(new)) => {
            for (key, new) in new {
                overlay(members.entry(key.as_str()).or_insert(Value::Null), new);
            }
        }
        (value, new) => *value = new.clone(),
    }
}

#[cfg(test)]
mod tests;
