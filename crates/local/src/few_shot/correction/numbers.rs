//! Correction of numbers: units, percentages and signs.

use std::sync::LazyLock;

use haft_core::{Schema, schema::Property};
use jiff::civil::Date;
use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::{Sources, description};
use crate::few_shot::grounding::{KnownWords, has_word_of, is_coordinate, spaced_words};
use crate::few_shot::values::{Quantity, TextValues, Unit, normalize, pattern};

/// Names of parameters from 0 to 100.
const PERCENTAGES: [&str; 8] =
    ["brightness", "level", "opacity", "percent", "percentage", "position", "share", "volume"];
/// Texts in the descriptions of parts of one.
const PARTS_OF_ONE: [&str; 6] = ["0 and 1", "0 to 1", "0-1", "0.", "decimal", "fraction"];
/// Names of parameters for a duration, a distance, a power or a frequency.
const EXTENTS: [&str; 11] = [
    "distance",
    "duration",
    "frequency",
    "hertz",
    "hours",
    "minutes",
    "power",
    "radius",
    "seconds",
    "wattage",
    "watts",
];
/// The beginnings of words in the names of durations that are not the duration of an event.
const SIDE_EVENTS: [&str; 8] = ["alert", "before", "break", "buffer", "lead", "notif", "remind", "snooze"];
/// Other words of a request for a reminder.
const REMINDER_WORDS: [&str; 5] = ["advance", "ahead", "early", "heads", "ping"];
/// Directions that are opposite to some of [`DIRECTIONS`].
const OPPOSITES: [&str; 10] =
    ["brighten", "brighter", "faster", "forward", "forwards", "higher", "increase", "raise", "right", "up"];
/// Directions in the descriptions of negative numbers.
const DIRECTIONS: [&str; 10] =
    ["backward", "backwards", "darken", "darker", "decrease", "down", "left", "lower", "reduce", "slower"];

/// Words in the descriptions of a number of times per year.
const FREQUENCY_WORDS: [&str; 4] = ["compound", "frequency", "period", "times"];
/// Words in the names of parameters for the unit of a result or of a conversion.
const RESULT_UNIT_WORDS: [&str; 6] = ["from", "output", "result", "source", "target", "to"];
/// The minimum number of letters of a word that two clauses have in common.
const MIN_COMMON_LETTERS: usize = 4;
/// The maximum ratio between the unit of an omitted quantity and the unit of its parameter.
const MAX_UNIT_RATIO: f64 = 60.0;

/// Returns the number that `property` should have instead of `number`. `arguments` are the
/// arguments of the call. `texts` are the need and the question. Returns `None` if `number` may be
/// right.
pub(super) fn candidate(
    property: &Property<'_>,
    number: f64,
    arguments: &Map<String, Value>,
    texts: [&str; 2],
    sources: &Sources<'_>,
) -> Option<f64> {
    let others: Vec<_> = arguments
        .iter()
        .filter(|(name, _)| *name != property.name)
        .filter_map(|(_, value)| value.as_f64())
        .collect();
    let is_of_event = !is_of_other_event(property, &texts.join(" "));
    let converted = converted(property, number, &others, sources).filter(|_| is_of_event);
    converted
        .or_else(|| percentage(property, number, sources))
        .or_else(|| fraction(property, number, &others, sources))
        .or_else(|| negated(property, number, texts, sources))
        .or_else(|| frequency(property, number, sources))
        .or_else(|| labelled(property, number, sources.need))
        .or_else(|| multiple(property, number, sources.need))
}

/// Returns the only number of `need` that is a thousand or a million times `number`, if neither it
/// nor `property` has a unit, and if `need` does not have `number`: 2,500 for "two and a half
/// thousand" and 2.5.
fn multiple(property: &Property<'_>, number: f64, need: &TextValues) -> Option<f64> {
    let is_same = |known: &Quantity| {
        is_equal(known.number, number) || known.is_share && is_equal(known.number * 100.0, number)
    };
    // One laptop for 1000 dollars is not 1000 laptops.
    let is_whole = number.fract() == 0.0;
    if is_whole || unit_of(property).is_some() || need.quantities.iter().any(is_same) {
        return None;
    }
    let is_multiple = |quantity: &&Quantity| {
        quantity.unit.is_none() && [1e3, 1e6].iter().any(|factor| is_equal(quantity.number, number * factor))
    };
    let mut multiples = need.quantities.iter().filter(is_multiple);
    multiples.next().filter(|_| multiples.next().is_none()).map(|quantity| quantity.number)
}

