//! The quantities, dates and times in a text, with the values that they have in a tool call.
//!
//! A small model copies words well and computes badly: it writes 14:30 for "half past three in the
//! afternoon", and 28/02/2025 for "tomorrow". [`TextValues`] reads English phrases like these. The
//! arguments of a call are compared with its values; see [`correction`](super::correction).

mod dates;
mod quantities;
mod times;
mod units;

use std::sync::LazyLock;

use jiff::civil::{Date, Time};
use regex::{Captures, Regex};
use text2num::{Language, replace_numbers_in_text};

pub(super) use self::dates::{DateRange, parse_date, starts_with_date};
pub(super) use self::quantities::{Quantity, pattern};
pub(super) use self::times::parse_time;
pub(super) use self::units::{Dimension, Unit};

/// The maximum length of the text in which values are searched, in bytes. A longer text usually
/// contains a file or a large tool result.
pub(super) const MAX_TEXT_BYTES: usize = 8_000;

/// The values in a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TextValues {
    pub(super) quantities: Vec<Quantity>,
    /// `true` if the text has numbers in a form that is not read, such as `1/2` or `5 foot 10`.
    pub(super) has_unclear_numbers: bool,
    /// `true` if the text has a change by a number, such as `by 10%`.
    pub(super) has_change: bool,
    /// The numbers with the word after them, without a plural `s`: 6 and `serving`.
    pub(super) labelled_numbers: Vec<(f64, String)>,
    /// `true` if the text is about a time in the past or before another, such as `6 weeks before`.
    pub(super) goes_back: bool,
    /// The number of times per year, if the text has a single word for it: 12 for `monthly`.
    pub(super) times_per_year: Option<f64>,
    pub(super) dates: Vec<DateRange>,
    pub(super) times: Vec<Time>,
    /// The first and the last of the only two times, if they are the ends of a range: `from 14:00
    /// to 16:00`.
    pub(super) time_range: Option<(Time, Time)>,
}

impl TextValues {
    /// Reads the values in the last [`MAX_TEXT_BYTES`] of `text`. `today` is the date to which
    /// words such as `tomorrow` refer.
    pub(super) fn new(text: &str, today: Option<Date>) -> Self {
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_TEXT_BYTES));
        let text = normalize(text.get(start..).unwrap_or_default());
        let times = times::find(&text);
        Self {
            time_range: times::range(&text, &times),
            quantities: quantities::find(&text),
            has_unclear_numbers: quantities::has_unclear_numbers(&text),
            has_change: quantities::has_change(&text),
            goes_back: [" ago", " before ", " earlier"].iter().any(|words| text.contains(words)),
            labelled_numbers: quantities::labelled_numbers(&text),
            times_per_year: quantities::times_per_year(&text),
            dates: dates::find(&text, today),
            times,
        }
    }

    /// Returns `true` if the text has more than one time. Both readings of `at nine` are one time.
    pub(super) fn has_several_times(&self) -> bool {
        match self.times.as_slice() {
            [] | [_] => false,
            [first, second] => !times::are_readings_of_one(*first, *second),
            _ => true,
        }
    }

    /// Returns the days in `text` that are given with a month, such as `July 20`. If their year is
    /// unknown, it is any year.
    pub(super) fn days_of_months(text: &str) -> Vec<Date> {
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        dates::find_days(&normalize(text.get(..end).unwrap_or_default()))
    }

    /// Returns the normalized `text` without times and without the days that are given with a
    /// month. Returns `None` if it is longer than [`MAX_TEXT_BYTES`].
    pub(super) fn without_moments(text: &str) -> Option<String> {
        let is_short = text.len() <= MAX_TEXT_BYTES;
        is_short.then(|| times::remove(&dates::remove_days(&normalize(text))))
    }

    /// Returns the date that the first [`MAX_TEXT_BYTES`] of `text` give for today, as in "Today is
    /// 3 May 2025".
    pub(super) fn today(text: &str) -> Option<Date> {
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        dates::find_today(&normalize(text.get(..end).unwrap_or_default()))
    }
}

/// A decimal fraction before a number word, after the number words were replaced by digits.
static DECIMAL_THOUSANDS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(\d+\.\d+) (1000|1000000|1000000000)\b"));

/// Returns `text` in lower case, with digits for number words, and with one form for phrases that
/// have several.
pub(super) fn normalize(text: &str) -> String {
    /// The texts are replaced in this order.
    const REPLACEMENTS: [(&str, &str); 19] = [
        ("\u{2019}", "'"),
        ("\u{2212}", "-"),
        ("a.m.", "am"),
        ("p.m.", "pm"),
        (" a.m", " am"),
        (" p.m", " pm"),
        (" o'clock", "o'clock"),
        ("per cent", "percent"),
        ("half an hour", "0.5 hours"),
        ("half a day", "0.5 days"),
        (" an hour and a half", " 1.5 hours"),
        (" an hour and a quarter", " 1.25 hours"),
        ("3 quarters of an hour", "0.75 hours"),
        (" and a half hours", ".5 hours"),
        (" and a half", ".5"),
        ("quarter of an hour", "0.25 hours"),
        (" an hour", " 1 hour"),
        (" a minute", " 1 minute"),
        (" a week", " 1 week"),
    ];
    let lower = text.to_lowercase();
    // The crate overflows at long decimal fractions in words.
    let lower = match lower.contains(" point ") {
        true => lower,
        false => replace_numbers_in_text(&separate_number_words(&lower), &Language::english(), 0.0),
    };
    let replaced = REPLACEMENTS.iter().fold(format!(" {lower}"), |text, (from, to)| text.replace(from, to));
    let text = replaced.split_whitespace().collect::<Vec<_>>().join(" ");
    // "Two and a half thousand" is one number.
    let product = |captures: &Captures<'_>| {
        let factor = |index: usize| captures.get(index)?.as_str().parse::<f64>().ok();
        match (factor(1), factor(2)) {
            (Some(count), Some(unit)) => quantities::round(count * unit).to_string(),
            _ => captures.get(0).map_or("", |whole| whole.as_str()).to_owned(),
        }
    };
    DECIMAL_THOUSANDS.replace_all(&text, product).into_owned()
}

/// Replaces the hyphen after a number word by a space, except before another number word:
/// `six-sided` becomes `six sided`, and `twenty-one` stays.
fn separate_number_words(text: &str) -> String {
    const NUMBER_WORDS: [&str; 27] = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
    ];
    let is_ordinal = |word: &str| word.ends_with("th") || ["first", "second", "third"].contains(&word);
    let separate = |word: &str| match word.split_once('-') {
        Some((number, rest)) if NUMBER_WORDS.contains(&number) => {
            let next = rest.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default();
            let continues = NUMBER_WORDS.contains(&next) || is_ordinal(next);
            if continues { word.to_owned() } else { format!("{number} {rest}") }
        }
        _ => word.to_owned(),
    };
    text.split(' ').map(separate).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
