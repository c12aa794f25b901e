//! Detection of invented arguments.
//!
//! A small model gives every parameter of a tool a value, also if the conversation does not contain
//! one: `example.com`, `2023-01-01`, or the first place that it knows. [`KnownFacts`] compares the
//! arguments of a call with the words and numbers of the conversation. An invented optional
//! argument is removed. A call with an invented required argument is not made.

mod codes;
mod dates;
mod flags;
mod language;
mod numbers;
mod parameter_names;
mod required;
mod texts;
mod words;

use haft_core::{Message, Schema, ToolCall, message::MessageBody, model::ChatRequest, schema::Property};
use serde_json::{Map, Value};

pub(super) use self::codes::{LANGUAGES, language_name};
use self::dates::{is_known_date, is_known_time, remove_copied_return_date};
use self::flags::distinctive_words;
use self::numbers::KnownNumbers;
use self::parameter_names::{description_of, is_address, is_composed_text, is_limit, is_path, is_ticker};
pub(super) use self::parameter_names::{
    has_word_of, is_code, is_composed, is_coordinate, is_format, is_identifier, is_number_of_persons,
    is_time_zone, spaced_words,
};
pub(super) use self::words::{KnownWords, is_opposite, stem};
use super::values::parse_date;

/// The maximum length of a code of a language, a currency, an airport or a unit.
const MAX_CODE_LENGTH: usize = 3;
/// The maximum length of the symbol of a stock, such as `MSFT`.
const MAX_TICKER_LENGTH: usize = 5;

/// The minimum length of the value of an enumeration that may be a part of a word.
const MIN_PARTIAL_LENGTH: usize = 3;
/// Words in the names of the two ends of a period or of a range, and of sizes.
const PAIR_WORDS: [&str; 12] =
    ["begin", "end", "from", "height", "max", "maximum", "min", "minimum", "start", "to", "until", "width"];
/// Nouns for a text, which may follow the name of its language.
const TEXT_NOUNS: [&str; 12] = [
    "article",
    "email",
    "letter",
    "lyrics",
    "message",
    "original",
    "paragraph",
    "phrase",
    "poem",
    "sentence",
    "text",
    "word",
];
/// The maximum number of references and alternatives that lead to an enumeration.
const MAX_REFERENCES: usize = 4;

/// The words and numbers of a conversation.
pub(super) struct KnownFacts {
    words: KnownWords,
    numbers: KnownNumbers,
    /// The words in the messages of the user.
    user_words: KnownWords,
    /// The words in the last message of the user.
    question_words: KnownWords,
    /// The JSON values in the tool results.
    results: Vec<Value>,
    has_results: bool,
    lookups: Lookups,
}

/// The values that a tool of the request can find. The model must not guess them.
#[derive(Clone, Copy, Debug, Default)]
struct Lookups {
    coordinates: bool,
    symbols: bool,
}

impl Lookups {
    fn new(request: &ChatRequest) -> Self {
        let mut lookups = Self::default();
        for tool in request.tools.tools() {
            let definition = tool.definition();
            let text = format!("{} {}", definition.name(), definition.description()).to_lowercase();
            let names: Vec<_> =
                definition.input_schema().properties().map(|property| property.name).collect();
            let mentions = |words: &[&str]| words.iter().any(|word| text.contains(word));
            lookups.coordinates |= mentions(&["coordinates", "geocod", "latitude"])
                && !names.iter().any(|name| is_coordinate(name));
            lookups.symbols |= mentions(&["symbol", "ticker"]) && !names.iter().any(|name| is_ticker(name));
        }
        lookups
    }
}

/// A parameter of a tool.
#[derive(Clone, Copy)]
struct Parameter<'a> {
    /// The input schema of the tool.
    root: &'a Value,
    name: &'a str,
    schema: &'a Value,
}