/// Returns the only number of `need` before a word of the name of `property`, if `need` does not
/// have `number`: 6 for `servings` and "scale it to 6 servings".
fn labelled(property: &Property<'_>, number: f64, need: &TextValues) -> Option<f64> {
    let name = spaced_words(property.name);
    // A unit may be converted, and `liters_per_km` is a ratio.
    let is_ratio = name.split(' ').any(|word| word == "per");
    let is_label = |label: &str| {
        Unit::from_name(label).is_none() && name.split(' ').any(|word| word.trim_end_matches('s') == label)
    };
    let is_known = need.quantities.iter().any(|quantity| is_equal(quantity.number, number));
    let mut numbers = need.labelled_numbers.iter().filter(|(_, label)| is_label(label));
    let (Some((only, _)), None) = (numbers.next(), numbers.next()) else { return None };
    (!is_known && !is_ratio && !need.has_unclear_numbers && !need.has_change).then_some(*only)
}

/// Returns the number of times per year in the text, if `property` is such a number and the text
/// does not have `number`: 12 for `compounds_per_year` and "compounded monthly".
fn frequency(property: &Property<'_>, number: f64, sources: &Sources<'_>) -> Option<f64> {
    let text = format!("{} {}", spaced_words(property.name), description(property)).to_lowercase();
    let source = sources.replacing().into_iter().find(|values| values.times_per_year.is_some())?;
    let is_frequency = text.contains("per year") && FREQUENCY_WORDS.iter().any(|word| text.contains(word));
    let expected = source.times_per_year.filter(|_| is_frequency)?;
    let is_known = source.quantities.iter().any(|quantity| is_equal(quantity.number, number));
    (!is_known && !is_equal(number, expected)).then_some(expected)
}

/// Returns the quantity in the unit of `property`, if `number` is the same quantity in another
/// unit: 168 for `height_cm` and "1.68 m". A number that is not in the text is replaced if the text
/// has a single number, or a fraction beside numbers of other units: 90 for `minutes` and "an hour
/// and a half".
fn converted(property: &Property<'_>, number: f64, others: &[f64], sources: &Sources<'_>) -> Option<f64> {
    let unit = unit_of(property)?;
    let in_unit = |values: &TextValues| -> Vec<f64> {
        values.quantities.iter().filter_map(|quantity| quantity.in_unit(unit)).collect()
    };
    let is_known = |values: &TextValues| in_unit(values).into_iter().any(|known| is_equal(known, number));
    if sources.all().into_iter().any(is_known) {
        return None;
    }
    let source = sources.replacing().into_iter().find(|values| !in_unit(values).is_empty())?;
    let is_raw = |quantity: &&Quantity| is_equal(quantity.number, number);
    if let Some(raw) = source.quantities.iter().find(is_raw) {
        return raw.in_unit(unit);
    }
    // Numbers in dates and times are ignored.
    let quantities = || source.quantities.iter().filter(|quantity| !is_part_of_moment(quantity, source));
    // A fraction of an hour, or an hour and five minutes, is seldom a part of a computation with a
    // distance.
    let is_of_other_kind =
        |quantity: &Quantity| quantity.unit.is_some_and(|own| own.dimension != unit.dimension);
    let is_final = |quantity: &Quantity| {
        (quantity.number.fract() != 0.0 || quantity.is_sum) && !is_of_other_kind(quantity)
    };
    // Several distances may be parts of a proportion.
    let is_proportion = quantities().filter(|quantity| is_of_other_kind(quantity)).count() > 1;
    let has_final = !is_proportion && quantities().any(is_final);
    let mut quantities = quantities().filter(|quantity| !has_final || !is_of_other_kind(quantity));
    let only = quantities.next().filter(|_| quantities.next().is_none())?;
    let expected = only.in_unit(unit)?;
    let is_used = others.iter().any(|other| is_equal(*other, expected) || is_equal(*other, only.number));
    (!is_used && !source.has_unclear_numbers && source.times.len() < 2).then_some(expected)
}

