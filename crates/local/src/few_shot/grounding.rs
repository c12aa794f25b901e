//! Detection of invented arguments.
//!
//! A small model gives every parameter of a tool a value, also if the conversation does not contain
//! one: `example.com`, `2023-01-01`, or the first place that it knows. [`KnownFacts`] compares the
//! arguments of a call with the words and numbers of the conversation. An invented optional
//! argument is removed. A call with an invented required argument is not made.

mod dates;
mod numbers;
mod words;

use haft_core::{Message, Schema, ToolCall, message::MessageBody, model::ChatRequest, schema::Property};
use serde_json::Value;

use self::dates::{is_known_date, is_known_time};
use self::numbers::KnownNumbers;
use self::words::KnownWords;

/// The maximum length of a code of a language, a currency, an airport or a unit.
const MAX_CODE_LENGTH: usize = 3;

/// The words and numbers of a conversation.
pub(super) struct KnownFacts {
    words: KnownWords,
    numbers: KnownNumbers,
    /// The JSON values in the tool results.
    results: Vec<Value>,
}

/// The severity of a check. A wrong decision about a required argument prevents a call, so fewer
/// required arguments count as invented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strictness {
    Required,
    Optional,
}

impl KnownFacts {
    pub(super) fn new(request: &ChatRequest) -> Self {
        let text: Vec<_> = request.all_messages().map(|message| text_of(message)).collect();
        let results = request.all_messages().filter_map(|message| match message.body() {
            MessageBody::Tool(result) => serde_json::from_str(&result.model_text()).ok(),
            _ => None,
        });
        Self { results: results.collect(), ..Self::from_text(&text.join("\n")) }
    }

    fn from_text(text: &str) -> Self {
        let words = KnownWords::new(text);
        Self { numbers: KnownNumbers::new(text, &words), words, results: Vec::new() }
    }

    /// Returns the name of the first required argument of `call` that the conversation does not
    /// contain. `schema` is the input schema of the tool.
    pub(super) fn first_invented(&self, call: &ToolCall, schema: &Schema) -> Option<String> {
        let arguments = call.arguments.value_or_string();
        let is_invented = |property: &Property<'_>| {
            let value = arguments.get(property.name);
            value.is_some_and(|value| {
                !self.contains(property.name, value, property.schema, Strictness::Required)
            })
        };
        let mut required = schema.properties().filter(|property| property.is_required);
        required.find(is_invented).map(|property| property.name.to_owned())
    }

    /// Returns `schema`, in which the property `name` permits only the identifiers in the tool
    /// results. Returns `None` if `name` is not an identifier, or if the results have none.
    pub(super) fn with_known_ids(&self, schema: &Schema, name: &str) -> Option<Schema> {
        if !is_identifier(name) {
            return None;
        }
        let mut ids = Vec::new();
        self.results.iter().for_each(|result| add_ids(result, name, &mut ids));
        let mut value = schema.as_value().clone();
        let property = value.get_mut("properties")?.get_mut(name)?;
        let kind = property.get("type").and_then(Value::as_str).map(str::to_owned);
        ids.retain(|id| match kind.as_deref() {
            Some("string") => id.is_string(),
            Some("integer" | "number") => id.is_number(),
            _ => false,
        });
        if ids.is_empty() {
            return None;
        }
        *property = serde_json::json!({ "enum": ids });
        Schema::new(value).ok()
    }

    /// Returns `call` without the optional arguments that the conversation does not contain.
    /// `schema` is the input schema of the tool. Returns `None` if nothing is removed, or if the
    /// schema does not permit the rest.
    pub(super) fn without_invented(&self, call: &ToolCall, schema: &Schema) -> Option<ToolCall> {
        let arguments = call.arguments.value_or_string();
        let mut known = arguments.as_object()?.clone();
        for property in schema.properties().filter(|property| !property.is_required) {
            let Some(value) = known.get_mut(property.name) else { continue };
            match self.known_part(property.name, value, property.schema) {
                Some(part) => *value = part,
                None => {
                    known.remove(property.name);
                }
            }
        }
        let known = Value::Object(known);
        (known != *arguments && schema.is_valid(&known))
            .then(|| ToolCall::new(call.id.clone(), call.name.clone(), spaced_json(&known)))
    }

    /// Returns the part of the optional argument `value` that the conversation contains: the known
    /// items of a list, or the whole value.
    fn known_part(&self, name: &str, value: &Value, schema: &Value) -> Option<Value> {
        let Value::Array(items) = value else {
            return self.contains(name, value, schema, Strictness::Optional).then(|| value.clone());
        };
        let item_schema = schema.get("items").unwrap_or(&Value::Null);
        let is_known = |item: &&Value| self.contains(name, item, item_schema, Strictness::Optional);
        let known: Vec<_> = items.iter().filter(is_known).cloned().collect();
        (!known.is_empty() || items.is_empty()).then_some(Value::Array(known))
    }

    fn contains(&self, name: &str, value: &Value, schema: &Value, strictness: Strictness) -> bool {
        let is_enumeration = schema.get("enum").is_some() || schema.get("const").is_some();
        if is_enumeration && strictness == Strictness::Required {
            return true;
        }
        if schema.get("default").is_some_and(|default| default == value) {
            return true;
        }
        if let (true, Value::String(text)) = (is_enumeration, value) {
            return self.words.has_text(&text.to_lowercase())
                || self.words.share(&text.to_lowercase()) >= 0.5;
        }
        match value {
            Value::String(text) => self.contains_text(name, text, strictness),
            Value::Number(number) => {
                number.as_f64().is_none_or(|number| self.contains_number(name, number, strictness))
            }
            Value::Array(items) => {
                let schema = schema.get("items").unwrap_or(&Value::Null);
                items.is_empty() || items.iter().any(|item| self.contains(name, item, schema, strictness))
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => true,
        }
    }

    fn contains_text(&self, name: &str, text: &str, strictness: Strictness) -> bool {
        let text = text.trim().to_lowercase();
        if is_identifier(name) {
            return self.words.has_text(&text) && !text.contains(char::is_whitespace);
        }
        if self.words.has_text(&text) {
            return true;
        }
        if let Some(known) = is_known_date(&text, &self.words, &self.numbers, strictness) {
            return known;
        }
        if let Some(known) = is_known_time(&text, &self.words, &self.numbers) {
            return known;
        }
        if text.contains('@') {
            return false;
        }
        // Users write the name instead of a code: `Spanish` instead of `es`.
        let may_be_code = strictness == Strictness::Required || is_code(name);
        if may_be_code && text.len() <= MAX_CODE_LENGTH && text.chars().all(char::is_alphabetic) {
            return true;
        }
        match strictness {
            Strictness::Required => self.words.share(&text) > 0.0,
            Strictness::Optional => self.words.share(&text) >= 0.5 && self.words.has_numbers_of(&text),
        }
    }

    fn contains_number(&self, name: &str, number: f64, strictness: Strictness) -> bool {
        let is_coordinate = ["lat", "lon", "lng"].iter().any(|part| name.to_lowercase().starts_with(part));
        self.numbers.contains(number)
            || (strictness == Strictness::Required
                && !is_identifier(name)
                && (number == 0.0 || number == 1.0 || (is_coordinate && self.words.has_name())))
    }
}

