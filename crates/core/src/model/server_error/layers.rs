//! The errors in a body, from the gateway's to the innermost.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    kind::{quoted_generation, status_of_code},
    retry_delay,
};

/// The maximum depth of wrapped errors.
const MAX_DEPTH: usize = 12;

/// The maximum number of values that are read in search of an error.
const MAX_VALUES: usize = 2000;

/// The fields of an error's message, most specific first.
const MESSAGE_KEYS: [&str; 6] = ["message", "msg", "detail", "status_msg", "error_message", "errorMessage"];

const CODE_KEYS: [&str; 10] = [
    "code",
    "type",
    "status",
    "status_code",
    "statusCode",
    "error_code",
    "errorCode",
    "error_type",
    "errorType",
    "blockReason",
];

/// Fields that contain no error: data of the request, of the reply, or of the model.
const OTHER_KEYS: [&str; 12] = [
    "failed_generation",
    "input",
    "messages",
    "tools",
    "request",
    "requestBodyValues",
    "headers",
    "usage",
    "choices",
    "flagged_input",
    "output",
    "@type",
];

/// What the errors in a body contain.
#[derive(Default)]
pub(super) struct Layers {
    /// The messages, outermost first.
    pub(super) messages: Vec<String>,
    pub(super) codes: Vec<String>,
    pub(super) param: String,
    pub(super) generation: Option<String>,
    pub(super) inner_status: Option<(u16, bool)>,
    pub(super) outer_status: Option<u16>,
    pub(super) delay: Option<Duration>,
    pub(super) has_daily_quota: bool,
    /// `true` after the outermost error was read.
    has_outer: bool,
    depth: usize,
    values: usize,
}

impl Layers {
    /// Adds the errors in `value`. Returns `true` if there is a message.
    pub(super) fn add(&mut self, value: &Value) -> bool {
        self.values += 1;
        if self.depth >= MAX_DEPTH || self.values > MAX_VALUES {
            return false;
        }
        self.depth += 1;
        let has_message = match value {
            Value::Object(error) => self.add_object(error, value),
            // The items of a validation error are equal, and the first is the reason.
            Value::Array(list) if list.iter().any(|it| it.get("loc").is_some()) => {
                list.iter().any(|it| self.add(it))
            }
            // Gemini wraps the error in a list with one element. Of the attempts of a gateway, the
            // last is the reason.
            Value::Array(list) => list.iter().rev().any(|it| self.add(it)),
            Value::String(text) => self.add_text(text),
            _ => false,
        };
        self.depth -= 1;
        has_message
    }

    /// Adds the message `text`, and the errors in it. Returns `true` if it is not empty.
    pub(super) fn add_text(&mut self, text: &str) -> bool {
        let text = text.trim();
        if text.is_empty() {
            return false;
        }
        // The whole text can be JSON, also JSON text in JSON text.
        if let Ok(value @ (Value::Object(_) | Value::Array(_) | Value::String(_))) =
            serde_json::from_str(text)
            && self.add(&value)
        {
            return true;
        }
        self.messages.push(text.to_owned());
        self.delay = self.delay.or_else(|| retry_delay::retry_delay(&Value::Null, text));
        if quoted_generation(text).is_none()
            && let Some(value) = embedded_error(text)
        {
            self.add(&value);
        }
        true
    }

    fn add_object(&mut self, error: &Map<String, Value>, value: &Value) -> bool {
        let before = self.messages.len();
        let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let own = MESSAGE_KEYS.iter().find_map(|key| text(key));
        // Web frameworks send `{"error": "Bad Request", "message": …}`: the longer sentence is the
        // reason.
        let mut own: Vec<_> = own.into_iter().chain(text("error")).collect();
        own.sort_by_key(|text| (is_prose(text), text.len()));
        self.add_fields(error, value, !own.is_empty() || !error.contains_key("error"));
        let reason = own.pop().map(|reason| with_location(reason.trim(), error));
        self.messages.extend(own.into_iter().map(str::to_owned));
        if let Some(reason) = &reason {
            self.add_text(reason);
        }
        // The text of the reason can already contain the inner error.
        if reason.is_none_or(|reason| self.messages.last() == Some(&reason)) {
            self.add_inner(error);
        }
        self.messages.len() > before
    }

