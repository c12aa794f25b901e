//! Detection of missing required arguments.
//!
//! A small model fills a required parameter with any value of the request: "Find flights to Rome"
//! gives the origin `Rome`, and "Send Martin a message" gives the text "Hello Martin!".

use haft_core::{Schema, ToolCall, schema::Property};
use serde_json::{Map, Value};

use super::parameter_names::{
    description_of, has_program_word, has_word_of, is_coordinate, is_count, is_identifier, is_limit,
    is_number_of_persons, is_path, must_be_stated, spaced_words,
};
use super::{KnownFacts, KnownWords, PAIR_WORDS, Parameter, enumeration};
use crate::few_shot::calls::texts_in;
use crate::few_shot::values::{Unit, parse_date, parse_time, starts_with_date};

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
    "dest",
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
];
/// Words in the names of the first and the last day of a stay or a journey. The days are different.
const STAY_WORDS: [&str; 7] = ["arrival", "check", "checkin", "checkout", "departure", "out", "return"];
/// Words in the names of the two places of a rental.
const RENTAL_WORDS: [&str; 5] = ["drop", "dropoff", "pick", "pickup", "return"];
/// Words before the first or the last day of a period.
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
/// Beginnings of words for several equal values.
const SAME_WORDS: [&str; 20] = [
    "all",
    "both",
    "circular",
    "cub",
    "each",
    "equal",
    "equilateral",
    "every",
    "identical",
    "isosceles",
    "itself",
    "loop",
    "maintain",
    "myself",
    "regular",
    "round",
    "same",
    "squar",
    "symmetric",
    "twin",
];
/// Words in the names and descriptions of codes from a service, such as the code of a booking.
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
/// Words in the names of parameters for a name.
const NAMES: [&str; 7] = ["branch", "bucket", "file", "filename", "name", "title", "username"];
/// Words in the names of texts that the user sends or publishes.
const MESSAGES: [&str; 8] = ["body", "caption", "comment", "content", "message", "note", "reply", "text"];
/// Words without content in a request for a message.
const MESSAGE_WORDS: [&str; 56] = [
    "about",
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
    "have",
    "hello",
    "her",
    "him",
    "leave",
    "let",
    "like",
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
    "quick",
    "reply",
    "respond",
    "review",
    "send",
    "short",
    "some",
    "someone",
    "something",
    "tell",
    "text",
    "that",
    "the",
    "them",
    "there",
    "this",
    "want",
    "will",
    "with",
    "would",
    "write",
    "you",
];

impl KnownFacts {
    /// Returns `true` if the conversation lacks a required argument of `call`. `schema` is the
    /// input schema of the tool.
    pub(in crate::few_shot) fn lacks_argument(&self, call: &ToolCall, schema: &Schema) -> bool {
        self.first_invented(call, schema).or_else(|| self.first_unstated(call, schema)).is_some()
    }

    /// Returns the name of the first required argument of `call` with the value of another required
    /// argument, or with a message without content. `schema` is the input schema of the tool.
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

    /// Returns `true` if a tool with the input schema `schema` writes a text to a file, and if the
    /// user asks for a text and mentions no file: "Write a haiku". The text is then the answer.
    pub(in crate::few_shot) fn wants_text(&self, schema: &Schema) -> bool {
        const VERBS: [&str; 3] = ["compose", "draft", "write"];
        let has_path = schema.properties().any(|property| property.is_required && is_path(property.name));
        has_path
            && schema.properties().any(|property| has_word_of(property.name, &MESSAGES))
            && self.question_words.all().any(|word| VERBS.contains(&word))
            && self.user_words.is_english()
            && !self.user_words.may_mention_file()
    }

