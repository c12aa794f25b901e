//! Detection of required arguments that repeat another argument, or that have no content.
//!
//! A small model fills a required parameter with any value of the request: "Find flights to Rome"
//! gives the origin `Rome`, and "Send Martin a message" gives the text "Hello Martin!".

use haft_core::{Schema, ToolCall, schema::Property};
use serde_json::{Map, Value};

use super::{KnownFacts, PAIR_WORDS, Parameter, enumeration, is_path, spaced_words};
use crate::few_shot::calls::argument_text;
use crate::few_shot::values::{parse_date, parse_time, starts_with_date};

/// Words in the names of the first of two different places, accounts, units, persons or dates.
const FIRST_WORDS: [&str; 17] = [
    "arrival",
    "begin",
    "checkin",
    "current",
    "departure",
    "first",
    "from",
    "home",
    "in",
    "old",
    "origin",
    "pick",
    "pickup",
    "sender",
    "source",
    "start",
    "starting",
];
/// Words in the names of the second of them.
const SECOND_WORDS: [&str; 20] = [
    "arrival",
    "away",
    "checkout",
    "departure",
    "destination",
    "drop",
    "dropoff",
    "end",
    "ending",
    "last",
    "new",
    "out",
    "receiver",
    "recipient",
    "return",
    "second",
    "target",
    "to",
    "until",
    "dest",
];
/// Words in the names of the ends of a stay or a journey, which are on different days.
const STAY_WORDS: [&str; 6] = ["arrival", "checkin", "checkout", "departure", "out", "return"];
/// Words before a date that is only the beginning or the end of a period.
const PERIOD_MARKS: [&str; 10] = [
    "arriving",
    "beginning",
    "commencing",
    "from",
    "leaving",
    "since",
    "starting",
    "through",
    "till",
    "until",
];
/// The maximum length of the name of a mathematical variable, such as `n` or `x1`.
const MAX_SYMBOL_LENGTH: usize = 2;
/// Words for two equal values.
const SAME_WORDS: [&str; 10] =
    ["both", "cube", "cubic", "equal", "equilateral", "identical", "same", "square", "squared", "symmetric"];
/// Words in the names and descriptions of codes that a service gave to the user.
const REFERENCES: [&str; 18] = [
    "booking",
    "card",
    "confirmation",
    "coupon",
    "discount",
    "gift",
    "invitation",
    "issue",
    "order",
    "product",
    "promo",
    "promotion",
    "referral",
    "reservation",
    "ticket",
    "tracking",
    "verification",
    "voucher",
];
/// Names of texts that a person sends or publishes.
const MESSAGES: [&str; 8] = ["body", "caption", "comment", "content", "message", "note", "reply", "text"];
/// Words of a request for a message that are not about its content.
const MESSAGE_WORDS: [&str; 45] = [
    "add",
    "and",
    "attach",
    "can",
    "channel",
    "comment",
    "compose",
    "could",
    "create",
    "draft",
    "drop",
    "email",
    "for",
    "give",
    "him",
    "her",
    "leave",
    "let",
    "mail",
    "make",
    "message",
    "need",
    "new",
    "note",
    "one",
    "people",
    "please",
    "post",
    "publish",
    "put",
    "reply",
    "respond",
    "review",
    "send",
    "short",
    "some",
    "someone",
    "something",
    "text",
    "that",
    "the",
    "them",
    "want",
    "would",
    "write",
];

impl KnownFacts {
    /// Returns `true` if the conversation lacks a required argument of `call`. `schema` is the
    /// input schema of the tool.
    pub(in crate::few_shot) fn lacks_argument(&self, call: &ToolCall, schema: &Schema) -> bool {
        self.first_invented(call, schema).or_else(|| self.first_unstated(call, schema)).is_some()
    }

    /// Returns the name of the first required argument of `call` that repeats another required
    /// argument, or that is a text without content. `schema` is the input schema of the tool.
    pub(in crate::few_shot) fn first_unstated(&self, call: &ToolCall, schema: &Schema) -> Option<String> {
        let arguments = call.arguments.value_or_string();
        let arguments = arguments.as_object()?;
        let required: Vec<_> = schema.properties().filter(|property| property.is_required).collect();
        let unstated = required.iter().enumerate().find(|(index, property)| {
            let earlier = required.get(..*index).unwrap_or_default();
            earlier.iter().any(|earlier| self.is_repeated(arguments, schema, earlier, property))
                || self.lacks_content(arguments, &call.name, property)
        });
        unstated.map(|(_, property)| property.name.to_owned())
    }