    /// Adds the codes, the status, the delay and the other fields of an error. `is_error` is
    /// `false` for an object that only contains the error in its field `error`.
    fn add_fields(&mut self, error: &Map<String, Value>, value: &Value, is_error: bool) {
        let (mut number, mut word_status) = (None, None);
        for key in CODE_KEYS {
            let Some(code) = error.get(key).and_then(string_or_number) else { continue };
            let status = code.parse().ok().filter(|status| (400..600).contains(status));
            number = number.or(status.map(|status| (status, true)));
            // The code is more specific than the type.
            word_status = word_status.or_else(|| status_of_code(&code));
            self.codes.push(code);
        }
        self.codes.extend(retry_delay::reasons(value).map(str::to_owned));
        let status = number.or(word_status);
        if self.has_outer {
            self.inner_status = status.or(self.inner_status);
        } else {
            self.outer_status = status.map(|(status, _)| status).or(self.outer_status);
        }
        self.has_outer |= is_error;
        if let Some(param) = error.get("param").and_then(Value::as_str) {
            param.clone_into(&mut self.param);
        } else if let Some(name) = error.get("loc").and_then(|path| path.as_array()?.last()?.as_str()) {
            name.clone_into(&mut self.param);
        }
        let generation = error.get("failed_generation").filter(|text| !text.is_null());
        self.generation = generation.map(text_of).or(self.generation.take());
        // OpenRouter's moderation: `"metadata": {"reasons": ["violence"], "flagged_input": …}`.
        if error.contains_key("flagged_input") {
            self.codes.push("content_filter".to_owned());
        }
        self.has_daily_quota |= retry_delay::is_daily_quota(value);
        self.delay = retry_delay::retry_delay(value, "").or(self.delay);
    }

    /// Adds the error in the fields of `error`: first in the fields whose name suggests an error,
    /// then in any other field. Returns `true` if there is one.
    fn add_inner(&mut self, error: &Map<String, Value>) -> bool {
        let fields = || error.iter().filter(|(key, _)| !OTHER_KEYS.contains(&key.as_str()));
        let mut is_found = false;
        for (key, value) in fields().filter(|(key, _)| is_error_key(key)) {
            let before = self.messages.len();
            let is_reason = match value {
                Value::String(text) => {
                    is_reason_key(key) && (key == "raw" || is_prose(text) || is_json(text))
                }
                Value::Object(_) => true,
                // Google's `details` describe the error in objects with an `@type`.
                Value::Array(list) => list.iter().all(|it| it.get("@type").is_none()),
                _ => false,
            };
            if is_reason && self.add(value) {
                is_found = true;
                // A gateway can list the errors of its providers beside its own error.
                if key != "error" || self.messages.len() > before + 1 {
                    return true;
                }
            }
        }
        fields().filter(|(key, _)| !is_error_key(key)).any(|(_, value)| self.add_any(value)) || is_found
    }

    /// Adds the errors in `value`, which can be any data. Returns `true` if there is one.
    fn add_any(&mut self, value: &Value) -> bool {
        self.values += 1;
        if self.depth >= MAX_DEPTH || self.values > MAX_VALUES {
            return false;
        }
        self.depth += 1;
        let is_found = match value {
            Value::Object(map) if is_error(map) => self.add(value),
            Value::Object(map) => {
                if map.contains_key("flagged_input") || map.contains_key("blockReason") {
                    self.add_fields(map, value, false);
                }
                self.add_inner(map)
            }
            // The last attempt of a gateway is the reason of the failure.
            Value::Array(list) => list.iter().rev().any(|it| self.add_any(it)),
            _ => false,
        };
        self.depth -= 1;
        is_found
    }
}

/// Returns `text` with the place of the error, as in `body.stop: Extra inputs are not permitted`
/// (pydantic).
fn with_location(text: &str, error: &Map<String, Value>) -> String {
    let path = error.get("loc").and_then(Value::as_array);
    let path: Vec<_> = path.into_iter().flatten().map(text_of).collect();
    if path.is_empty() { text.to_owned() } else { format!("{}: {text}", path.join(".")) }
}