/// Returns `true` if `quantity` may be the day or the year of a date in `values`, or the hour or
/// the minute of a time.
fn is_part_of_moment(quantity: &Quantity, values: &TextValues) -> bool {
    let is_number = |number: i16| is_equal(quantity.number, f64::from(number));
    let is_of_date = |date: &Date| is_number(date.day().into()) || is_number(date.year());
    let mut dates = values.dates.iter().flat_map(|range| [range.first, range.last]);
    let mut times = values.times.iter();
    quantity.unit.is_none()
        && (dates.any(|date| is_of_date(&date))
            || times.any(|time| {
                let hour = i16::from(time.hour());
                is_number(hour) || is_number(hour % 12) || is_number(time.minute().into())
            }))
}

/// Returns the percentage in the text, if `number` is the same percentage as a part of one, or if
/// the text has no other number: 75 for `position` and "three quarters".
fn percentage(property: &Property<'_>, number: f64, sources: &Sources<'_>) -> Option<f64> {
    if !is_percentage(property) || is_part_of_one(property) || number == 0.0 || number == 100.0 {
        return None;
    }
    // `brightness` is from 0 to 100, unless the schema limits it to 1.
    let maximum = property.schema.get("maximum").and_then(Value::as_f64);
    let scale = if maximum.is_some_and(|maximum| maximum <= 1.0) { 1.0 } else { 100.0 };
    let source =
        sources.replacing().into_iter().find(|values| values.quantities.iter().any(|it| it.is_share))?;
    let same = source.quantities.iter().find(|it| it.is_share && is_equal(it.number, number));
    let ((Some(only), _) | (None, [only])) = (same, source.quantities.as_slice()) else { return None };
    let expected = (only.number * scale * 1e6).round() / 1e6;
    let is_other_scale = is_equal(number, only.number) || is_equal(number, only.number * 100.0);
    let may_be_computed = source.has_change && !is_other_scale;
    (!is_equal(number, expected) && !may_be_computed).then_some(expected)
}

/// Returns the only percentage in the text as a fraction, if the default of `property` and the
/// percentage are below one half, and if the text does not have `number`: 0.01 for `alpha` and "at
/// the 1 percent level". Returns `None` if one of `others`, the other arguments, has the
/// percentage.
fn fraction(property: &Property<'_>, number: f64, others: &[f64], sources: &Sources<'_>) -> Option<f64> {
    let is_small = |number: f64| 0.0 < number && number < 0.5;
    let has_small_default = property.schema.get("default").and_then(Value::as_f64).is_some_and(is_small);
    let is_known = |quantity: &Quantity| is_equal(quantity.number, number);
    let source =
        sources.replacing().into_iter().find(|values| values.quantities.iter().any(|it| it.is_share))?;
    let mut shares = source.quantities.iter().filter(|quantity| quantity.is_share);
    let only = shares.next().filter(|_| shares.next().is_none())?.number;
    let is_used = others.iter().any(|other| is_equal(*other, only) || is_equal(*other, only * 100.0));
    let may_be_right = is_used || source.has_change || source.quantities.iter().any(is_known);
    (has_small_default && is_small(only) && !may_be_right).then_some(only)
}

