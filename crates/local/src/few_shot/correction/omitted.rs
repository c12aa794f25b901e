//! Arguments that a small model omits.

use std::sync::LazyLock;

use haft_core::Schema;
use jiff::civil::Date;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::numbers;
use super::{Sources, description, is_valid, pattern, spaced_words, to_json};
use crate::few_shot::{
    grounding::{KnownWords, enumeration},
    values::{TextValues, Unit},
};

/// The minimum length of the word after a number that is added, in bytes.
const MIN_LABEL_LENGTH: usize = 3;
/// Words after a number that are no nouns, without a final `s`.
const NO_NOUNS: [&str; 16] = [
    "and", "are", "each", "for", "from", "into", "les", "more", "most", "new", "not", "other", "per", "than",
    "that", "with",
];
/// The minimum length of the value of an enumeration that is added, in bytes.
const MIN_NAME_LENGTH: usize = 4;
/// The maximum length of a date in words, in bytes.
const MAX_DATE_BYTES: usize = 24;
/// Words for periods and measures, of which there is no list.
const NO_ITEMS: [&str; 7] = ["chapter", "decade", "month", "page", "percent", "weekend", "year"];
/// Words in the names of parameters for a number of results.
const LIMIT_WORDS: [&str; 4] = ["count", "limit", "num", "results"];

/// Adds the duration or the distance in the need that the model omitted: the only quantity with a
/// unit, for an optional parameter such as `radius_m` or `duration_minutes`.
pub(super) fn add_omitted_duration(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    sources: &Sources<'_>,
) {
    for property in schema.properties().filter(|property| !property.is_required) {
        if arguments.contains_key(property.name) {
            continue;
        }
        let value = numbers::omitted_quantity(&property, arguments, sources.need).map(to_json);
        if let Some(value) = value.filter(|value| is_valid(schema, arguments, property.name, value)) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Adds the number in `need` that the model omitted: 10 for the optional parameter `limit` and "the
/// last 10 transactions".
pub(super) fn add_omitted_limit(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    static LIMIT: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\b(?:first|last|latest|next|top|newest) (\d{1,4}) ([a-z]+)"));
    let need = need.to_lowercase();
    let Some(captures) = LIMIT.captures(&need) else { return };
    let word = captures.get(2).map(|word| word.as_str()).unwrap_or_default();
    // The last 3 months are a period.
    if Unit::from_name(word).is_some() || NO_ITEMS.contains(&word.trim_end_matches('s')) {
        return;
    }
    let Some(number) = captures.get(1).and_then(|number| number.as_str().parse::<i64>().ok()) else {
        return;
    };
    let is_used = arguments.values().any(|value| *value == json!(number));
    let mut optional = schema.properties().filter(|property| !property.is_required);
    let limit = optional.find(|property| {
        spaced_words(property.name).split(' ').any(|word| LIMIT_WORDS.contains(&word))
            && !arguments.contains_key(property.name)
            && is_valid(schema, arguments, property.name, &json!(number))
    });
    if let Some(limit) = limit.filter(|_| !is_used) {
        arguments.insert(limit.name.to_owned(), json!(number));
    }
}

/// Adds the number in `need` that the model omitted: 9 for the optional parameter `voltage` with
/// the description "Voltage in volts", and "a 9 volt battery".
pub(super) fn add_omitted_number(schema: &Schema, arguments: &mut Map<String, Value>, need: &TextValues) {
    for property in schema.properties().filter(|property| !property.is_required) {
        let kind = property.schema.get("type").and_then(Value::as_str);
        let is_number = matches!(kind, Some("integer" | "number"));
        if !is_number || arguments.contains_key(property.name) || need.has_unclear_numbers {
            continue;
        }
        let text = format!("{} {}", spaced_words(property.name), description(&property)).to_lowercase();
        let is_label = |label: &str| {
            let mut words = text.split(|letter: char| !letter.is_alphabetic());
            // A period of 5 years is no year.
            let is_noun = label.len() >= MIN_LABEL_LENGTH && !NO_NOUNS.contains(&label);
            is_noun
                && Unit::from_name(label).is_none()
                && !NO_ITEMS.contains(&label)
                && words.any(|word| word.trim_end_matches('s') == label)
        };
        let mut labelled = need.labelled_numbers.iter().filter(|(_, label)| is_label(label));
        let (Some((number, _)), None) = (labelled.next(), labelled.next()) else { continue };
        let value = to_json(*number);
        let is_used = arguments.values().any(|used| used.as_f64() == Some(*number));
        if !is_used && is_valid(schema, arguments, property.name, &value) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Adds the value of an enumeration in `need` that the model omitted: `dinner` for the optional
/// parameter `meal`. A value in another argument and the first word of `need` do not count, and
/// none is added if `need` has a negation.
pub(super) fn add_omitted_name(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    let (_, rest) = need.split_once(' ').unwrap_or_default();
    let words = KnownWords::new(rest);
    if words.has_negation() {
        return;
    }
    for property in schema.properties().filter(|property| !property.is_required) {
        if arguments.contains_key(property.name) {
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_lowercase().replace('_', " ");
        let used = Value::Object(arguments.clone()).to_string().to_lowercase();
        let is_named = |value: &&&Value| {
            let text = text(value);
            text.len() >= MIN_NAME_LENGTH && words.has_words(&text) && !used.contains(&text)
        };
        let names = enumeration(schema.as_value(), property.schema);
        let mut named = names.iter().filter(is_named);
        let (Some(name), None) = (named.next(), named.next()) else { continue };
        let is_default = property.schema.get("default") == Some(*name);
        if !is_default && is_valid(schema, arguments, property.name, name) {
            arguments.insert(property.name.to_owned(), (*name).clone());
        }
    }
}

/// Adds the date in `need` that the model omitted: the date after the word `since` for the optional
/// parameter `since`.
pub(super) fn add_omitted_date(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    need: &str,
    today: Option<Date>,
) {
    const WORDS: [&str; 4] = ["after", "before", "since", "until"];
    let need = need.to_lowercase();
    for property in schema.properties().filter(|property| !property.is_required) {
        let is_date = property.schema.get("format").is_some_and(|format| format == "date")
            || description(&property).to_lowercase().contains("yyyy-mm-dd");
        let name = spaced_words(property.name);
        let word = WORDS.iter().find(|word| name.split(' ').any(|part| part == **word));
        let Some(word) = word.filter(|_| is_date && !arguments.contains_key(property.name)) else { continue };
        let Some((_, rest)) = need.split_once(&format!(" {word} ")) else { continue };
        let rest = rest.get(..rest.floor_char_boundary(MAX_DATE_BYTES)).unwrap_or_default();
        let [date] = TextValues::new(rest, today).dates[..] else { continue };
        let value = json!(date.first.to_string());
        let is_used = arguments.values().any(|used| *used == value);
        if date.first == date.last && !is_used && is_valid(schema, arguments, property.name, &value) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}