    /// Returns `true` if `one` and `other` have the same value, which can be only one of them.
    fn is_repeated(
        &self,
        arguments: &Map<String, Value>,
        schema: &Schema,
        one: &Property<'_>,
        other: &Property<'_>,
    ) -> bool {
        let (Some(value), Some(copy)) = (arguments.get(one.name), arguments.get(other.name)) else {
            return false;
        };
        if value != copy || SAME_WORDS.iter().any(|word| self.words.has_word(word)) {
            return false;
        }
        match value {
            Value::String(text) => are_ends(one.name, other.name) && self.is_one_end(other.name, text),
            Value::Number(number) => {
                let is_choice =
                    |property: &Property<'_>| !enumeration(schema.as_value(), property.schema).is_empty();
                // `n` and `k` may be equal, and so may `min_players` and `max_players`.
                let is_free = |property: &Property<'_>| {
                    property.name.len() <= MAX_SYMBOL_LENGTH || has_word_of(property.name, &PAIR_WORDS)
                };
                let may_be_equal = is_choice(one) || is_choice(other) || is_free(one) && is_free(other);
                let is_stated_once = |number: f64| number.abs() >= 2.0 && self.numbers.count(number) < 2;
                !may_be_equal && number.as_f64().is_some_and(is_stated_once)
            }
            _ => false,
        }
    }

    /// Returns `true` if the conversation has `text`, the value of both ends of a journey, a
    /// transfer or a period, at most once. A period may be a single day, unless the conversation
    /// marks the day as one end of it: "starting on 3 August".
    fn is_one_end(&self, name: &str, text: &str) -> bool {
        let is_day = parse_date(text).is_some() && parse_time(text).is_none();
        if is_day && !has_word_of(name, &STAY_WORDS) {
            return self.words.has_before(&PERIOD_MARKS, starts_with_date);
        }
        self.words.occurrences(&text.to_lowercase()) < 2
    }

    /// Returns `true` if `parameter` is the code of a booking, an order or a coupon, and if the
    /// conversation does not contain `text`.
    pub(super) fn is_unknown_code(&self, parameter: Parameter<'_>, text: &str) -> bool {
        let name = spaced_words(parameter.name);
        let description = parameter.schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = description.to_lowercase();
        let is_reference = |word: &str| name.split(' ').any(|part| part == word);
        let is_code = match name.rsplit(' ').next() {
            Some("code" | "key") if !name.contains(' ') => {
                REFERENCES.iter().any(|word| description.contains(word))
            }
            Some("code" | "key") => REFERENCES.iter().any(|word| is_reference(word)),
            _ => false,
        };
        let text = text.to_lowercase();
        // `my_coupon` is no code, but `HB1234` is `HB 1234`.
        let has_digit = text.chars().any(|letter| letter.is_ascii_digit());
        let is_known = self.words.has_literal(&text) || has_digit && self.words.has_text(&text);
        is_code && !is_known
    }

    /// Returns `true` if `property` of a call to `tool` is a message, and if the user did not say
    /// what it is about. The conversation has no tool results.
    fn lacks_content(&self, arguments: &Map<String, Value>, tool: &str, property: &Property<'_>) -> bool {
        let Some(text) = arguments.get(property.name).and_then(Value::as_str) else { return false };
        let is_message = has_word_of(property.name, &MESSAGES);
        if !is_message || self.has_results {
            return false;
        }
        // A path says what is in the file: `poem.txt`.
        let others = arguments.iter().filter(|(name, _)| *name != property.name && !is_path(name));
        let others: Vec<_> = others.flat_map(|(_, value)| texts(value)).collect();
        let names: Vec<_> =
            std::iter::once(tool).chain(arguments.keys().map(String::as_str)).map(spaced_words).collect();
        let is_about = |word: &&str| {
            word.chars().count() > 2
                && !MESSAGE_WORDS.contains(word)
                && !others.iter().any(|other| other.contains(*word))
                && !names.iter().any(|name| name.split(' ').any(|part| part == *word))
        };
        !self.words.has_text(&text.to_lowercase()) && self.said.all().filter(is_about).count() == 0
    }
}

/// Returns `true` if the parameters `one` and `other` are two ends, such as the origin and the
/// destination of a journey.
fn are_ends(one: &str, other: &str) -> bool {
    let are_ends =
        |first: &str, second: &str| has_word_of(first, &FIRST_WORDS) && has_word_of(second, &SECOND_WORDS);
    are_ends(one, other) || are_ends(other, one)
}

/// Returns `true` if the parameter name `name` has one of `words`.
fn has_word_of(name: &str, words: &[&str]) -> bool {
    spaced_words(name).split(' ').any(|word| words.contains(&word))
}

/// Returns the texts and numbers in `value`, in lower case.
fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(argument_text).collect()
}

#[cfg(test)]
mod tests;
