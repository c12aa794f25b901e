//! Numbers with their units and signs.

use std::sync::LazyLock;

use regex::Regex;

use super::units::Unit;

/// A number in a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::few_shot) struct Quantity {
    /// The number, negative for `minus 5`, `5 degrees below zero` and `5 degrees south`.
    pub(in crate::few_shot) number: f64,
    pub(in crate::few_shot) unit: Option<Unit>,
    /// `true` if the number is a part of a whole, from 0 to 1: `0.35` for `35%`, and `0.75` for
    /// `three quarters`.
    pub(in crate::few_shot) is_share: bool,
    /// `true` if the text states the quantity in two units: `1 hour 30 minutes`.
    pub(in crate::few_shot) is_sum: bool,
}

impl Quantity {
    /// Returns the number in `unit`. Returns `None` if the quantity has another dimension.
    pub(in crate::few_shot) fn in_unit(&self, unit: Unit) -> Option<f64> {
        let own = self.unit.filter(|own| own.dimension == unit.dimension)?;
        Some(round(self.number * own.factor / unit.factor))
    }
}

/// Removes the error of a multiplication: 1.68 m are 168 cm, not 168.00000000000003 cm.
pub(super) fn round(number: f64) -> f64 {
    (number * 1e9).round() / 1e9
}

/// The names of fractions.
const FRACTIONS: [&str; 4] = ["half", "halves", "quarter", "quarters"];

static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d+(?:[.,]\d+)*"));
/// A fraction in words, after the number words were replaced by digits.
static FRACTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:\b(\d+|a) )?\b(half|halves|quarter|quarters)\b"));
/// The text after a negative number.
static NEGATIVE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"^(?: ?(?:°|degrees|deg))?(?: ?(?:c|f|celsius|fahrenheit))? (?:below|south|west)\b|^ ?° ?[sw]\b")
});
static PERCENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^ ?(?:%|percent\b)"));
/// The unit after a number. A hyphen is permitted: `a 30-minute walk`.
static UNIT: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[ -]?([a-z]+)\b"));

pub(in crate::few_shot) fn pattern(text: &str) -> Regex {
    match Regex::new(text) {
        Ok(pattern) => pattern,
        Err(error) => unreachable!("the pattern is a constant: {error}"),
    }
}

/// Returns the numbers in `text`, which is normalized, with the word after them.
pub(super) fn labelled_numbers(text: &str) -> Vec<(f64, String)> {
    static LABELLED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\d+(?:\.\d+)?) ([a-z]+)\b"));
    let label = |captures: regex::Captures<'_>| {
        let number = captures.get(1)?.as_str().parse().ok()?;
        Some((number, captures.get(2)?.as_str().trim_end_matches('s').to_owned()))
    };
    LABELLED.captures_iter(text).filter_map(label).collect()
}

/// Returns the number of times per year in `text`, which is normalized: 12 for `monthly`. Returns
/// `None` if `text` has no word for it, or several.
pub(super) fn times_per_year(text: &str) -> Option<f64> {
    const FREQUENCIES: [(&str, f64); 7] = [
        ("annually", 1.0),
        ("yearly", 1.0),
        ("semiannually", 2.0),
        ("quarterly", 4.0),
        ("monthly", 12.0),
        ("weekly", 52.0),
        ("daily", 365.0),
    ];
    let text = text.replace("semi-annually", "semiannually");
    let mut words = text.split(|letter: char| !letter.is_alphabetic());
    let mut found = words.by_ref().filter_map(|word| FREQUENCIES.iter().find(|(name, _)| *name == word));
    found.next().filter(|_| found.next().is_none()).map(|(_, number)| *number)
}

/// Finds the numbers in `text`, which is normalized. The parts of identifiers (`rem_118`) are no
/// numbers.
pub(super) fn find(text: &str) -> Vec<Quantity> {
    let mut found: Vec<Quantity> = Vec::new();
    // The end of the last quantity with a unit, to which the next one may be added.
    let mut sum_end = None;
    for number in NUMBER.find_iter(text) {
        let before = text.get(..number.start()).unwrap_or_default();
        let after = text.get(number.end()..).unwrap_or_default();
        let Some(value) = parse(number.as_str()).filter(|_| !ends_with_name(before)) else { continue };
        let unit_word = UNIT.captures(after).and_then(|captures| captures.get(1));
        let unit = unit_word.and_then(|word| Unit::from_name(word.as_str()));
        if unit_word.is_some_and(|word| FRACTIONS.contains(&word.as_str())) {
            continue;
        }
        let is_share = PERCENT.is_match(after);
        let is_negative = is_minus(before) || NEGATIVE.is_match(after);
        let sign = if is_negative { -1.0 } else { 1.0 };
        let quantity = Quantity {
            number: sign * if is_share { value / 100.0 } else { value },
            unit,
            is_share,
            is_sum: false,
        };
        let gap = sum_end.and_then(|end| text.get(end..number.start()));
        match found.last_mut().filter(|_| matches!(gap, Some("" | " " | " and " | ", "))) {
            Some(last) if is_smaller(&quantity, last) => add(last, &quantity),
            _ => found.push(quantity),
        }
        sum_end = unit_word.filter(|_| unit.is_some()).map(|word| number.end() + word.end());
    }
    found.extend(fractions(text));
    found
}