/// Returns the negative number, if `property` is a coordinate or a temperature, and the text has
/// only the negative number: -4.42 for "4.42 west". Also returns it if the text has a meaning that
/// the description of `property` gives to negative numbers: the past and "6 weeks before", or a
/// direction and "3 semitones down".
fn negated(property: &Property<'_>, number: f64, texts: [&str; 2], sources: &Sources<'_>) -> Option<f64> {
    static COUNTS_BACK: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"negative\b[^.;]*\b(?:subtract|past|before|back|earlier)"));
    let description = description(property).to_lowercase();
    let may_count_back = COUNTS_BACK.is_match(&description) && !description.contains("non-negative");
    let has = |values: &TextValues| values.quantities.iter().any(|it| is_equal(it.number, number));
    let mut written = sources.replacing().into_iter().zip(texts).filter(|(values, _)| has(values));
    let has_direction =
        written.next().is_some_and(|(_, text)| has_negative_direction(&description, number, text));
    let counts_back = may_count_back && sources.need.goes_back && has(sources.need);
    if number > 0.0 && (counts_back || has_direction) {
        return Some(-number);
    }
    let name = spaced_words(property.name);
    let is_signed = is_coordinate(property.name) || name.contains("temp");
    let all = || sources.replacing().into_iter().flat_map(|values| &values.quantities);
    let is_negative = all().any(|quantity| is_equal(-quantity.number, number));
    let is_positive = all().any(|quantity| is_equal(quantity.number, number));
    (is_signed && number > 0.0 && is_negative && !is_positive).then_some(-number)
}

/// Returns `true` if `text` has one of [`DIRECTIONS`] directly before or after `number`, if
/// negative numbers have this direction according to `description`, which is in lower case, and if
/// the text has none of [`OPPOSITES`]: `down` for "negative values transpose down".
fn has_negative_direction(description: &str, number: f64, text: &str) -> bool {
    static NEGATIVE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|[^-])\bnegative\b([^.;,]*)"));
    let Some(meaning) = NEGATIVE.captures(description).and_then(|captures| captures.get(1)) else {
        return false;
    };
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty())
    }
    let text = normalize(text);
    let number = number.to_string();
    let words_of_text: Vec<_> = words(&text).collect();
    let is_near = |direction: &str| {
        let before = words_of_text.windows(2).any(|pair| *pair == [direction, number.as_str()]);
        let after = words_of_text.windows(3).any(|part| part[0] == number && part[2] == direction);
        before || after || words_of_text.windows(3).any(|part| *part == [direction, "by", number.as_str()])
    };
    let has_opposite = words_of_text.iter().any(|word| OPPOSITES.contains(word));
    !has_opposite && words(meaning.as_str()).any(|word| DIRECTIONS.contains(&word) && is_near(word))
}

/// Returns the only quantity of `need` in the unit of `property`, which is a duration, a distance,
/// a power, a frequency or a period such as `posted_within_days`. `text` is the text of the need.
/// Returns `None` if an argument has the quantity.
pub(super) fn omitted_quantity(
    property: &Property<'_>,
    arguments: &Map<String, Value>,
    text: &str,
    need: &TextValues,
) -> Option<f64> {
    /// A period that ends now.
    static RECENT: LazyLock<Regex> = LazyLock::new(|| {
        let number = r"(?:\d+|a|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen|thirty)";
        pattern(&format!(r"(?i)\b(?:last|past|previous|within) (?:the )?(?:last |past )?{number} "))
    });
    if is_of_other_event(property, text) {
        return None;
    }
    let name = spaced_words(property.name);
    let kind = property.schema.get("type").and_then(Value::as_str);
    let is_period = name.split(' ').any(|word| word == "within");
    let is_extent = name.split(' ').any(|word| EXTENTS.contains(&word)) || is_period && RECENT.is_match(text);
    if !is_extent || !matches!(kind, Some("integer" | "number")) || need.has_unclear_numbers {
        return None;
    }
    let unit = unit_of(property)?;
    let mut quantities = need.quantities.iter().filter(|quantity| quantity.in_unit(unit).is_some());
    let (only, None) = (quantities.next()?, quantities.next()) else { return None };
    let number = only.in_unit(unit)?;
    // A number of days is seldom meant for a parameter in minutes.
    if !(1.0 / MAX_UNIT_RATIO..=MAX_UNIT_RATIO).contains(&(number / only.number)) {
        return None;
    }
    let mut used = arguments.values().filter_map(Value::as_f64);
    (!used.any(|used| is_equal(used, only.number) || is_equal(used, number))).then_some(number)
}

