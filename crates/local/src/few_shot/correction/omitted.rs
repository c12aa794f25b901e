//! Arguments that a small model omits.

use std::sync::LazyLock;

use haft_core::{Schema, schema::Property};
use regex::Regex;
use serde_json::{Map, Value, json};

use super::numbers::{self, Bound, CURRENCIES};
use super::{description, has_word_of, is_valid, pattern, spaced_words, to_json};
use crate::few_shot::question::PUNCTUATION;
use crate::few_shot::values::{TextValues, Unit, normalize};

/// Words in the names of parameters for a minimum or a maximum.
const LIMITS: [&str; 4] = ["max", "maximum", "min", "minimum"];
/// The beginnings of a date in words, besides digits.
const DATE_BEGINNINGS: [&str; 19] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mon", "tue", "wed",
    "thu", "fri", "sat", "sun",
];
/// The maximum length of a date in words, in bytes.
const MAX_DATE_BYTES: usize = 32;
/// Words for periods and measures, of which there is no list.
const NO_ITEMS: [&str; 11] = [
    "chapter", "decade", "month", "page", "percent", "quarter", "season", "semester", "sprint", "weekend",
    "year",
];
/// Words in the names and descriptions of parameters for an amount of money.
const MONEY_WORDS: [&str; 13] = [
    "amount", "budget", "cost", "dollars", "eur", "euros", "fare", "fee", "pay", "price", "rent", "salary",
    "usd",
];
/// Words in the names of parameters for a number of results.
const LIMIT_WORDS: [&str; 4] = ["count", "limit", "num", "results"];
/// The first words in the names of parameters for a number of results of a kind, such as
/// `max_keywords`.
const ITEM_LIMITS: [&str; 5] = ["max", "maximum", "n", "num", "top"];

/// Names of parameters for a part of the results.
const RESULT_CONTROLS: [&str; 6] = ["count", "limit", "offset", "page", "size", "top"];
/// Words before the name of a parameter.
const LEADING_WORDS: [&str; 15] =
    ["a", "an", "and", "at", "by", "for", "from", "in", "is", "on", "or", "the", "to", "using", "with"];

/// Adds the arguments in `need` that the model omitted. `values` are the values in `need`.
pub(super) fn add_omitted(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    need: &str,
    values: &TextValues,
) {
    add_omitted_duration(schema, arguments, need, values);
    add_omitted_limit(schema, arguments, need);
    add_omitted_bound(schema, arguments, need);
    add_omitted_number(schema, arguments, values);
    add_named_number(schema, arguments, need);
    add_omitted_date(schema, arguments, need);
}

/// Adds the duration or the distance in the need that the model omitted: the only quantity with a
/// unit, for an optional parameter such as `radius_m` or `duration_minutes`.
fn add_omitted_duration(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    need: &str,
    values: &TextValues,
) {
    for property in schema.properties().filter(|property| !property.is_required) {
        if arguments.contains_key(property.name) {
            continue;
        }
        let value = numbers::omitted_quantity(&property, arguments, need, values).map(to_json);
        if let Some(value) = value.filter(|value| is_valid(schema, arguments, property.name, value)) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Adds the number in `need` that the model omitted: 10 for the optional parameter `limit` and "the
/// last 10 transactions", 3 for `max_keywords` and "the top three keywords".
fn add_omitted_limit(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    // The normalized text has `1st` for `first`.
    static LIMIT: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"\b(?:1st|last|latest|next|top|newest) (\d{1,4}) ([a-z]+)(?: ([a-z]+))?"));
    let need = normalize(need);
    let Some(captures) = LIMIT.captures(&need) else { return };
    let word = captures.get(2).map(|word| word.as_str()).unwrap_or_default();
    let label = word.trim_end_matches('s');
    let next = captures.get(3).and_then(|next| Unit::from_name(next.as_str()));
    // The last 3 months and the next 5 business days are periods.
    if Unit::from_name(word).is_some() || next.is_some() || NO_ITEMS.contains(&label) {
        return;
    }
    let number = captures.get(1).and_then(|number| number.as_str().parse::<i64>().ok());
    // "The latest ones" have the number 1 in the normalized text.
    let Some(number) = number.filter(|number| *number > 1) else { return };
    let is_used = arguments.values().any(|value| *value == json!(number));
    let is_of_items = |name: &str| {
        let first = name.split(' ').next().is_some_and(|first| ITEM_LIMITS.contains(&first));
        first && name.split(' ').any(|word| word.trim_end_matches('s') == label)
    };
    let is_limit = |name: &str| {
        name.split(' ').any(|word| LIMIT_WORDS.contains(&word)) || name == "top n" || name == "top k"
    };
    let find = |is_named: &dyn Fn(&str) -> bool| {
        let mut optional = schema.properties().filter(|property| !property.is_required);
        optional.find(|property| {
            is_named(&spaced_words(property.name))
                && !arguments.contains_key(property.name)
                && is_valid(schema, arguments, property.name, &json!(number))
        })
    };
    let limit = find(&is_of_items).or_else(|| find(&is_limit));
    if let Some(limit) = limit.filter(|_| !is_used) {
        arguments.insert(limit.name.to_owned(), json!(number));
    }
}

