//! Correction of arguments that a small model computed from the conversation.
//!
//! A small model confuses units, signs, dates, times and the values of an enumeration. The phrases
//! of the conversation have known [values](super::values). If an argument differs from all of them,
//! it is replaced by the value of the phrase, or the model chooses among several values.

use std::sync::LazyLock;

use haft_core::{Message, Schema, ToolCall, message::MessageBody, model::ChatRequest, schema::Property};
use jiff::civil::{Date, Time};
use regex::Regex;
use serde_json::{Map, Value, json};
use tracing::debug;

use super::grounding::{KnownWords, enumeration, is_composed, spaced_json, spaced_words};
use super::values::{DateRange, TextValues, Unit, parse_date, parse_time};

/// The maximum number of values among which the model chooses.
const MAX_CANDIDATES: usize = 8;
/// The minimum length of a name of which a letter may be wrong.
const MIN_MISSPELLED_LENGTH: usize = 5;
/// The minimum length of the values of an enumeration that are compared with the question.
const MIN_NAME_LENGTH: usize = 3;

/// The values in the conversation, with which arguments are compared.
pub(super) struct ArgumentCorrector {
    today: Option<Date>,
    question_text: String,
    question: TextValues,
    conversation: TextValues,
    question_words: KnownWords,
}

/// The correction of a call.
#[derive(Debug)]
pub(super) enum Correction {
    /// The call with the corrected arguments.
    Call(ToolCall),
    /// The schema of the arguments, in which the wrong arguments are limited to the values of the
    /// conversation.
    Schema(Schema),
}

/// A text and the values in it.
struct Source<'a> {
    text: &'a str,
    values: &'a TextValues,
    words: &'a KnownWords,
}

impl ArgumentCorrector {
    pub(super) fn new(request: &ChatRequest) -> Self {
        let texts: Vec<_> = request.all_messages().filter_map(|message| text_of(message)).collect();
        let conversation = texts.join("\n");
        let question = request.all_messages().filter(|message| is_user(message)).last();
        let question = question.map(|message| message.text()).unwrap_or_default();
        let today = texts.iter().rev().find_map(|text| TextValues::today(text));
        Self {
            today,
            question: TextValues::new(&question, today),
            conversation: TextValues::new(&conversation, today),
            question_words: KnownWords::new(&question),
            question_text: question,
        }
    }

    /// Returns the correction of `call`, which satisfies `need`. `schema` is the input schema of
    /// the tool. Returns `None` if the arguments need no correction.
    pub(super) fn correct(&self, need: &str, call: &ToolCall, schema: &Schema) -> Option<Correction> {
        let need_values = TextValues::new(need, self.today);
        let need_words = KnownWords::new(need);
        let sources = [
            Source { text: need, values: &need_values, words: &need_words },
            Source { text: &self.question_text, values: &self.question, words: &self.question_words },
            Source { text: "", values: &self.conversation, words: &self.question_words },
        ];
        let arguments = call.arguments.value_or_string();
        let arguments = arguments.as_object()?;
        let mut corrected = arguments.clone();
        let mut choices = Vec::new();
        for property in schema.properties() {
            let Some(value) = arguments.get(property.name) else { continue };
            let mut candidates = candidates(schema, &property, value, &sources);
            candidates.retain(|candidate| is_valid(schema, arguments, property.name, candidate));
            match candidates.as_slice() {
                [] => {}
                // The conversation has one date, and two arguments with dates: one of them is invented.
                [only] if is_copy(schema, &property, only, &corrected) => {
                    corrected.remove(property.name);
                }
                [only] => {
                    corrected.insert(property.name.to_owned(), only.clone());
                }
                _ if candidates.len() <= MAX_CANDIDATES => choices.push((property.name, candidates)),
                _ => {}
            }
        }
        if let Some((from, to)) = swapped_units(schema, &corrected, &self.question_text) {
            corrected.extend([from, to]);
        }
        add_omitted(schema, &mut corrected, &sources);
        remove_repeated_text(&mut corrected);
        if choices.is_empty() {
            let call =
                || ToolCall::new(call.id.clone(), call.name.clone(), spaced_json(&corrected.clone().into()));
            return (corrected != *arguments).then(call).map(Correction::Call);
        }
        let mut narrowed = schema.as_value().clone();
        let properties = narrowed.get_mut("properties")?.as_object_mut()?;
        let changed = corrected.iter().filter(|(name, value)| arguments.get(*name) != Some(value));
        let changed: Vec<_> = changed.map(|(name, value)| (name.as_str(), vec![value.clone()])).collect();
        for (name, candidates) in changed.into_iter().chain(choices) {
            properties.insert(name.to_owned(), json!({ "enum": candidates }));
        }
        Schema::new(narrowed).ok().map(Correction::Schema)
    }
}