/// Returns `true` if the parameter `name` is the duration of something beside an event, such as
/// `reminder_minutes`.
pub(super) fn is_beside_event(name: &str) -> bool {
    spaced_words(name).split(' ').any(|word| SIDE_EVENTS.iter().any(|event| word.starts_with(event)))
}

/// Returns `true` if `property` is the duration of something [beside](is_beside_event) an event,
/// and if the English `text` does not mention it.
fn is_of_other_event(property: &Property<'_>, text: &str) -> bool {
    let text = text.to_lowercase();
    let is_mentioned = || SIDE_EVENTS.iter().chain(&REMINDER_WORDS).any(|word| text.contains(word));
    is_beside_event(property.name) && !is_mentioned() && KnownWords::new(&text).is_english()
}

/// Returns the unit in `names`, the enumeration of `property`, that follows the numbers in `need`:
/// `m` in "a radius of 4 m". Returns `None` if none of `arguments` is one of these numbers, if
/// `need` contains `unit`, the value of `property`, or if `property` is the unit of the result.
pub(super) fn stated_unit(
    property: &Property<'_>,
    unit: &str,
    names: &[&Value],
    arguments: &Map<String, Value>,
    need: &str,
    sources: &Sources<'_>,
) -> Option<Value> {
    let name = spaced_words(property.name);
    let is_result = name.split(' ').any(|word| RESULT_UNIT_WORDS.contains(&word));
    if is_result || !name.split(' ').any(|word| matches!(word, "unit" | "units")) {
        return None;
    }
    let own = Unit::from_name(&unit.to_lowercase())?;
    let need = need.to_lowercase();
    let words = need.split(|letter: char| !letter.is_alphabetic());
    if words.filter_map(Unit::from_name).any(|stated| stated == own) {
        return None;
    }
    // 30 minutes for "half an hour" are in another unit than the text.
    let is_argument = |quantity: &&Quantity| {
        arguments.values().filter_map(Value::as_f64).any(|number| is_equal(number, quantity.number))
    };
    let units = sources.need.quantities.iter().filter(is_argument).filter_map(|quantity| quantity.unit);
    let units: Vec<_> = units.filter(|stated| stated.dimension == own.dimension).collect();
    let first = units.first().filter(|first| units.iter().all(|unit| unit == *first))?;
    let is_stated =
        |name: &&&Value| name.as_str().and_then(|name| Unit::from_name(&name.to_lowercase())) == Some(*first);
    names.iter().find(is_stated).map(|name| (*name).clone())
}

/// Removes each optional number that `question` has only after the semicolon that follows `need`,
/// in a clause with a word of `need`: 40 in "kitchen light off; hall light at 40%". Other clauses
/// may have details of the call: "find a hotel in Rome; at most 150 euros".
pub(super) fn remove_number_of_later_part(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    need: &str,
    question: &str,
) {
    let Some((before, after)) = question.split_once(need) else { return };
    let Some((rest, later)) = after.split_once("; ") else { return };
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_alphabetic()).map(str::to_lowercase);
        words.filter(|word| word.chars().count() >= MIN_COMMON_LETTERS).collect()
    };
    let (own_words, clause) = (words(need), later.split("; ").next().unwrap_or_default());
    if !words(clause).iter().any(|word| own_words.contains(word)) {
        return;
    }
    let own = [before, need, rest].map(|text| TextValues::new(text, None));
    let later = TextValues::new(later, None);
    for property in schema.properties().filter(|property| !property.is_required) {
        let Some(number) = arguments.get(property.name).and_then(Value::as_f64) else { continue };
        let is_default = property.schema.get("default").and_then(Value::as_f64) == Some(number);
        let has = |values: &TextValues| {
            values
                .quantities
                .iter()
                .any(|it| is_equal(it.number, number) || it.is_share && is_equal(it.number * 100.0, number))
        };
        let is_own = own.iter().any(|values| has(values) || values.has_unclear_numbers);
        if has(&later) && !is_own && !is_default {
            arguments.remove(property.name);
        }
    }
}

