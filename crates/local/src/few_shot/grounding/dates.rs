//! Dates and times of a conversation.

use jiff::civil::Date;

use serde_json::{Map, Value};

use super::{Strictness, numbers::KnownNumbers, words::KnownWords};
use crate::few_shot::values::parse_date;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Words that give a date relative to another date.
const RELATIVE_WORDS: [&str; 18] = [
    "today",
    "tonight",
    "tomorrow",
    "yesterday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "weekend",
    "week",
    "day",
    "days",
    "next",
    "last",
    "now",
];
/// Words for periods, from which a date is computed.
const PERIOD_WORDS: [&str; 27] = [
    "beginning",
    "christmas",
    "decade",
    "early",
    "easter",
    "end",
    "eve",
    "fortnight",
    "half",
    "holiday",
    "holidays",
    "hour",
    "hours",
    "late",
    "mid",
    "middle",
    "month",
    "months",
    "night",
    "nights",
    "quarter",
    "season",
    "start",
    "thanksgiving",
    "weeks",
    "year",
    "years",
];
/// Texts that mark the number before them as an hour.
const TIME_MARKS: [&str; 11] = [":", "am", " am", "pm", " pm", " a.m", " p.m", " o'clock", "h", " h", " uhr"];
const TIME_WORDS: [&str; 8] =
    ["noon", "midnight", "midday", "morning", "afternoon", "evening", "night", "now"];

/// Returns `true` if the conversation contains the date `text` in the form `2025-03-14`, or a
/// relative date together with a year. For a required argument, such as the last day of a quarter,
/// the year is sufficient, unless the conversation has another day of it and no word for a period.
/// Returns `None` if `text` is not a date.
///
/// Without a year, the model cannot compute a relative date.
pub(super) fn is_known_date(
    text: &str,
    words: &KnownWords,
    numbers: &KnownNumbers,
    strictness: Strictness,
) -> Option<bool> {
    let date = text.split_once('t').map_or(text, |(date, _time)| date);
    let [year, month, day] = parse_parts(date, '-')?;
    let month_name = MONTHS.get((month as usize).checked_sub(1)?)?;
    let has_month =
        words.has_word(month_name) || month_name.get(..3).is_some_and(|name| words.has_word(name));
    let is_relative = RELATIVE_WORDS.iter().any(|word| words.has_word(word)) && numbers.has_year();
    let has_numbers = numbers.has_value(year) && numbers.has_value(month) && numbers.has_value(day);
    let is_in_month = |known: &Date| f64::from(known.month()) == month;
    let may_be_derived = numbers.dates().is_empty()
        || numbers.has_value(day)
        || has_month && !numbers.dates().iter().any(is_in_month)
        || PERIOD_WORDS.iter().any(|word| words.has_word(word))
        || !words.is_english();
    let is_in_known_year = strictness == Strictness::Required && numbers.has_value(year) && may_be_derived;
    Some((has_month && numbers.has_value(day)) || is_in_known_year || is_relative || has_numbers)
}

/// Returns `true` if the conversation contains the hour of the time `text` in the form `09:15`. A
/// number without a mark of a time is sufficient for a required argument, unless it is the day of a
/// month. Returns `None` if `text` is not a time.
pub(super) fn is_known_time(
    text: &str,
    words: &KnownWords,
    numbers: &KnownNumbers,
    strictness: Strictness,
) -> Option<bool> {
    let [hour, minute] = parse_parts(text, ':')?;
    // `8080:80` is a pair of ports.
    if hour > 24.0 || minute > 59.0 {
        return None;
    }
    let hours = [hour, (hour + 12.0) % 24.0, if hour == 12.0 || hour == 0.0 { 12.0 } else { hour }];
    let is_marked = |hour: &f64| TIME_MARKS.iter().any(|mark| words.has_literal(&format!("{hour}{mark}")));
    let has_hour = match strictness {
        Strictness::Required => {
            let is_number = |hour: &f64| numbers.has_value(*hour) && !numbers.is_day(*hour);
            hours.iter().any(|hour| is_number(hour) || is_marked(hour))
        }
        Strictness::Optional => hours.iter().any(is_marked),
    };
    Some(has_hour || numbers.has_number_word() || TIME_WORDS.iter().any(|word| words.has_word(word)))
}

/// Removes the date of a return that is the date of another argument: a one-way trip has none.
pub(super) fn remove_copied_return_date(arguments: &mut Map<String, Value>) {
    let is_copy = |name: &str, value: &Value| {
        name.starts_with("return")
            && value.as_str().is_some_and(|text| parse_date(text).is_some())
            && arguments.iter().any(|(other, copy)| other != name && copy == value)
    };
    let copied = arguments.iter().find(|(name, value)| is_copy(name, value)).map(|(name, _)| name.clone());
    copied.and_then(|name| arguments.remove(&name));
}

fn parse_parts<const N: usize>(text: &str, separator: char) -> Option<[f64; N]> {
    let parts: Option<Vec<f64>> = text
        .split(separator)
        .map(|part| part.parse().ok().filter(|_| part.chars().all(|letter| letter.is_ascii_digit())))
        .collect();
    parts?.try_into().ok()
}