/// Returns the text of `message`, except the text of a model, which may be wrong.
fn text_of(message: &Message) -> Option<String> {
    match message.body() {
        MessageBody::Tool(result) => Some(result.model_text().into_owned()),
        MessageBody::Assistant(_) => None,
        _ => Some(message.text()),
    }
}

fn is_user(message: &Message) -> bool {
    matches!(message.body(), MessageBody::User { .. })
}

/// Returns `true` if `value` is a date or a time for an optional argument, and another argument has it.
fn is_copy(schema: &Schema, property: &Property<'_>, value: &Value, arguments: &Map<String, Value>) -> bool {
    let is_text = value.is_string() && enumeration(schema.as_value(), property.schema).is_empty();
    let mut others = arguments.iter().filter(|(name, _)| *name != property.name);
    !property.is_required && is_text && others.any(|(_, known)| known == value)
}

/// Returns `true` if `schema` permits `arguments` with the value `candidate` for `name`.
fn is_valid(schema: &Schema, arguments: &Map<String, Value>, name: &str, candidate: &Value) -> bool {
    let mut changed = arguments.clone();
    changed.insert(name.to_owned(), candidate.clone());
    schema.is_valid(&Value::Object(changed))
}

/// Returns the values of the conversation that `value`, the argument `property`, should have.
/// Returns no values if the argument may be right.
fn candidates(schema: &Schema, property: &Property<'_>, value: &Value, sources: &[Source<'_>]) -> Vec<Value> {
    match value {
        Value::String(text) => {
            let names = enumeration(schema.as_value(), property.schema);
            if let Some(name) = misspelled_name(text, sources) {
                vec![json!(name)]
            } else if names.is_empty() {
                let written = Written { text, description: description(property) };
                written
                    .date_candidates(sources)
                    .or_else(|| written.time_candidates(sources))
                    .unwrap_or_default()
            } else {
                name_candidates(text, &names, sources).into_iter().collect()
            }
        }
        Value::Number(number) => {
            let numbers = number.as_f64().map(|number| number_candidates(property, number, sources));
            numbers.unwrap_or_default().into_iter().map(to_json).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the units `from` and `to` of a conversion with the names of their parameters, if `from` is
/// not the unit that follows the number in `question`: "How many ml are 3 cups?" converts from cups.
fn swapped_units(
    schema: &Schema,
    arguments: &Map<String, Value>,
    question: &str,
) -> Option<((String, Value), (String, Value))> {
    let find = |prefix: &str| {
        let property = schema.properties().find(|property| property.name.starts_with(prefix))?;
        let names = enumeration(schema.as_value(), property.schema);
        let names: Vec<&str> = names.into_iter().filter_map(Value::as_str).collect();
        let value = arguments.get(property.name)?.as_str()?;
        (!names.is_empty()).then_some((property.name, names, value))
    };
    let (from, names, from_unit) = find("from")?;
    let (to, _, to_unit) = find("to")?;
    let number = arguments.values().find(|value| value.is_number())?.to_string();
    let question = question.to_lowercase();
    let after = question.split(&number).nth(1)?.trim_start();
    let word = after.split(|letter: char| letter.is_whitespace() || ",.;?!".contains(letter)).next()?;
    let unit = *names.iter().find(|name| is_same_unit(name, word))?;
    if unit == from_unit {
        return None;
    }
    let words = KnownWords::new(&question);
    let is_other = |name: &&&str| **name != unit && words.mentions(&name.to_lowercase());
    let other = names.iter().find(is_other).copied().unwrap_or(from_unit);
    let target = if to_unit == unit { other } else { to_unit };
    Some(((from.to_owned(), json!(unit)), (to.to_owned(), json!(target))))
}

/// Returns `true` if `word` is a form of `name`, a unit in an enumeration.
fn is_same_unit(name: &str, word: &str) -> bool {
    let name = name.to_lowercase();
    let singular = |text: &str| text.trim_end_matches('s').to_owned();
    !word.is_empty() && (singular(&name) == singular(word) || KnownWords::new(word).mentions(&name))
}

/// Removes the text of an argument from the end of another argument: the title `Yesterday by The
/// Beatles` with the artist `The Beatles` becomes `Yesterday`.
fn remove_repeated_text(arguments: &mut Map<String, Value>) {
    const LINKS: [&str; 6] = [" at ", " by ", " for ", " from ", " in ", " on "];
    let texts: Vec<_> = arguments.values().filter_map(Value::as_str).map(str::to_owned).collect();
    let without = |text: &str, other: &str| {
        let before = text.strip_suffix(other).filter(|_| !other.is_empty())?;
        let rest = LINKS.iter().find_map(|link| before.strip_suffix(link))?;
        (!rest.is_empty()).then(|| rest.to_owned())
    };
    let shortened = |text: &str| texts.iter().find_map(|other| without(text, other));
    for (name, value) in arguments.iter_mut().filter(|(name, _)| !is_composed(name) || *name == "title") {
        if let Some(short) = value.as_str().and_then(shortened) {
            debug!(name, "removed the text of another argument");
            *value = Value::String(short);
        }
    }
}

/// Adds optional arguments that the model omitted: a number whose unit no other argument has, and the
/// value of an enumeration that the need contains literally.
fn add_omitted(schema: &Schema, arguments: &mut Map<String, Value>, sources: &[Source<'_>]) {
    let Some(need) = sources.first() else { return };
    for property in schema.properties().filter(|property| !property.is_required) {
        if arguments.contains_key(property.name) {
            continue;
        }
        let names = enumeration(schema.as_value(), property.schema);
        let value = match names.is_empty() {
            true => omitted_number(&property, arguments, need),
            false => omitted_name(&names, arguments, need),
        };
        if let Some(value) = value.filter(|value| is_valid(schema, arguments, property.name, value)) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

fn omitted_number(
    property: &Property<'_>,
    arguments: &Map<String, Value>,
    need: &Source<'_>,
) -> Option<Value> {
    let unit = unit_of(property)?;
    let mut quantities = need.values.quantities.iter().filter(|quantity| quantity.in_unit(unit).is_some());
    let (only, None) = (quantities.next()?, quantities.next()) else { return None };
    let converted = only.in_unit(unit)?;
    let mut numbers = arguments.values().filter_map(Value::as_f64);
    let is_used = numbers.any(|used| used == only.number || used == converted);
    let kind = property.schema.get("type").and_then(Value::as_str);
    let is_number = matches!(kind, Some("integer" | "number"));
    (is_number && !is_used).then(|| to_json(converted))
}

fn omitted_name(names: &[&Value], arguments: &Map<String, Value>, need: &Source<'_>) -> Option<Value> {
    let is_literal = |name: &str| {
        let words = name.to_lowercase().replace('_', " ");
        words.chars().count() > MIN_NAME_LENGTH && need.words.has_words(&words)
    };
    let mut mentioned = names.iter().filter(|name| name.as_str().is_some_and(is_literal));
    let (only, None) = (mentioned.next()?, mentioned.next()) else { return None };
    let is_used = arguments.values().any(|value| value == *only);
    (!is_used).then(|| (*only).clone())
}

/// Returns the name in the question of which `text` has one letter wrong. A small model translates
/// names: `Lisboa` for Lisbon.
fn misspelled_name<'a>(text: &str, sources: &'a [Source<'_>]) -> Option<&'a str> {
    let is_name = |word: &str| {
        word.chars().count() >= MIN_MISSPELLED_LENGTH && word.chars().next().is_some_and(char::is_uppercase)
    };
    let is_near = |name: &&str| {
        let pairs = name.chars().zip(text.chars());
        name.chars().count() == text.chars().count() && pairs.filter(|(one, other)| one != other).count() == 1
    };
    let names =
        || sources.iter().flat_map(|source| source.text.split(|letter: char| !letter.is_alphabetic()));
    if !is_name(text) || names().any(|name| name == text) {
        return None;
    }
    names().filter(|name| is_name(name)).find(is_near)
}

fn description<'a>(property: &Property<'a>) -> &'a str {
    property.schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Converts `number` to an integer if it has no fraction.
fn to_json(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { json!(number as i64) } else { json!(number) }
}

/// Returns the only value of the enumeration `names` that the need or the question mentions, if it
/// does not mention `text`.
fn name_candidates(text: &str, names: &[&Value], sources: &[Source<'_>]) -> Option<Value> {
    let is_comparable = |name: &str| name.chars().count() >= MIN_NAME_LENGTH;
    let names: Vec<_> = names.iter().filter_map(|name| name.as_str()).collect();
    if !names.iter().all(|name| is_comparable(name)) {
        return None;
    }
    for source in sources {
        let is_mentioned = |name: &str| source.words.mentions(&name.to_lowercase());
        if is_mentioned(text) {
            return None;
        }
        let mut mentioned = names.iter().filter(|name| is_mentioned(name));
        match (mentioned.next(), mentioned.next()) {
            (Some(only), None) => return Some(json!(only)),
            (Some(_), Some(_)) => return None,
            (None, _) => {}
        }
    }
    None
}

fn number_candidates(property: &Property<'_>, number: f64, sources: &[Source<'_>]) -> Vec<f64> {
    let all = || sources.iter().flat_map(|source| &source.values.quantities);
    let is_equal = |one: f64| (one - number).abs() <= 1e-6 * number.abs().max(1e-3);
    if let Some(unit) = unit_of(property) {
        let converted = |source: &Source<'_>| -> Vec<f64> {
            source.values.quantities.iter().filter_map(|quantity| quantity.in_unit(unit)).collect()
        };
        if sources.iter().any(|source| converted(source).into_iter().any(is_equal)) {
            return Vec::new();
        }
        let is_plain = all().any(|quantity| is_equal(quantity.number) && quantity.unit.is_none());
        let first = sources.iter().map(converted).find(|converted| !converted.is_empty());
        if let Some(first) = first.filter(|_| !is_plain) {
            return first;
        }
    }
    if is_percentage(property) && !all().any(|quantity| !quantity.is_share && is_equal(quantity.number)) {
        let shares = |source: &Source<'_>| -> Vec<f64> {
            let shares = source.values.quantities.iter().filter(|quantity| quantity.is_share);
            shares.map(|quantity| (quantity.number * 1e6).round() / 1e4).collect()
        };
        let known: Vec<f64> = sources.iter().flat_map(shares).collect();
        let is_known = known.iter().any(|share| is_equal(*share) || is_equal(share / 100.0));
        let first = sources.iter().map(shares).find(|shares| !shares.is_empty());
        if let Some(first) = first.filter(|_| !is_known) {
            return first;
        }
    }
    let is_negative = all().any(|quantity| is_equal(-quantity.number));
    let is_positive = all().any(|quantity| is_equal(quantity.number));
    if number > 0.0 && is_negative && !is_positive { vec![-number] } else { Vec::new() }
}

/// Returns the unit of the parameter `property`: from its name, such as `height_cm`, or from its
/// description, such as `The duration in minutes`.
fn unit_of(property: &Property<'_>) -> Option<Unit> {
    static IN_UNIT: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\b(?:in|of) ([a-z]{2,})\b|\(([a-z]+)\)|^([a-z]{2,})\b"));
    let name: String = spaced_words(property.name);
    let words: Vec<_> = name.split_whitespace().collect();
    let of_name = match words.as_slice() {
        [only] => Some(*only).filter(|word| word.len() >= MIN_NAME_LENGTH),
        [.., last] => Some(*last),
        [] => None,
    };
    let description = description(property).to_lowercase();
    of_name.and_then(Unit::from_name).or_else(|| {
        IN_UNIT.captures_iter(&description).find_map(|captures| {
            let name = captures.iter().skip(1).flatten().next()?;
            Unit::from_name(name.as_str())
        })
    })
}

fn pattern(text: &str) -> Regex {
    match Regex::new(text) {
        Ok(pattern) => pattern,
        Err(error) => unreachable!("the pattern is a constant: {error}"),
    }
}

fn is_percentage(property: &Property<'_>) -> bool {
    const NAMES: [&str; 10] = [
        "brightness",
        "fraction",
        "level",
        "opacity",
        "percent",
        "percentage",
        "position",
        "ratio",
        "share",
        "volume",
    ];
    let description = description(property).to_lowercase();
    spaced_words(property.name).split_whitespace().any(|word| NAMES.contains(&word))
        || description.contains("percent")
        || description.contains('%')
}

/// A text argument and the description of its parameter.
struct Written<'a> {
    text: &'a str,
    description: &'a str,
}

impl Written<'_> {
    /// Returns the dates of the conversation, in the form of the argument, if the argument is
    /// another date. Returns `None` if the argument is no date.
    fn date_candidates(&self, sources: &[Source<'_>]) -> Option<Vec<Value>> {
        let (text, rest) = self.text.split_once(['T', ' ']).filter(|(date, _)| date.len() == 10).unzip();
        let (text, rest) = (text.unwrap_or(self.text), rest.unwrap_or_default());
        let written = parse_date(text);
        if written.is_none() && !is_relative_date(text) {
            return None;
        }
        let is_iso = text.len() == 10 && text.as_bytes().get(4) == Some(&b'-');
        let must_be_iso =
            is_iso || self.description.contains("YYYY-MM-DD") || self.description.contains("ISO");
        if !must_be_iso {
            return Some(Vec::new());
        }
        let ranges = || sources.iter().flat_map(|source| &source.values.dates);
        let format = |day: Date| match rest {
            "" => json!(day.to_string()),
            rest => json!(format!("{day}{}{rest}", self.text.get(10..11).unwrap_or_default())),
        };
        match written {
            Some(day) if ranges().any(|range| range.contains(day)) => {
                return Some(if is_iso { Vec::new() } else { vec![format(day)] });
            }
            _ => {}
        }
        let dates = sources.iter().map(|source| days_of(&source.values.dates)).find(|days| !days.is_empty());
        Some(dates.unwrap_or_default().into_iter().map(format).collect())
    }

    /// Returns the times of the conversation, in the form of the argument, if the argument is
    /// another time. Returns `None` if the argument is no time.
    fn time_candidates(&self, sources: &[Source<'_>]) -> Option<Vec<Value>> {
        let written = parse_time(self.text)?;
        let is_clock = self.text.len() == 5 || self.text.len() == 8;
        let must_be_clock = ["HH:MM", "24-hour", "24 hour", "24h", "hh:mm"]
            .iter()
            .any(|form| self.description.contains(form));
        let has_seconds = !must_be_clock || self.description.contains("SS");
        let format = |time: &Time| match self.text.len() {
            8 if self.text.matches(':').count() == 2 && has_seconds => {
                json!(time.strftime("%H:%M:%S").to_string())
            }
            _ => json!(time.strftime("%H:%M").to_string()),
        };
        let times = |source: &Source<'_>| source.values.times.clone();
        if sources.iter().any(|source| times(source).contains(&written)) {
            let same = format(&written);
            return Some(if must_be_clock && same != self.text { vec![same] } else { Vec::new() });
        }
        if !is_clock && !must_be_clock {
            return Some(Vec::new());
        }
        let first = sources.iter().map(times).find(|times| !times.is_empty());
        Some(first.unwrap_or_default().iter().map(format).collect())
    }
}

/// Returns the first and the last day of each period.
fn days_of(ranges: &[DateRange]) -> Vec<Date> {
    let mut days = Vec::new();
    for day in ranges.iter().flat_map(|range| [range.first, range.last]) {
        if !days.contains(&day) {
            days.push(day);
        }
    }
    days
}

/// Returns `true` if `text` is a date relative to today, such as `tomorrow` or `next Monday`.
fn is_relative_date(text: &str) -> bool {
    const WORDS: [&str; 4] = ["today", "tonight", "tomorrow", "yesterday"];
    let text = text.to_lowercase();
    WORDS.contains(&text.as_str()) || (text.ends_with("day") && !text.contains(char::is_numeric))
}

#[cfg(test)]
mod tests;
