//! The numbers of a conversation.

use super::words::KnownWords;
use crate::few_shot::values::{Quantity, TextValues, Unit};

/// Number words of which the value is not computed. If the conversation has one of them, every
/// number counts as known.
const NUMBER_WORDS: [&str; 11] = [
    "binary",
    "couple",
    "decimal",
    "double",
    "dozen",
    "hexadecimal",
    "octal",
    "pair",
    "third",
    "thirds",
    "twice",
];
/// Words for the number zero.
const ZERO_WORDS: [&str; 4] = ["no", "none", "without", "zero"];
/// Words for the number before or after a known number.
const NEIGHBOUR_WORDS: [&str; 7] = ["after", "before", "earlier", "following", "later", "next", "previous"];
/// Conversions between units: percent, minutes, hours, thousandths.
const FACTORS: [f64; 5] = [1.0, 60.0, 100.0, 1000.0, 3600.0];

pub(super) struct KnownNumbers {
    numbers: Vec<f64>,
    /// The days of the dates with a month.
    days: Vec<f64>,
    /// `true` if the conversation has the number one in words, which is usually no quantity.
    has_one: bool,
    has_number_word: bool,
    /// `true` if the conversation has one of [`ZERO_WORDS`].
    has_zero_word: bool,
    has_neighbour_word: bool,
}

impl KnownNumbers {
    pub(super) fn new(text: &str, words: &KnownWords) -> Self {
        let mut numbers = parse_numbers(text);
        let values = TextValues::new(text, None);
        let is_word = |quantity: &&Quantity| quantity.number == 1.0 && quantity.unit.is_none();
        let quantities = values.quantities.iter().filter(|quantity| !is_word(quantity));
        numbers.extend(quantities.map(|quantity| quantity.number.abs()));
        numbers.extend(values.times.iter().flat_map(|time| [time.hour(), time.minute()]).map(f64::from));
        numbers.extend(values.times_per_year);
        for unit in [Unit::MONTH, Unit::DAY, Unit::MINUTE] {
            numbers.extend(values.quantities.iter().filter_map(|quantity| quantity.in_unit(unit)));
        }
        // "July 20" is the day 20 of the month 7.
        let days = TextValues::days_of_months(text);
        numbers.extend(days.iter().flat_map(|day| [day.month(), day.day()]).map(f64::from));
        let has_any = |list: &[&str]| list.iter().any(|word| words.has_word(word));
        Self {
            numbers,
            days: days.iter().map(|day| f64::from(day.day())).collect(),
            has_one: words.has_word("one") || words.has_word("first"),
            has_number_word: has_any(&NUMBER_WORDS),
            has_zero_word: has_any(&ZERO_WORDS),
            has_neighbour_word: has_any(&NEIGHBOUR_WORDS),
        }
    }

    /// Returns `true` if the conversation contains `number`, or a number from which a change of the
    /// unit or of the sign gives `number`.
    pub(super) fn contains(&self, number: f64) -> bool {
        let is_neighbour = |known: &f64| (known - number).abs() == 1.0;
        (self.has_number_word && (number != 0.0 || self.has_zero_word))
            || (self.has_one && number.abs() == 1.0)
            || self.has_digits_of(number)
            || (self.has_neighbour_word && self.numbers.iter().any(is_neighbour))
    }

    /// Returns `true` if the conversation contains `number` in this unit.
    pub(super) fn contains_exactly(&self, number: f64) -> bool {
        self.has_number_word || (self.has_one && number.abs() == 1.0) || self.has_value(number)
    }

    /// Returns `true` if the conversation contains `number` in digits, possibly in another unit.
    pub(super) fn has_digits_of(&self, number: f64) -> bool {
        let is_equal = |one: f64, other: f64| (one - other).abs() <= 1e-6 * other.abs().max(1e-3);
        self.numbers.iter().any(|known| {
            FACTORS.iter().any(|factor| {
                is_equal(known * factor, number.abs()) || is_equal(known / factor, number.abs())
            })
        })
    }

    pub(super) fn has_value(&self, number: f64) -> bool {
        self.numbers.contains(&number)
    }

    /// Returns `true` if `number` is the day of a date with a month.
    pub(super) fn is_day(&self, number: f64) -> bool {
        self.days.contains(&number)
    }

    pub(super) fn has_number_word(&self) -> bool {
        self.has_number_word
    }

    /// Returns `true` if the conversation contains a year.
    pub(super) fn has_year(&self) -> bool {
        self.numbers.iter().any(|number| (1900.0..2200.0).contains(number) && number.fract() == 0.0)
    }
}

/// Returns the numbers in `text`, without sign. `1,250` is one number, and the parts of
/// `2022-03` are two.
fn parse_numbers(text: &str) -> Vec<f64> {
    let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',');
    let mut numbers = Vec::new();
    for piece in text.split(|letter: char| !is_part(letter)) {
        let piece = piece.trim_matches(['.', ',']);
        numbers.extend(piece.replace(',', "").parse::<f64>().ok());
        // `18,000` is a single number, and its last group is no zero.
        let groups = piece.split(',').filter(|group| !group.starts_with("00"));
        numbers.extend(groups.filter_map(|part| part.parse::<f64>().ok()));
        numbers.extend(piece.split('.').filter_map(|part| part.parse::<f64>().ok()));
    }
    numbers
}