/// Adds the minimum or the maximum in `need` that the model omitted: 80 for the optional parameter
/// `max_price` and "under 80 dollars". An amount of money needs a parameter for money. For another
/// number, the name of the parameter must have the word after the number, or its description must
/// have `number of` and this word.
fn add_omitted_bound(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    let need = need.to_lowercase();
    for Bound { number, is_maximum, is_money, label, is_large } in numbers::bounds(&need) {
        let value = to_json(number);
        let limits = if is_maximum { ["max", "maximum"] } else { ["min", "minimum"] };
        let is_label = |word: &str| word.trim_end_matches('s') == label.trim_end_matches('s');
        let is_bound = |property: &Property<'_>| {
            let name = spaced_words(property.name);
            let description = description(property).to_lowercase();
            let has_word = |word: &str| name.split(' ').any(|part| part == word);
            let text = format!("{name} {description}");
            let mut words = text.split(|letter: char| !letter.is_alphanumeric());
            let has_money = words.any(|word| MONEY_WORDS.contains(&word));
            let mut counted = description.split("number of ").skip(1);
            let has_label = name.split(' ').any(is_label)
                || counted.any(|rest| rest.split(' ').next().is_some_and(is_label));
            !property.is_required
                && !arguments.contains_key(property.name)
                && limits.into_iter().any(has_word)
                && (has_money == is_money || has_money && is_large)
                && (is_money || is_large && has_money || !label.is_empty() && !has_word("per") && has_label)
                && is_valid(schema, arguments, property.name, &value)
        };
        let mut properties = schema.properties().filter(is_bound);
        let (Some(property), None) = (properties.next(), properties.next()) else { continue };
        if !has_number(arguments, &value) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Adds the number in `need` that the model omitted: 9 for the optional parameter `voltage` with
/// the description "Voltage in volts", and "a 9 volt battery".
fn add_omitted_number(schema: &Schema, arguments: &mut Map<String, Value>, need: &TextValues) {
    for property in schema.properties().filter(|property| !property.is_required) {
        let kind = property.schema.get("type").and_then(Value::as_str);
        let is_number = matches!(kind, Some("integer" | "number"));
        let is_limit = has_word_of(property.name, &LIMITS);
        if !is_number || is_limit || arguments.contains_key(property.name) || need.has_unclear_numbers {
            continue;
        }
        let description = description(&property).to_lowercase();
        let is_unit = |label: &str| {
            let unit = description.split_once(" in ").map_or("", |(_, unit)| unit);
            let unit = unit.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
            // A quantity with a known unit may have to be converted.
            unit.trim_end_matches('s') == label && Unit::from_name(label).is_none()
        };
        let is_whole = |number: f64| need.quantities.iter().any(|quantity| quantity.number == number);
        let mut labelled =
            need.labelled_numbers.iter().filter(|(number, label)| is_unit(label) && is_whole(*number));
        let (Some((number, _)), None) = (labelled.next(), labelled.next()) else { continue };
        let value = to_json(*number);
        if !has_number(arguments, &value) && is_valid(schema, arguments, property.name, &value) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Adds the number in `need` that the model omitted, directly before or after the whole name of an
/// optional parameter: 24 for `depth` and "to depth 24", 1000 for `deductible` and "a 1000 dollar
/// deductible". The beginning of its description is another name of it: 0.01 for `alpha`,
/// "Significance level as a fraction", and "at the 1% significance level".
fn add_named_number(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    let need = normalize(need);
    for property in schema.properties().filter(|property| !property.is_required) {
        let kind = property.schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("integer" | "number")) || arguments.contains_key(property.name) {
            continue;
        }
        let names = std::iter::once(spaced_words(property.name)).chain(described_name(&property));
        let mut numbers: Vec<_> = names.flat_map(|name| numbers_at(&need, &name, &property)).collect();
        numbers.dedup();
        let [number] = numbers[..] else { continue };
        let value = to_json(number);
        if !has_number(arguments, &value) && is_valid(schema, arguments, property.name, &value) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Returns the numbers in `need`, which is normalized, directly before or after `name`, a name of
/// `property`.
fn numbers_at(need: &str, name: &str, property: &Property<'_>) -> Vec<f64> {
    let numbers = need.match_indices(name).filter_map(|(at, _)| {
        let (before, after) = (need.get(..at)?, need.get(at + name.len()..)?);
        // The name of a unit of time is usually part of a date or a duration.
        let is_plain = !before.ends_with(char::is_alphanumeric) && Unit::from_name(name).is_none();
        // "A speed limit of 30" is not the parameter `limit`.
        let word = before.trim_end().rsplit(' ').next().unwrap_or_default();
        let begins_phrase = word.is_empty()
            || word.ends_with(PUNCTUATION)
            || word.ends_with('(')
            || LEADING_WORDS.contains(&word);
        // "A book with 200 pages" is not the parameter `page`.
        let is_control = RESULT_CONTROLS.contains(&name);
        let number = number_after(after).filter(|_| begins_phrase);
        let number = number.or_else(|| number_before(before, after).filter(|_| !is_control));
        let number = number.map(|number| number as f64).or_else(|| percentage_before(before, property));
        number.filter(|_| is_plain)
    });
    numbers.collect()
}

/// Returns the name at the beginning of the description of `property`, in lower case, if it has
/// several words: `significance level` for "Significance level as a fraction".
fn described_name(property: &Property<'_>) -> Option<String> {
    const ENDS: [&str; 6] = [" as ", " for ", " in ", " of ", " per ", " to "];
    let description = description(property).to_lowercase();
    let name = description.split(|letter: char| !letter.is_alphabetic() && letter != ' ').next()?;
    let name = ENDS.iter().fold(name, |name, end| name.split(end).next().unwrap_or(name)).trim();
    name.contains(' ').then(|| name.to_owned())
}

/// Returns the percentage at the end of `before`, the text before a name, as a number for
/// `property`. Returns `None` if `property` is neither a fraction nor in percent.
fn percentage_before(before: &str, property: &Property<'_>) -> Option<f64> {
    let before = before.trim_end();
    let before = before.strip_suffix('%').or_else(|| before.strip_suffix(" percent"))?.trim_end();
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
    let number = before.get(before.trim_end_matches(is_digit).len()..)?.parse::<f64>().ok()?;
    match (numbers::is_percentage(property), numbers::is_part_of_one(property)) {
        (true, _) => Some(number),
        (false, true) => Some(number / 100.0),
        (false, false) => None,
    }
}

/// Returns the number at the beginning of `after`, the text after a name. `24%`, `24.5`, `24-30`,
/// `24 to 30`, `24th` and `24 cm` are not plain numbers.
fn number_after(after: &str) -> Option<i64> {
    let after = after.strip_prefix(" of").or_else(|| after.strip_prefix(':')).unwrap_or(after);
    let after = after.strip_prefix(' ')?;
    let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
    let (number, rest) = after.split_at_checked(end)?;
    let rest = rest.strip_prefix([',', '.', ';', ':', '?', '!', ')']).unwrap_or(rest);
    let word = rest.trim_start().split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
    let next = rest.trim_start().get(word.len()..).unwrap_or_default().trim_start();
    let is_range =
        ["and", "or", "to"].contains(&word) && next.starts_with(|letter: char| letter.is_ascii_digit());
    let is_plain = (rest.is_empty() || rest.starts_with(' ')) && Unit::from_name(word).is_none() && !is_range;
    number.parse().ok().filter(|_| is_plain)
}

/// Returns the number at the end of `before`, the text before a name. A currency may separate them.
/// `after` is the text after the name, which may begin with a plural `s`.
fn number_before(before: &str, after: &str) -> Option<i64> {
    let after = after.strip_prefix('s').unwrap_or(after);
    let before = before.strip_suffix([' ', '-'])?;
    let currency =
        CURRENCIES.iter().find_map(|currency| before.strip_suffix(currency)?.strip_suffix([' ', '-']));
    let before = currency.unwrap_or(before);
    let rest = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = before.get(rest.len()..)?;
    let is_plain = rest.is_empty() || rest.ends_with([' ', '$', '€', '£']);
    number.parse().ok().filter(|_| is_plain && !after.starts_with(char::is_alphanumeric))
}

/// Adds the date in `need` that the model omitted: the date after the word `since` for the optional
/// parameter `since`. The date must have a year.
fn add_omitted_date(schema: &Schema, arguments: &mut Map<String, Value>, need: &str) {
    const WORDS: [&str; 4] = ["after", "before", "since", "until"];
    let need = need.to_lowercase();
    for property in schema.properties().filter(|property| !property.is_required) {
        let is_date = property.schema.get("format").is_some_and(|format| format == "date")
            || description(&property).to_lowercase().contains("yyyy-mm-dd");
        let name = spaced_words(property.name);
        let word = WORDS.iter().find(|word| name.split(' ').any(|part| part == **word));
        let Some(word) = word.filter(|_| is_date && !arguments.contains_key(property.name)) else { continue };
        let Some((_, rest)) = need.split_once(&format!(" {word} ")) else { continue };
        let begins_with_date = rest.starts_with(|letter: char| letter.is_ascii_digit())
            || DATE_BEGINNINGS.iter().any(|beginning| rest.starts_with(beginning));
        if !begins_with_date {
            continue;
        }
        let [date] = TextValues::new(first_words(rest), None).dates[..] else { continue };
        let value = json!(date.first.to_string());
        let is_used = arguments.values().any(|used| *used == value);
        if date.first == date.last && !is_used && is_valid(schema, arguments, property.name, &value) {
            arguments.insert(property.name.to_owned(), value);
        }
    }
}

/// Returns `true` if the text of one of `arguments` contains `number`.
fn has_number(arguments: &Map<String, Value>, number: &Value) -> bool {
    let digits = number.to_string();
    arguments.values().any(|value| value.to_string().contains(&digits))
}

/// Returns the words in the first [`MAX_DATE_BYTES`] of `text`, without a truncated word.
fn first_words(text: &str) -> &str {
    let head = text.get(..text.floor_char_boundary(MAX_DATE_BYTES)).unwrap_or_default();
    if head.len() == text.len() { head } else { head.rsplit_once(' ').map_or("", |(words, _)| words) }
}

#[cfg(test)]
mod tests;