/// Returns `true` if an object has the fields of an error.
fn is_error(map: &Map<String, Value>) -> bool {
    let has_text = |key: &str| map.get(key).is_some_and(Value::is_string);
    let has_code = || CODE_KEYS.iter().any(|key| map.get(*key).is_some_and(|code| is_error_code(key, code)));
    map.get("error").is_some_and(|error| !error.is_null() && !error.is_boolean())
        || (MESSAGE_KEYS.iter().any(|key| has_text(key)) && has_code())
}

/// Returns `true` if `code`, the value of the field `key`, stands for an error. MiniMax sends the
/// code 0 on success, and a progress report has a text such as `loading` as its status or type.
fn is_error_code(key: &str, code: &Value) -> bool {
    match code {
        Value::Number(number) => {
            number.as_i64().is_none_or(|number| number != 0 && !(100..400).contains(&number))
        }
        Value::String(word) if matches!(key, "status" | "type") => {
            let lower = word.to_ascii_lowercase();
            status_of_code(word).is_some()
                || ["error", "exception", "fail"].iter().any(|it| lower.contains(it))
        }
        Value::String(word) => !word.is_empty(),
        _ => false,
    }
}

/// Returns `true` if the name of a field suggests that it contains an error.
fn is_error_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.contains("error")
        || key.contains("exception")
        || ["raw", "cause", "base_resp", "message", "detail", "details", "reason", "body", "responsebody"]
            .contains(&&*key)
        || key.ends_with("_message")
}

/// Returns `true` if text in the field `key` is a reason. `message` and `error` are read before.
fn is_reason_key(key: &str) -> bool {
    !MESSAGE_KEYS.contains(&key) && !CODE_KEYS.contains(&key) && key != "error"
}

/// Returns `true` if `text` is a sentence and not a code.
fn is_prose(text: &str) -> bool {
    text.trim().contains(char::is_whitespace)
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
}

/// Returns the error object in `text`, such as `BadRequestError: OpenAIException - {"error": …}`
/// (LiteLLM). The object can be written as a Python literal.
fn embedded_error(text: &str) -> Option<Value> {
    let starts = text.match_indices('{').take(4).filter_map(|(start, _)| text.get(start..));
    let is_found = |value: &Value| value.as_object().is_some_and(is_error);
    starts.filter(|rest| rest.len() > 2).find_map(|rest| {
        let parse = |text: &str| serde_json::Deserializer::from_str(text).into_iter().next()?.ok();
        let unescaped = || rest.contains("\\\"").then(|| rest.replace("\\n", "\n").replace("\\\"", "\""));
        parse(rest)
            .filter(is_found)
            .or_else(|| parse(&unescaped()?).filter(is_found))
            .or_else(|| python_literal(rest).filter(is_found))
    })
}

/// Parses the Python literal at the beginning of `text`, such as `{'error': {'code': None}}`.
fn python_literal(text: &str) -> Option<Value> {
    let (mut json, mut depth) = (String::new(), 0_usize);
    let mut letters = text.char_indices().peekable();
    while let Some((start, letter)) = letters.next() {
        match letter {
            '\'' | '"' => {
                let mut content = String::new();
                loop {
                    match letters.next()?.1 {
                        '\\' => content.push(match letters.next()?.1 {
                            'n' => '\n',
                            't' => '\t',
                            other => other,
                        }),
                        end if end == letter => break,
                        other => content.push(other),
                    }
                }
                json.push_str(&Value::String(content).to_string());
            }
            'A'..='Z' => {
                let rest = text.get(start..)?;
                let words = [("None", "null"), ("True", "true"), ("False", "false")];
                let (word, value) = words.into_iter().find(|(word, _)| rest.starts_with(word))?;
                json.push_str(value);
                letters.nth(word.len() - 2)?;
            }
            '{' | '[' => {
                depth += 1;
                json.push(letter);
            }
            '}' | ']' => {
                depth = depth.checked_sub(1)?;
                json.push(letter);
                if depth == 0 {
                    return serde_json::from_str(&json).ok();
                }
            }
            other => json.push(other),
        }
    }
    None
}

/// Returns a code as text. `None` if `value` is neither a non-empty string nor a number.
fn string_or_number(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.clone()).filter(|word| !word.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
