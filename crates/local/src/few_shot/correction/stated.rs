//! Arguments that the question states in another form: the duration of a range of times, a single
//! person, and further items of a list.

use haft_core::{Schema, schema::Property};
use jiff::civil::Time;
use serde_json::{Map, Value, json};

use super::numbers::{is_beside_event, unit_of};
use super::{KnownWords, enumeration, has_word_of, is_valid, to_json};
use crate::few_shot::grounding::is_number_of_persons;
use crate::few_shot::question::SEPARATORS;
use crate::few_shot::values::{TextValues, Unit, parse_time};

/// Words in the names of parameters for a duration.
const DURATION_WORDS: [&str; 2] = ["duration", "length"];
/// Words in the names of parameters for other persons than the user.
const OTHER_PERSONS: [&str; 10] =
    ["additional", "child", "children", "extra", "infant", "infants", "kids", "max", "maximum", "min"];
/// Values for a whole list or for no item.
const WHOLE_LISTS: [&str; 5] = ["all", "any", "both", "none", "other"];
/// The minimum length of the value of an enumeration that is compared with the need.
const MIN_ITEM_LENGTH: usize = 3;

/// Sets the duration of an event to the time from its beginning to its end: 120 for
/// `duration_minutes` and "from 14:00 to 16:00". `values` are the values in the need. A duration
/// that the need states is kept.
pub(super) fn set_duration_of_range(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    values: &TextValues,
) {
    let Some((start, end)) = values.time_range else { return };
    let Ok(seconds) = (end - start).total(jiff::Unit::Second) else { return };
    let has_time = |time: Time| {
        arguments.values().filter_map(Value::as_str).any(|text| {
            let clock = text.rsplit_once('T').map_or(text, |(_, clock)| clock);
            parse_time(clock) == Some(time)
        })
    };
    if !has_time(start) || has_time(end) {
        return;
    }
    let is_duration = |property: &Property<'_>| {
        has_word_of(property.name, &DURATION_WORDS) && !is_beside_event(property.name)
    };
    for property in schema.properties().filter(is_duration) {
        // The times of a clip are in minutes and seconds, not in hours.
        let is_long =
            |unit: &Unit| unit.dimension == Unit::MINUTE.dimension && unit.factor >= Unit::MINUTE.factor;
        let Some(unit) = unit_of(&property).filter(is_long) else { continue };
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
    if !words.is_for_user_only() || words.has_negation() {
        return;
    }
    let is_single = |property: &Property<'_>| {
        is_number_of_persons(property.name) && !has_word_of(property.name, &OTHER_PERSONS)
    };
    for property in schema.properties().filter(is_single) {
        let is_stated = |number: f64| values.quantities.iter().any(|quantity| quantity.number == number);
        let given = arguments.get(property.name).or_else(|| property.schema.get("default"));
        let is_wrong =
            given.and_then(Value::as_f64).is_some_and(|number| number >= 2.0 && !is_stated(number));
        let one = json!(1);
        if is_wrong && is_valid(schema, arguments, property.name, &one) {
            arguments.insert(property.name.to_owned(), one);
        }
    }
}

/// Adds the items that the model omitted from a list of values of an enumeration: `vegan` for
/// "vegan and gluten-free food" and `gluten_free`. Only commas and conjunctions are between them in
/// `need`.
pub(super) fn add_named_items(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    if KnownWords::new(need).has_negation() {
        return;
    }
    let need = spaced(need);
    for property in schema.properties() {
        let Some(items) = arguments.get(property.name).and_then(Value::as_array) else { continue };
        let given: Vec<_> = items.iter().filter_map(Value::as_str).collect();
        let Some(schema_of_items) = property.schema.get("items") else { continue };
        let names = enumeration(schema.as_value(), schema_of_items);
        let names: Vec<_> = names.into_iter().filter_map(Value::as_str).collect();
        let mut named: Vec<_> =
            names.iter().filter_map(|name| Some((place_of(name, &need)?, *name))).collect();
        named.sort_unstable();
        let are_all_named = given.iter().all(|item| named.iter().any(|(_, name)| name == item));
        // "Every Monday, starting on Tuesday" has the first day of a series, too.
        let are_weekdays = names.iter().any(|name| name.eq_ignore_ascii_case("monday"));
        if are_weekdays || given.is_empty() || given.len() < items.len() || !are_all_named {
            continue;
        }
        let listed = list_with(&named, &given, &need);
        let items = json!(listed);
        if listed.len() > given.len() && is_valid(schema, arguments, property.name, &items) {
            arguments.insert(property.name.to_owned(), items);
        }
    }
}

/// Returns the lower-case `text` with spaces instead of underscores and hyphens.
fn spaced(text: &str) -> String {
    text.to_lowercase().replace(['_', '-'], " ")
}

/// Returns the start and the end of the words of `name` in `need`. Returns `None` if `need` does
/// not have them exactly once.
fn place_of(name: &str, need: &str) -> Option<(usize, usize)> {
    let name = spaced(name);
    let mut places = need.match_indices(&name).map(|(at, found)| (at, at + found.len()));
    let (Some((start, end)), None) = (places.next(), places.next()) else { return None };
    let is_word = |before: &str, after: &str| {
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    };
    let is_whole = is_word(need.get(..start)?, need.get(end..)?);
    (is_whole && name.len() >= MIN_ITEM_LENGTH && !WHOLE_LISTS.contains(&name.as_str()))
        .then_some((start, end))
}

/// Returns the values of `named`, sorted by their places in `need`, that are in `given` or in the
/// same list as one of them.
fn list_with<'n>(named: &[((usize, usize), &'n str)], given: &[&str], need: &str) -> Vec<&'n str> {
    let mut listed = Vec::new();
    let mut run: Vec<&'n str> = Vec::new();
    let mut end = None;
    for ((start, next_end), name) in named {
        let gap = end.and_then(|end| need.get(end..*start));
        if !gap.is_some_and(is_list_gap) {
            add_run(&mut listed, &mut run, given);
        }
        run.push(*name);
        end = Some(*next_end);
    }
    add_run(&mut listed, &mut run, given);
    listed
}

/// Returns `true` if `gap` may be between two items of a list.
fn is_list_gap(gap: &str) -> bool {
    let gap = gap.strip_prefix(',').unwrap_or(gap);
    gap == " " || SEPARATORS.contains(&gap)
}

/// Moves `run`, the items of a list, to `listed`, if one of them is in `given`.
fn add_run<'n>(listed: &mut Vec<&'n str>, run: &mut Vec<&'n str>, given: &[&str]) {
    if run.iter().any(|name| given.contains(name)) {
        listed.append(run);
    }
    run.clear();
}

#[cfg(test)]
mod tests;