    /// Returns `true` if `one` and `other` have the same value, and if it belongs to only one of
    /// them.
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
        let may_be_same =
            || self.user_words.all().any(|word| SAME_WORDS.iter().any(|same| word.starts_with(same)));
        if value != copy || may_be_same() {
            return false;
        }
        match value {
            Value::String(text) => {
                are_ends(one.name, other.name)
                    && !is_rental(one.name, other.name, arguments)
                    && self.is_one_end([one.name, other.name], text)
            }
            Value::Number(number) => {
                let is_choice =
                    |property: &Property<'_>| !enumeration(schema.as_value(), property.schema).is_empty();
                // `n` and `k` may be equal, and so may `start_line` and `end_line`, and the month
                // and the day of a date.
                let is_free = |property: &Property<'_>| {
                    let name = property.name;
                    name.len() <= MAX_SYMBOL_LENGTH
                        || has_word_of(name, &PAIR_WORDS)
                        || has_word_of(name, &["day", "month"])
                };
                let may_be_equal = is_choice(one) || is_choice(other) || is_free(one) && is_free(other);
                let is_stated_once =
                    |number: f64| number.abs() >= 2.0 && self.numbers.occurrences(number) == 1;
                !may_be_equal && self.words.may_be_english() && number.as_f64().is_some_and(is_stated_once)
            }
            _ => false,
        }
    }

    /// Returns `true` if the user states `text`, the value of both ends of a journey, a transfer or
    /// a period, exactly once. A period may be a single day, unless the user marks the day as one
    /// end of it: "starting on 3 August".
    fn is_one_end(&self, names: [&str; 2], text: &str) -> bool {
        let is_time = parse_time(text).is_some() || text.contains(':');
        let is_day = parse_date(text).is_some() && !is_time;
        let is_stay = names.iter().any(|name| has_word_of(name, &STAY_WORDS));
        match (is_day, is_stay) {
            (true, true) => self.numbers.dates().len() == 1,
            // "From tomorrow 9 am until 5 pm" has the times as ends.
            (true, false) => {
                !self.question_words.has_digit_time()
                    && self.question_words.has_before(&PERIOD_MARKS, starts_with_date)
            }
            (false, _) if is_time => true,
            (false, _) => self.user_words.occurrences(&text.to_lowercase()) == 1,
        }
    }

    /// Returns `true` if the conversation contains `number`, the value of the required parameter
    /// `name`, or if the model may choose it freely.
    pub(super) fn contains_required_number(&self, name: &str, number: f64) -> bool {
        if self.implies_number(name, number) {
            return true;
        }
        let must_be_stated = must_be_stated(name, number);
        if number == 1.0 && must_be_stated {
            return self.numbers.has_one_for(name);
        }
        let is_count = is_count(name);
        if !is_count && self.is_of_other_unit(name, number) {
            return false;
        }
        let is_default = number == 0.0 || number == 1.0 || is_limit(name);
        let is_place = is_coordinate(name) && self.words.has_name() && !self.lookups.coordinates;
        let is_free = !is_identifier(name) && (is_place || is_default && !must_be_stated);
        let is_known = if is_count { self.numbers.has_count(number) } else { self.numbers.contains(number) };
        is_free || is_known
    }

    /// Returns `true` if the conversation implies `number` for the parameter `name`: 1 by a
    /// determiner or a single person, or 0 by a negation.
    fn implies_number(&self, name: &str, number: f64) -> bool {
        const ZERO_WORDS: [&str; 5] = ["free", "mute", "muted", "off", "top"];
        match number {
            0.0 => {
                self.numbers.has_zero_word()
                    || self.words.has_negation()
                    || ZERO_WORDS.iter().any(|word| self.words.has_word(word))
            }
            1.0 if is_number_of_persons(name) => {
                // "Find me a flight" is for one passenger, and "book me a table" for any number.
                let is_traveler = has_word_of(name, &["passengers", "travelers", "travellers"]);
                let is_user = || ["i", "me", "my"].iter().any(|word| self.words.has_word(word));
                self.words.has_one_person() || is_traveler && is_user()
            }
            1.0 => self.words.has_one_of(name),
            _ => false,
        }
    }

    /// Returns `true` if the lower-case `text` of the parameter `name` is an invented name: with a
    /// number outside of the conversation, such as `img_2045.jpg` for `IMG_2044.jpg`, or with `my`,
    /// such as `my-bucket`. The conversation does not contain `text`.
    pub(super) fn is_invented_name(&self, name: &str, text: &str) -> bool {
        let is_name = has_word_of(name, &NAMES) && text.contains(char::is_alphabetic);
        let mut numbers = text.split(|letter: char| !letter.is_alphanumeric()).filter_map(|word| {
            let is_number = !word.is_empty() && word.chars().all(|letter| letter.is_ascii_digit());
            is_number.then(|| word.parse::<f64>().ok()).flatten()
        });
        let starts_with_my = ["my-", "my_", "my "].iter().any(|start| text.starts_with(start));
        is_name && (starts_with_my || numbers.any(|number| !self.numbers.contains(number)))
    }

    /// Returns `true` if the parameter `name` has a unit, such as `ml`, and if all numbers of the
    /// conversation that may be `number` have a unit of another quantity: "1.5 km" for 1500.
    fn is_of_other_unit(&self, name: &str, number: f64) -> bool {
        let name = spaced_words(name);
        let mut words = name.rsplit(' ').map(|word| (word, Unit::from_name(word)));
        let last = words.next();
        // `m` is a mass, `distance_min` a minimum, and `speed_km_h` and `price_per_night` are
        // rates.
        let is_unit = |word: &str| word != "min" && (word.len() > 1 || name.contains(' '));
        let is_rate = has_word_of(&name, &["per"]) || words.next().is_some_and(|(_, unit)| unit.is_some());
        let unit = last.filter(|(word, _)| is_unit(word) && !is_rate).and_then(|(_, unit)| unit);
        unit.is_some_and(|unit| self.numbers.has_only_other_units(number, unit))
    }

    /// Returns `true` if `items` of the parameter `name` are at least two numbers that the
    /// conversation does not contain. The model knows the numbers of weekdays, colors and places.
    pub(super) fn are_invented_numbers(&self, name: &str, items: &[Value]) -> bool {
        const KNOWN_NAMES: [&str; 9] =
            ["color", "colour", "coordinates", "days", "location", "position", "rgb", "weekday", "weekdays"];
        const COMMON_NUMBERS: [f64; 3] = [0.0, 1.0, 255.0];
        let numbers: Vec<_> = items.iter().filter_map(Value::as_f64).collect();
        let is_known = |number: &f64| self.numbers.contains(*number);
        let is_rare = |number: &&f64| !COMMON_NUMBERS.contains(number);
        numbers.len() == items.len()
            && numbers.iter().filter(is_rare).count() > 1
            && !numbers.iter().any(is_known)
            && !has_word_of(name, &KNOWN_NAMES)
            && !is_coordinate(name)
    }

    /// Returns `true` if `parameter` is the code of a booking, an order or a coupon, and if the
    /// conversation does not contain `text`.
    pub(super) fn is_unknown_code(&self, parameter: Parameter<'_>, text: &str) -> bool {
        let name = spaced_words(parameter.name);
        let description = description_of(parameter.schema);
        let has_reference = |text: &str| {
            let mut words = text.split(|letter: char| !letter.is_alphanumeric());
            words.any(|word| REFERENCES.contains(&word))
        };
        let is_code = match name.rsplit(' ').next() {
            Some("code" | "key") if !name.contains(' ') => {
                has_reference(&description) && !has_program_word(parameter.name, parameter.schema)
            }
            Some("code" | "key") => has_reference(&name),
            _ => false,
        };
        let text = text.to_lowercase();
        // `my_coupon` is no code, but `HB1234` is `HB 1234`, and `WEB-45` is ticket 45 of WEB.
        let has_digit = text.contains(|letter: char| letter.is_ascii_digit());
        let mut parts = text.split(|letter: char| !letter.is_alphanumeric());
        let is_known = self.words.has_literal(&text)
            || has_digit && (self.words.has_text(&text) || parts.all(|part| self.words.has_word(part)));
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
        // A path and a title may say what the text is about: `poem.txt`.
        let is_label = |name: &str| is_path(name) || has_word_of(name, &["subject", "title"]);
        let others = arguments.iter().filter(|(name, _)| *name != property.name && !is_label(name));
        let others =
            KnownWords::new(&others.flat_map(|(_, value)| texts_in(value)).collect::<Vec<_>>().join(" "));
        let names: Vec<_> =
            std::iter::once(tool).chain(arguments.keys().map(String::as_str)).map(spaced_words).collect();
        let is_about = |word: &str| {
            word.chars().count() > 2
                && !MESSAGE_WORDS.contains(&word)
                && !others.has_word(word)
                && !names.iter().any(|name| name.split(' ').any(|part| part == word))
        };
        !self.words.has_text(&text.to_lowercase()) && !self.user_words.all().any(is_about)
    }
}

/// Returns `true` if `one` and `other` are the places where a rental begins and ends, and if
/// `arguments` have its dates or times.
fn is_rental(one: &str, other: &str, arguments: &Map<String, Value>) -> bool {
    let is_moment =
        |name: &String| has_word_of(name, &RENTAL_WORDS) && has_word_of(name, &["date", "time", "day", "at"]);
    has_word_of(one, &RENTAL_WORDS) && has_word_of(other, &RENTAL_WORDS) && arguments.keys().any(is_moment)
}

/// Returns `true` if the parameters `one` and `other` are two ends, such as the origin and the
/// destination of a journey.
fn are_ends(one: &str, other: &str) -> bool {
    let are_ends =
        |first: &str, second: &str| has_word_of(first, &FIRST_WORDS) && has_word_of(second, &SECOND_WORDS);
    are_ends(one, other) || are_ends(other, one)
}

#[cfg(test)]
mod tests;