/// Returns `true` if `name` is the name of a parameter for an identifier, such as `event_id`,
/// `orderIds` or `issue_number`. The model cannot derive the value of an identifier.
fn is_identifier(name: &str) -> bool {
    let is_id = |name: &str| name == "id" || name.ends_with("_id") || name.ends_with("Id");
    is_id(name)
        || name.strip_suffix('s').is_some_and(is_id)
        || name.ends_with("_number")
        || name.ends_with("Number")
}

/// Adds the values in `result` whose key is `id`, `number` or `name` to `ids`.
fn add_ids(result: &Value, name: &str, ids: &mut Vec<Value>) {
    match result {
        Value::Array(items) => items.iter().for_each(|item| add_ids(item, name, ids)),
        Value::Object(members) => {
            for (key, value) in members {
                let is_id = key == name || key == "id" || key == "number";
                if is_id && !value.is_object() && !value.is_array() && !ids.contains(value) {
                    ids.push(value.clone());
                }
                add_ids(value, name, ids);
            }
        }
        _ => {}
    }
}

/// Returns `true` if `name` is the name of a parameter for a code of a language, a currency, an
/// airport or a unit.
fn is_code(name: &str) -> bool {
    let name = name.to_lowercase();
    ["airport", "currency", "iata", "lang", "locale", "unit"].iter().any(|part| name.contains(part))
}

/// Formats an object with a space after each colon and comma between its members, as the
/// demonstration does.
pub(super) fn spaced_json(value: &Value) -> String {
    let Value::Object(members) = value else { return value.to_string() };
    let members =
        members.iter().map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spaced_json(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}

/// Returns the text of `message`, with the results of tools and the arguments of calls.
fn text_of(message: &Message) -> String {
    match message.body() {
        MessageBody::Tool(result) => result.model_text().into_owned(),
        MessageBody::Assistant(reply) => {
            let arguments = reply.tool_calls.iter().map(|call| call.arguments.to_string());
            std::iter::once(reply.text()).chain(arguments).collect::<Vec<_>>().join("\n")
        }
        _ => message.text(),
    }
}

#[cfg(test)]
mod tests;
