//! Arguments that a small model omits.

use std::sync::LazyLock;

use haft_core::Schema;
use jiff::civil::Date;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::numbers;
use super::{Sources, description, is_valid, pattern, spaced_words, to_json};
use crate::few_shot::values::{TextValues, Unit};

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