/// A minimum or a maximum in a text: `at least 4 seats`, `under $80`.
pub(super) struct Bound<'t> {
    pub(super) number: f64,
    pub(super) is_maximum: bool,
    pub(super) is_money: bool,
    /// The word after the number. Empty if there is none.
    pub(super) label: &'t str,
    /// `true` if the number is in thousands with `k`, as salaries and prices are: `70k`.
    pub(super) is_large: bool,
}

/// Currencies after a number. Pounds may be a weight.
pub(super) const CURRENCIES: [&str; 8] =
    ["dollar", "dollars", "eur", "euro", "euros", "francs", "gbp", "usd"];

/// Returns the bounds in `text`, which is in lower case. A negated bound is omitted: "nothing over
/// 500". A number with an unclear form is omitted, too: `1.200`, `5m`.
pub(super) fn bounds(text: &str) -> Vec<Bound<'_>> {
    static BOUND: LazyLock<Regex> = LazyLock::new(|| {
        let maximum = "under|below|at most|less than|fewer than|cheaper than|up to|no more than|not more than|max|maximum|maximum of|max of";
        let minimum = "over|above|at least|more than|exceeding|no less than|not less than|min|minimum|minimum of|min of";
        let number = r"([$€£]?)(\d{1,3}(?:,\d{3})+|\d+(?:\.\d{1,2})?)([^\s]*)(?: ([a-z]+))?";
        pattern(&format!(r"\b(?:({maximum})|{minimum}) {number}"))
    });
    // The bound after the number: "30 minutes or less".
    static TRAILING: LazyLock<Regex> = LazyLock::new(|| {
        let maximum = "less|fewer|under|below|cheaper";
        pattern(&format!(r"([$€£]?)(\d+(?:\.\d{{1,2}})?) ?([a-z]*) or (?:({maximum})|more|over|above)\b"))
    });
    static NEGATION: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?:\b(?:cannot|never|no|not|nothing)|n't)\b[^.;,]*$"));
    let bound = |captures: Captures<'_>| {
        let start = captures.get(0)?.start();
        let group = |index: usize| captures.get(index).map_or(0..0, |found| found.range());
        let part = |index: usize| text.get(group(index)).unwrap_or_default();
        let number: f64 = part(3).replace(',', "").parse().ok()?;
        let (currency, behind, label) = (part(2), part(4), part(5));
        let behind = behind.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
        let factor = match (behind, label) {
            ("k", _) if !currency.is_empty() || ["", "a", "per"].contains(&label) => 1e3,
            ("m", _) if !currency.is_empty() => 1e6,
            ("", "thousand") => 1e3,
            ("", "million") => 1e6,
            ("", "billion") => 1e9,
            // `5 m` are metres or millions.
            ("", "bn" | "k" | "m") => return None,
            ("", _) => 1.0,
            _ => return None,
        };
        let before = text.get(..start)?;
        // `30 min 400 calories`
        if before.trim_end().ends_with(|letter: char| letter.is_ascii_digit()) {
            return None;
        }
        let is_negated = NEGATION.is_match(before);
        let is_money = !currency.is_empty() || CURRENCIES.contains(&label);
        let number = (number * factor * 1e6).round() / 1e6;
        // 50 thousand miles are no price.
        let is_large = behind == "k";
        let bound = Bound { number, is_maximum: captures.get(1).is_some(), is_money, label, is_large };
        (!is_negated).then_some(bound)
    };
    let trailing = |captures: Captures<'_>| {
        let start = captures.get(0)?.start();
        let part = |index: usize| text.get(captures.get(index).map_or(0..0, |found| found.range()));
        let (number, label) = (part(2)?.parse().ok()?, part(3)?);
        let before = text.get(..start)?;
        let is_part = before.ends_with(|letter: char| letter.is_ascii_digit() || matches!(letter, ',' | '.'));
        let is_money = !part(1)?.is_empty() || CURRENCIES.contains(&label);
        let is_maximum = captures.get(4).is_some();
        let bound = Bound { number, is_maximum, is_money, label, is_large: false };
        let is_unclear = ["bn", "k", "m"].contains(&label);
        (!is_part && !is_unclear && !NEGATION.is_match(before)).then_some(bound)
    };
    let leading = BOUND.captures_iter(text).filter_map(bound);
    leading.chain(TRAILING.captures_iter(text).filter_map(trailing)).collect()
}

