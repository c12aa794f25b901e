//! Arguments that the question states in another form: the duration of a range of times, a single
//! person, and further items of a list.

use std::sync::LazyLock;

use haft_core::{Schema, schema::Property};
use jiff::civil::Time;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::numbers::unit_of;
use super::{KnownWords, enumeration, has_word_of, is_valid, pattern, to_json};
use crate::few_shot::grounding::is_number_of_persons;
use crate::few_shot::values::{TextValues, Unit, parse_time};

/// Words in the names of parameters for a duration.
const DURATION_WORDS: [&str; 2] = ["duration", "length"];
/// Texts for a single person.
const SINGLE_PERSON: [&str; 9] = [
    "alone",
    "by myself",
    "for me only",
    "for myself",
    "just for me",
    "just me",
    "on my own",
    "only for me",
    "only me",
];
/// The minimum length of the value of an enumeration that is compared with the need.
const MIN_ITEM_LENGTH: usize = 3;

/// Sets the duration of an event to the time from its beginning to its end: 120 for
/// `duration_minutes` and "from 14:00 to 16:00". `values` are the values in `need`. A duration that
/// `need` states is kept.
pub(super) fn set_duration_of_range(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    need: &str,
    values: &TextValues,
) {
    static RANGE: LazyLock<Regex> = LazyLock::new(|| {
        let time = r"\d{1,2}(?::\d\d)? ?(?:am|pm|a\.m\.|p\.m\.)?";
        pattern(&format!(
            r"\b(?:from|between) {time} ?(?:to|until|till|and|-|–) ?{time}|{time} ?[-–] ?\d{{1,2}}(?::\d\d| ?am| ?pm)"
        ))
    });
    let [one, other] = values.times[..] else { return };
    let (start, end) = (one.min(other), one.max(other));
    let Ok(seconds) = (end - start).total(jiff::Unit::Second) else { return };
    if !RANGE.is_match(&need.to_lowercase()) {
        return;
    }
    let has_time = |time: Time| {
        arguments.values().filter_map(Value::as_str).any(|text| {
            let clock = text.rsplit_once('T').map_or(text, |(_, clock)| clock);
            parse_time(clock) == Some(time)
        })
    };
    if !has_time(start) || has_time(end) {
        return;
    }
    for property in schema.properties().filter(|property| has_word_of(property.name, &DURATION_WORDS)) {
        let Some(unit) = unit_of(&property).filter(|unit| unit.dimension == Unit::SECOND.dimension) else {
            continue;
        };
        let in_unit: Vec<_> =
            values.quantities.iter().filter_map(|quantity| quantity.in_unit(unit)).collect();
        let is_stated = |number: f64| in_unit.contains(&number);
        let value = to_json(seconds / unit.factor);
        let given = arguments.get(property.name).and_then(Value::as_f64);
        if !given.is_some_and(is_stated) && is_valid(schema, arguments, property.name, &value) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Sets the number of persons to 1, if `question` is about a single person: "just me". A number
/// that `question` states is kept.
pub(super) fn set_single_person(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    question: &str,
    values: &TextValues,
) {
    let words = KnownWords::new(question);
    if !SINGLE_PERSON.iter().any(|text| words.has_words(text)) || words.has_negation() {
        return;
    }
    let is_single = |property: &Property<'_>| {
        is_number_of_persons(property.name)
            && !has_word_of(
                property.name,
                &["children", "infants", "kids", "max", "maximum", "min", "minimum"],
            )
    };
    for property in schema.properties().filter(is_single) {
        let is_stated = |number: f64| values.quantities.iter().any(|quantity| quantity.number == number);
        let given = arguments.get(property.name).or_else(|| property.schema.get("default"));
        let is_wrong =
            given.and_then(Value::as_f64).is_some_and(|number| number != 1.0 && !is_stated(number));
        let one = json!(1);
        if is_wrong && is_valid(schema, arguments, property.name, &one) {
            arguments.insert(property.name.to_owned(), one);
        }
    }
}

/// Adds the items that the model omitted from a list of values of an enumeration: `vegan` for
/// "vegan and gluten-free food" and `gluten_free`. `need` must have all words of the items in the
/// list and of those that are added.
pub(super) fn add_named_items(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    let words = KnownWords::new(need);
    if words.has_negation() {
        return;
    }
    let position = |text: &str| {
        let spaced = text.to_lowercase().replace(['_', '-'], " ");
        let is_named = text.len() >= MIN_ITEM_LENGTH && words.has_words(&spaced);
        let first = spaced.split(' ').next().unwrap_or_default().to_owned();
        is_named.then(|| need.to_lowercase().find(&first)).flatten()
    };
    for property in schema.properties() {
        let Some(items) = arguments.get(property.name).and_then(Value::as_array) else { continue };
        let given: Vec<_> = items.iter().filter_map(Value::as_str).collect();
        let Some(schema_of_items) = property.schema.get("items") else { continue };
        let names = enumeration(schema.as_value(), schema_of_items);
        let names: Vec<_> = names.into_iter().filter_map(Value::as_str).collect();
        let mut named: Vec<_> = names.iter().filter_map(|name| Some((position(name)?, *name))).collect();
        let are_all_named = given.iter().all(|item| named.iter().any(|(_, name)| name == item));
        if given.is_empty() || given.len() < items.len() || !are_all_named || named.len() == given.len() {
            continue;
        }
        // `red` is a part of `dark_red`, and the value of another parameter is no item.
        let is_part = |name: &str| named.iter().any(|(_, other)| *other != name && other.contains(name));
        let is_used = |name: &str| {
            let mut others = arguments.iter().filter(|(other, _)| *other != property.name);
            others.any(|(_, value)| value.to_string().to_lowercase().contains(&name.to_lowercase()))
        };
        let is_added = |name: &str| given.contains(&name) || !is_part(name) && !is_used(name);
        named = named.clone().into_iter().filter(|(_, name)| is_added(name)).collect();
        named.sort_unstable();
        let items = json!(named.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
        if is_valid(schema, arguments, property.name, &items) {
            arguments.insert(property.name.to_owned(), items);
        }
    }
}

#[cfg(test)]
mod tests;