/// Returns `true` if the unit of `one` is smaller than the unit of `other`, as in `1 hour 30
/// minutes`.
fn is_smaller(one: &Quantity, other: &Quantity) -> bool {
    match (one.unit, other.unit) {
        (Some(one), Some(other)) => one.dimension == other.dimension && one.factor < other.factor,
        _ => false,
    }
}

/// Adds `part` to `sum`. The result has the unit of `part`.
fn add(sum: &mut Quantity, part: &Quantity) {
    if let Some(number) = part.unit.and_then(|unit| sum.in_unit(unit)) {
        *sum = Quantity { number: number + part.number, is_sum: true, ..*part };
    }
}

fn fractions(text: &str) -> impl Iterator<Item = Quantity> {
    FRACTION.captures_iter(text).filter_map(|captures| {
        let whole = captures.get(0)?;
        let name = captures.get(2)?;
        let before = text.get(..whole.start())?;
        let after = text.get(whole.end()..)?;
        let is_time = after.starts_with(" past") || after.starts_with(" to ") || after.starts_with("-hour");
        // `the first quarter of 2024` and `this quarter` are no fractions.
        let is_ordinal = ["st", "nd", "rd", "th", "last", "next", "this", "per"]
            .iter()
            .any(|end| before.trim_end().ends_with(end));
        let count = captures.get(1).map_or("a", |count| count.as_str());
        let divisor = if name.as_str().starts_with("quarter") { 4.0 } else { 2.0 };
        let number = count.parse().unwrap_or(1.0) / divisor;
        (!is_time && !is_ordinal && number <= 1.0).then_some(Quantity {
            number,
            unit: None,
            is_share: true,
            is_sum: false,
        })
    })
}

fn ends_with_name(before: &str) -> bool {
    let mut last = before.chars().rev();
    match last.next() {
        Some('-') => last.next().is_some_and(char::is_alphanumeric),
        Some(letter) => letter.is_alphanumeric() || letter == '_' || letter == '#',
        None => false,
    }
}

/// Returns `true` if a minus sign, or the word `minus` without a number before it, ends `before`.
fn is_minus(before: &str) -> bool {
    let follows_number = |text: &str| text.trim_end().ends_with(|letter: char| letter.is_ascii_digit());
    let word = ["minus ", "negative "].iter().find_map(|word| before.strip_suffix(word));
    match (before.strip_suffix('-'), word) {
        (Some(rest), _) | (None, Some(rest)) => {
            (rest.is_empty() || rest.ends_with([' ', '('])) && !follows_number(rest)
        }
        (None, None) => false,
    }
}

/// Returns `true` if `text` has a number in a form that [`find`] does not read: a fraction in
/// digits, a number without a unit after a number with a unit, a thousands separator that may be a
/// decimal point, or a fraction of a unit.
pub(super) fn has_unclear_numbers(text: &str) -> bool {
    static UNCLEAR: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"\d ?/ ?\d|\d\.\d{3}\b|\d ?(?:hours?|h|feet|foot|ft|pounds?|lbs?|stone) (?:and )?\d+\b(?: ?$| ?[,.?!]| (?<word>[a-z]{3,}))|(?:quarters?|thirds?|half) (?:of )?(?:a |an |1 )?(?:hour|minute|day|week)|(?:hours?|minutes?) and 1 quarter|(?:hours?|minutes?) and a quarter",
        )
    });
    // The second number in "1 hour 30 minutes" has a unit.
    let has_unit = |captures: regex::Captures<'_>| {
        captures.name("word").is_some_and(|word| Unit::from_name(word.as_str()).is_some())
    };
    UNCLEAR.captures_iter(text).any(|captures| !has_unit(captures))
}

/// Returns `true` if `text` has a number after `by`: `down by 10%`.
pub(super) fn has_change(text: &str) -> bool {
    static CHANGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bby (?:a |another )?\d"));
    CHANGE.is_match(text)
}

/// Parses a number. `1,250` is a number with a thousands separator, and `3,5` with a decimal comma.
fn parse(text: &str) -> Option<f64> {
    let groups: Vec<_> = text.split(',').collect();
    match groups.as_slice() {
        [_] => text.parse().ok(),
        [first, rest @ ..]
            if first.len() <= 3
                && rest.iter().all(|group| {
                    group
                        .get(..3)
                        .is_some_and(|_| group.split('.').next().is_some_and(|digits| digits.len() == 3))
                }) =>
        {
            text.replace(',', "").parse().ok()
        }
        [whole, fraction] => format!("{whole}.{fraction}").parse().ok(),
        _ => None,
    }
}