/// Removes the optional minimum or maximum with the same number as its counterpart: "under 80
/// dollars" gives no `min_price`, and "since 2010" no `year_to`. Without its counterpart, the
/// number becomes the counterpart: `max_price`. `question` is in lower case.
pub(super) fn remove_other_limit(
    schema: &Schema,
    arguments: &mut Map<String, Value>,
    question: &str,
    values: &TextValues,
) {
    static SINCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bsince (?:the )?(?:year )?\d"));
    let stated = bounds(question);
    let is_since = stated.is_empty() && SINCE.is_match(question);
    for property in schema.properties().filter(|property| !property.is_required) {
        let Some(number) = arguments.get(property.name).and_then(Value::as_f64) else { continue };
        let name = spaced_words(property.name);
        let has_any = |words: &[&str]| name.split(' ').any(|word| words.contains(&word));
        let is_stated = |is_maximum: bool| {
            stated.iter().any(|bound| bound.is_maximum == is_maximum && is_equal(bound.number, number))
        };
        let is_other = has_any(&["min", "minimum"]) && is_stated(true) && !is_stated(false)
            || has_any(&["max", "maximum"]) && is_stated(false) && !is_stated(true)
            || is_since && has_any(&["end", "to", "until"]);
        let count = values.quantities.iter().filter(|quantity| is_equal(quantity.number, number)).count();
        if !is_other || count != 1 {
            continue;
        }
        let is_copy = |(name, value): (&String, &Value)| {
            name != property.name && value.as_f64().is_some_and(|known| is_equal(known, number))
        };
        if arguments.iter().any(is_copy) {
            arguments.remove(property.name);
        } else if let Some(counterpart) = counterpart(schema, property.name)
            && !arguments.contains_key(counterpart)
            && let Some(value) = arguments.remove(property.name)
        {
            arguments.insert(counterpart.to_owned(), value);
        }
    }
}

/// Returns the optional parameter of `schema` with the name of the other limit: `max_price` for
/// `min_price`.
fn counterpart<'s>(schema: &'s Schema, name: &str) -> Option<&'s str> {
    let opposite = |word: &str| match word {
        "min" => Some("max"),
        "max" => Some("min"),
        "minimum" => Some("maximum"),
        "maximum" => Some("minimum"),
        _ => None,
    };
    let expected = spaced_words(name);
    let expected: Vec<_> = expected.split(' ').map(|word| opposite(word).unwrap_or(word)).collect();
    let expected = expected.join(" ");
    let mut others = schema.properties().filter(|other| !other.is_required && other.name != name);
    others.find(|other| spaced_words(other.name) == expected).map(|other| other.name)
}

fn is_equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * other.abs().max(1e-3)
}

/// Returns the unit of `property`: from its name, such as `height_cm` or `minutes`, or from its
/// description, such as `The duration in minutes`.
pub(super) fn unit_of(property: &Property<'_>) -> Option<Unit> {
    static IN_UNIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bin ([a-z]{2,})\b|\(([a-z]{2,})\)"));
    let name = spaced_words(property.name);
    let words: Vec<_> = name.split(' ').collect();
    // `litersPer100Km` is a ratio.
    if words.iter().any(|word| word.trim_end_matches(|letter: char| letter.is_ascii_digit()) == "per") {
        return None;
    }
    let of_name = match words.as_slice() {
        // `start_year` is a year of the calendar.
        [.., "year" | "month"] => None,
        [only] => Some(*only).filter(|word| EXTENTS.contains(word)),
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

/// Returns `true` if `property` has the description of a number from 0 to 1.
pub(super) fn is_part_of_one(property: &Property<'_>) -> bool {
    let description = description(property).to_lowercase();
    PARTS_OF_ONE.iter().any(|words| description.contains(words))
}

/// Returns `true` if `property` has the name or the description of a percentage.
pub(super) fn is_percentage(property: &Property<'_>) -> bool {
    let description = description(property).to_lowercase();
    has_word_of(property.name, &PERCENTAGES) || description.contains("percent") || description.contains('%')
}