impl<'a> Parameter<'a> {
    fn new(root: &'a Schema, property: &Property<'a>) -> Self {
        Self { root: root.as_value(), name: property.name, schema: property.schema }
    }
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
        let is_of_user = |message: &Message| matches!(message.body(), MessageBody::User { .. });
        let of_user = request.all_messages().filter(|message| is_of_user(message));
        let of_user: Vec<_> = of_user.map(|message| text_of(message)).collect();
        let is_result = |message: &Message| matches!(message.body(), MessageBody::Tool(_));
        Self {
            results: results.collect(),
            has_results: request.all_messages().any(|message| is_result(message)),
            lookups: Lookups::new(request),
            ..Self::from_texts(&text.join("\n"), &of_user)
        }
    }

    /// Reads the words and numbers of the conversation `text`, with the messages `of_user`.
    fn from_texts(text: &str, of_user: &[String]) -> Self {
        let user_words = KnownWords::new(&of_user.join("\n"));
        let words = KnownWords::new(text).with_language_of(&user_words);
        Self {
            numbers: KnownNumbers::new(text, &words),
            words,
            user_words,
            question_words: KnownWords::new(of_user.last().map_or("", String::as_str)),
            results: Vec::new(),
            has_results: false,
            lookups: Lookups::default(),
        }
    }

    #[cfg(test)]
    fn from_text(text: &str) -> Self {
        Self::from_texts(text, &[text.to_owned()])
    }

    /// Returns the name of the first required argument of `call` that the conversation does not
    /// contain. `schema` is the input schema of the tool.
    pub(super) fn first_invented(&self, call: &ToolCall, schema: &Schema) -> Option<String> {
        let arguments = call.arguments.value_or_string();
        let is_invented = |property: &Property<'_>| {
            let value = arguments.get(property.name);
            value.is_some_and(|value| {
                !self.contains(Parameter::new(schema, property), value, Strictness::Required)
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
        let has_named_flag = self.has_named_flag(call, schema);
        for property in schema.properties().filter(|property| !property.is_required) {
            let Some(value) = known.get(property.name) else { continue };
            let others = schema.properties().map(|other| other.name).filter(|other| *other != property.name);
            let others = others.collect::<Vec<_>>().join(" ");
            let names = [call.name.as_str(), &others];
            let is_unknown = value.is_boolean() && !self.mentions_flag(names, &property, has_named_flag)
                || self.is_unstated_source(property.name, value)
                || self.is_unstated_order(&property, value)
                || self.is_repeating_note(&property, value, &known)
                || value.as_str().is_some_and(str::is_empty) && !self.words.may_remove_text();
            match self.known_part(Parameter::new(schema, &property), value).filter(|_| !is_unknown) {
                Some(part) => known.insert(property.name.to_owned(), part),
                None => known.remove(property.name),
            };
        }
        self.remove_copies(&mut known, schema);
        if !self.words.mentions_return() {
            remove_copied_return_date(&mut known);
        }
        let known = Value::Object(known);
        (known != *arguments && schema.is_valid(&known))
            .then(|| ToolCall::new(call.id.clone(), call.name.clone(), spaced_json(&known)))
    }

    /// Returns `true` if `value` is the language from which a text is translated, and if the
    /// conversation has neither the value, nor the word `from`, nor the text with its language,
    /// such as "the German sentence". A small model takes another target language of "in Spanish
    /// and German".
    fn is_unstated_source(&self, name: &str, value: &Value) -> bool {
        let name = spaced_words(name);
        let mut words = name.split_whitespace();
        let is_source = words.next().is_some_and(|first| matches!(first, "from" | "source"))
            && words.any(|word| word.starts_with("lang"));
        let is_stated = |text: &str| {
            let text = text.to_lowercase();
            let language = language_name(&text).map_or_else(|| text.clone(), str::to_lowercase);
            self.words.has_word(&text)
                || TEXT_NOUNS.iter().any(|noun| self.words.has_words(&format!("{language} {noun}")))
        };
        is_source
            && self.words.is_english()
            && !self.words.has_word("from")
            && !value.as_str().is_some_and(is_stated)
    }

    /// Returns `true` if the conversation has a word for the order of results.
    pub(super) fn has_order(&self) -> bool {
        self.words.has_order()
    }

    /// Returns `true` if `value` is the order of the results, and if the English conversation has
    /// no word for an order: `magnitude` in "of magnitude 5 or above".
    fn is_unstated_order(&self, property: &Property<'_>, value: &Value) -> bool {
        let Some(text) = value.as_str().filter(|_| is_order(property)) else { return false };
        let first = text.split(['_', '-', ' ']).next().unwrap_or_default().to_lowercase();
        self.words.is_english() && !self.words.has_order() && !self.words.has_literal(&format!("by {first}"))
    }

    /// Removes all but one of the optional arguments with the same date, or with the same text or
    /// number if the conversation contains it once: "the first 5 lines" gives one of `head` and
    /// `tail`. Keeps the argument with the most words of the conversation in its name and
    /// description, and a value of an enumeration rather than a free text. Also removes an optional
    /// text that is equal to a required text, unless one of them is a value of an enumeration. The
    /// ends of a period may be equal.
    fn remove_copies(&self, arguments: &mut Map<String, Value>, schema: &Schema) {
        let properties: Vec<_> = schema.properties().collect();
        for (index, one) in properties.iter().enumerate() {
            for other in properties.iter().skip(index + 1) {
                if one.is_required && other.is_required {
                    continue;
                }
                let (Some(value), Some(copy)) = (arguments.get(one.name), arguments.get(other.name)) else {
                    continue;
                };
                let is_pair = has_word_of(one.name, &PAIR_WORDS) && has_word_of(other.name, &PAIR_WORDS);
                let are_optional = !one.is_required && !other.is_required;
                let is_free_text =
                    |property: &Property<'_>| value.is_string() && property.schema.get("enum").is_none();
                if !(are_optional || is_free_text(one) && is_free_text(other)) {
                    continue;
                }
                let is_date = are_optional && value.as_str().is_some_and(|text| parse_date(text).is_some());
                if value == copy && !is_pair && (is_date || self.words.occurs_once(value)) {
                    let is_enumeration =
                        |property: &Property<'_>| !enumeration(schema.as_value(), property.schema).is_empty();
                    let is_worse = match (are_optional, is_enumeration(one), is_enumeration(other)) {
                        (true, true, false) => false,
                        (true, false, true) => true,
                        (true, ..) => self.relevance(one) < self.relevance(other),
                        (false, ..) => other.is_required,
                    };
                    arguments.remove(if is_worse { one.name } else { other.name });
                }
            }
        }
    }

    /// Returns the number of words of the name and the description of `property` that are in the
    /// conversation.
    fn relevance(&self, property: &Property<'_>) -> usize {
        let name = property.name.to_lowercase();
        self.words.count(&format!("{name} {}", description_of(property.schema)))
    }

    /// Returns the part of the optional argument `value` that the conversation contains: the known
    /// items of a list, or the whole value.
    fn known_part(&self, parameter: Parameter<'_>, value: &Value) -> Option<Value> {
        let Value::Array(items) = value else {
            return self.contains(parameter, value, Strictness::Optional).then(|| value.clone());
        };
        let schema = parameter.schema.get("items").unwrap_or(&Value::Null);
        let item = Parameter { schema, ..parameter };
        if self.is_named_range(enumeration(parameter.root, schema), items) {
            return Some(value.clone());
        }
        let is_known = |value: &&Value| self.contains(item, value, Strictness::Optional);
        let known: Vec<_> = items.iter().filter(is_known).cloned().collect();
        (!known.is_empty() || items.is_empty()).then_some(Value::Array(known))
    }

    /// Returns `true` if `items` are consecutive values of `names`, an enumeration, and if the
    /// conversation has the range from the first to the last of them: "from Monday to Friday".
    fn is_named_range(&self, names: Vec<&Value>, items: &[Value]) -> bool {
        let is_run = |window: &[&Value]| window.iter().zip(items).all(|(name, item)| *name == item);
        let text = |item: Option<&Value>| item.and_then(Value::as_str).map(str::to_lowercase);
        let (Some(first), Some(last)) = (text(items.first()), text(items.last())) else { return false };
        items.len() > 2 && names.windows(items.len()).any(is_run) && self.words.has_range(&first, &last)
    }

    /// Returns `true` if the conversation contains `value`, the argument `parameter`, or if the
    /// model may choose it freely.
    fn contains(&self, parameter: Parameter<'_>, value: &Value, strictness: Strictness) -> bool {
        let Parameter { root, name, schema } = parameter;
        let is_enumeration = !enumeration(root, schema).is_empty();
        if is_enumeration && strictness == Strictness::Required {
            return true;
        }
        if schema.get("default").is_some_and(|default| default == value) {
            return true;
        }
        match value {
            Value::String(text) if is_enumeration => self.mentions_name(text),
            Value::String(text) if is_address(name, schema) && !text.contains('@') => false,
            Value::String(text) if self.is_unknown_code(parameter, text) => false,
            Value::String(text) => {
                let is_free = is_composed_text(name, schema) && !self.is_invented_text(parameter, text)
                    || schema.get("pattern").is_some();
                strictness == Strictness::Required && is_free
                    || (is_time_zone(name, schema) && self.may_be_time_zone(text, schema))
                    || self.contains_text(parameter, text, strictness)
            }
            Value::Number(number) => {
                number.as_f64().is_none_or(|number| self.contains_number(name, number, strictness))
            }
            Value::Array(items) => {
                let schema = schema.get("items").unwrap_or(&Value::Null);
                let item = Parameter { root, name, schema };
                let is_invented =
                    strictness == Strictness::Required && self.are_invented_numbers(name, items);
                let is_known = |value: &Value| self.contains(item, value, strictness);
                items.is_empty() || !is_invented && items.iter().any(is_known)
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => true,
        }
    }

    /// Returns `true` if the conversation contains `text`, the value of an enumeration, half of its
    /// words, or another name of the same unit: `kilojoules` for `kJ`.
    pub(super) fn mentions_name(&self, text: &str) -> bool {
        self.contains_share(text, 0.5) || self.words.has_unit(text)
    }

    /// Returns `true` if the conversation contains `text`, the value of an enumeration, or all of
    /// its words.
    pub(super) fn names(&self, text: &str) -> bool {
        self.contains_share(text, 1.0)
    }

    /// Returns `true` if the conversation contains `text`, or at least `min_share` of its words.
    fn contains_share(&self, text: &str, min_share: f64) -> bool {
        let code = text;
        let text = text.to_lowercase();
        // Many words contain `m`, and "I'm" ends with it: neither is the size `M`.
        let is_long = text.chars().count() >= MIN_PARTIAL_LENGTH;
        if !is_long && self.words.has_word(&text) {
            return self.words.has_short_code(code);
        }
        is_long && self.words.has_text(&text) || self.words.share(&text) >= min_share
    }

    /// Returns `true` if `text` may be the time zone of a place in the conversation:
    /// `Europe/Berlin` for Munich. The example in the description of the parameter is not.
    fn may_be_time_zone(&self, text: &str, schema: &Value) -> bool {
        let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        self.words.has_name() && !description.contains(text)
    }

    fn contains_text(&self, parameter: Parameter<'_>, text: &str, strictness: Strictness) -> bool {
        let name = parameter.name;
        let is_letter = text.trim().chars().count() == 1 && text.contains(char::is_alphabetic);
        if strictness == Strictness::Required && is_letter && codes::is_letter_of_user(name) {
            return self.words.has_short_code(text.trim());
        }
        // `WEB` is not the code of a language or of a currency.
        let is_other_code = !text.contains(char::is_lowercase) && codes::is_key_of_user(name);
        let text = text.trim().to_lowercase();
        if is_identifier(name) {
            let has_digit = text.contains(|letter: char| letter.is_ascii_digit());
            let is_number = spaced_words(name).ends_with("number");
            // The train `TGV 9713` has its number in two words.
            let is_designation = is_number && self.words.has_literal(&text);
            return (self.words.has_identifier(&text) || is_designation) && (has_digit || !is_number);
        }
        if is_path(name) {
            return self.words.has_path(&text);
        }
        if self.words.has_text(&text) {
            return true;
        }
        if let Some(known) = is_known_date(&text, &self.words, &self.numbers, strictness) {
            return known;
        }
        if let Some(known) = is_known_time(&text, &self.words, &self.numbers, strictness) {
            return known;
        }
        if text.contains('@') {
            return false;
        }
        // Users write the name instead of a code: `Spanish` instead of `es`.
        let can_be_found = is_ticker(name) && self.lookups.symbols;
        let may_be_code =
            (strictness == Strictness::Required && !is_other_code || is_code(name)) && !can_be_found;
        let max_length = if is_ticker(name) { MAX_TICKER_LENGTH } else { MAX_CODE_LENGTH };
        if may_be_code && text.len() <= max_length && text.chars().all(char::is_alphabetic) {
            return codes::may_be_stated(parameter, &text, &self.words);
        }
        match strictness {
            Strictness::Required => self.words.share(&text) > 0.0 && !self.is_invented_name(name, &text),
            Strictness::Optional => self.words.share(&text) >= 0.5 && self.words.has_numbers_of(&text),
        }
    }

    /// Returns `true` if the conversation has a word of `name` after a negation.
    fn negates(&self, name: &str) -> bool {
        self.words.negates(distinctive_words(&spaced_words(name), ""))
    }

    fn contains_number(&self, name: &str, number: f64, strictness: Strictness) -> bool {
        match strictness {
            // "I don't want to change" for `max_changes`
            Strictness::Optional if number == 0.0 && self.negates(name) => true,
            // An invented limit, such as 1000, is often a multiple of a number in the question.
            Strictness::Optional
                if number == 1.0 && is_number_of_persons(name) && self.words.has_one_person() =>
            {
                true
            }
            Strictness::Optional if is_limit(name) => self.numbers.contains_exactly(number),
            Strictness::Optional => self.numbers.contains(number),
            Strictness::Required => self.contains_required_number(name, number),
        }
    }
}

/// Returns `true` if `property` is the order of the results, such as `sort_by`.
pub(super) fn is_order(property: &Property<'_>) -> bool {
    let name = spaced_words(property.name);
    let is_verb = |word: &str| matches!(word, "sort" | "sorted" | "sorting" | "ordering");
    name.split(' ').any(is_verb) || name == "order by"
}

/// Returns the values of the enumeration `schema`, a part of `root`. Returns no values if `schema`
/// is no enumeration.
pub(super) fn enumeration<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let mut values = Vec::new();
    add_enumeration(root, schema, MAX_REFERENCES, &mut values);
    values
}

/// Adds the values of the enumeration `schema` to `values`. Follows at most `references` references
/// and alternatives.
fn add_enumeration<'a>(root: &'a Value, schema: &'a Value, references: usize, values: &mut Vec<&'a Value>) {
    let Some(references) = references.checked_sub(1) else { return };
    values.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten());
    values.extend(schema.get("const"));
    if let Some(target) =
        schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'))
    {
        root.pointer(target).into_iter().for_each(|target| add_enumeration(root, target, references, values));
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        let alternatives = schema.get(keyword).and_then(Value::as_array);
        alternatives.into_iter().flatten().for_each(|part| add_enumeration(root, part, references, values));
    }
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

/// Formats an object with a space after each colon and comma between its members, as the
/// demonstration does.
pub(super) fn spaced_json(value: &Value) -> String {
    let Value::Object(members) = value else { return value.to_string() };
    let members =
        members.iter().map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spaced_json(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}

/// Returns the text of `message`, with the results of tools and the arguments of calls.
pub(super) fn text_of(message: &Message) -> String {
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
