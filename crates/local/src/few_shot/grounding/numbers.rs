//! The numbers of a conversation.

use jiff::civil::Date;

use super::parameter_names::{is_number_of_persons, is_rank};
use super::words::KnownWords;
use crate::few_shot::values::{Dimension, Quantity, TextValues, Unit};

/// Words for another form of a number. The number is not converted: if the conversation has one of
/// these words, every number counts as known.
const FORM_WORDS: [&str; 4] = ["binary", "decimal", "hexadecimal", "octal"];
/// Words by which a number is multiplied or divided. A side of a coin or of a die has the
/// probability 1/2 or 1/6.
const FACTOR_WORDS: [(&str, f64); 10] = [
    ("coin", 2.0),
    ("couple", 2.0),
    ("dice", 6.0),
    ("die", 6.0),
    ("double", 2.0),
    ("dozen", 12.0),
    ("pair", 2.0),
    ("third", 3.0),
    ("thirds", 3.0),
    ("twice", 2.0),
];
/// Words for the number zero.
const ZERO_WORDS: [&str; 4] = ["no", "none", "without", "zero"];
/// Words for the number before or after a known number.
const NEIGHBOUR_WORDS: [&str; 7] = ["after", "before", "earlier", "following", "later", "next", "previous"];
/// Conversions between units: percent, minutes, hours, thousandths.
const FACTORS: [f64; 5] = [1.0, 60.0, 100.0, 1000.0, 3600.0];

pub(super) struct KnownNumbers {
    numbers: Vec<f64>,
    /// The numbers in digits, without sign, with each of their repetitions.
    digits: Vec<f64>,
    /// The numbers in digits and in words with their units, with each of their repetitions.
    quantities: Vec<Quantity>,
    /// The numbers in digits and in words outside of dates and times. `None` if the conversation is
    /// too long to read them.
    counts: Option<Vec<f64>>,
    /// The days with a month.
    dates: Vec<Date>,
    /// `true` if the conversation has the number one in words, which is usually no quantity.
    has_one: bool,
    has_form_word: bool,
    /// The factors of the words in [`FACTOR_WORDS`].
    word_factors: Vec<f64>,
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
        // "From 14:00 to 16:00" is two hours.
        let duration =
            values.time_range.and_then(|(start, end)| (end - start).total(jiff::Unit::Minute).ok());
        numbers.extend(duration.into_iter().flat_map(|minutes| [minutes, minutes / 60.0]));
        // "July 20" is the day 20 of the month 7.
        let days = TextValues::days_of_months(text);
        numbers.extend(days.iter().flat_map(|day| [day.month(), day.day()]).map(f64::from));
        let factors = FACTOR_WORDS.iter().filter(|(word, _)| words.has_word(word));
        let has_any = |list: &[&str]| list.iter().any(|word| words.has_word(word));
        Self {
            numbers,
            digits: text.split(|letter: char| !is_digit_or_point(letter)).filter_map(parse_digits).collect(),
            quantities: values.quantities,
            counts: TextValues::without_moments(text).map(|text| parse_numbers(&text)),
            dates: days,
            has_one: words.has_word("one") || words.has_word("first"),
            has_form_word: has_any(&FORM_WORDS),
            word_factors: factors.map(|(_, factor)| *factor).collect(),
            has_zero_word: has_any(&ZERO_WORDS),
            has_neighbour_word: has_any(&NEIGHBOUR_WORDS),
        }
    }

    /// Returns `true` if the conversation contains `number`, or a number from which a change of the
    /// unit or of the sign gives `number`.
    pub(super) fn contains(&self, number: f64) -> bool {
        let is_neighbour = |known: &f64| (known - number).abs() == 1.0;
        (self.has_form_word && (number != 0.0 || self.has_zero_word))
            || self.is_multiple(number)
            || (self.has_one && number.abs() == 1.0)
            || self.has_digits_of(number)
            || (self.has_neighbour_word && self.numbers.iter().any(is_neighbour))
    }

    /// Returns `true` if the conversation contains `number` in this unit.
    pub(super) fn contains_exactly(&self, number: f64) -> bool {
        self.has_form_word
            || self.is_multiple(number)
            || (self.has_one && number.abs() == 1.0)
            || self.has_value(number)
    }

    /// Returns `true` if the conversation contains `number` in digits, possibly in another unit.
    pub(super) fn has_digits_of(&self, number: f64) -> bool {
        has_in_unit(&self.numbers, number)
    }

    /// Returns the number of places where the conversation contains `number`, without its sign.
    pub(super) fn occurrences(&self, number: f64) -> usize {
        let number = number.abs();
        let in_digits = self.digits.iter().filter(|known| is_equal(**known, number)).count();
        let quantities = self.quantities.iter().map(magnitude);
        in_digits.max(quantities.filter(|known| is_equal(*known, number)).count())
    }

    /// Returns `true` if the conversation contains the number 1 for the parameter `name`: in
    /// digits, for a duration also in another unit, such as 7 days for a week, and for a version or
    /// a rating also as "one" or "first".
    pub(super) fn has_one_for(&self, name: &str) -> bool {
        const ONES: [f64; 9] = [1.0, 7.0, 12.0, 24.0, 52.0, 60.0, 100.0, 365.0, 1000.0];
        let is_one = |quantity: &Quantity| quantity.unit.is_some() && ONES.contains(&quantity.number);
        let is_of_date = self.dates.iter().any(|date| date.day() == 1 || date.month() == 1);
        let has_digit = self.digits.contains(&1.0) && !is_of_date;
        let is_duration = !is_number_of_persons(name) && !is_rank(name);
        has_digit || is_duration && self.quantities.iter().any(is_one) || is_rank(name) && self.has_one
    }

    /// Returns `true` if all quantities of the conversation that give `number` have a unit of
    /// another dimension than `unit`. Periods of the calendar and durations are the same dimension.
    pub(super) fn has_only_other_units(&self, number: f64, unit: Unit) -> bool {
        let kind = |unit: Unit| match unit.dimension {
            Dimension::Calendar => Dimension::Time,
            dimension => dimension,
        };
        let gives = |quantity: &&Quantity| has_in_unit(&[magnitude(quantity)], number);
        let mut sources = self.quantities.iter().filter(gives).peekable();
        // Pounds may be money.
        let pound = Unit::from_name("pound");
        let is_other = |own: Unit| kind(own) != kind(unit) && Some(own) != pound;
        sources.peek().is_some() && sources.all(|source| source.unit.is_some_and(is_other))
    }

    /// Returns `true` if the conversation may contain `number` outside of dates and times, or a
    /// number from which a factor in words or a change of the unit gives `number`.
    pub(super) fn has_count(&self, number: f64) -> bool {
        self.has_form_word
            || self.counts.as_deref().is_none_or(|counts| has_in_unit(counts, number))
            || self.is_multiple(number)
    }

    pub(super) fn has_value(&self, number: f64) -> bool {
        self.numbers.contains(&number)
    }

    /// Returns the days in the conversation that are given with a month.
    pub(super) fn dates(&self) -> &[Date] {
        &self.dates
    }

    /// Returns `true` if `number` is the day of a date with a month.
    pub(super) fn is_day(&self, number: f64) -> bool {
        self.dates.iter().any(|date| f64::from(date.day()) == number)
    }

    /// Returns `true` if the conversation has a word for the number zero.
    pub(super) fn has_zero_word(&self) -> bool {
        self.has_zero_word
    }

    /// Returns `true` if the conversation has a word for a number that is not computed.
    pub(super) fn has_number_word(&self) -> bool {
        self.has_form_word || !self.word_factors.is_empty()
    }

    /// Returns `true` if the conversation contains a year.
    pub(super) fn has_year(&self) -> bool {
        self.numbers.iter().any(|number| (1900.0..2200.0).contains(number) && number.fract() == 0.0)
    }

    /// Returns `true` if `number` is the product or the quotient of a factor in words and a known
    /// number: 24 for "two dozen", 0.67 for "two thirds", 120 minutes for "a couple of hours".
    fn is_multiple(&self, number: f64) -> bool {
        // "Twice a day" is every 12 hours.
        const HOURS: f64 = 24.0;
        let is_equal = |value: f64| (value - number.abs()).abs() <= 0.01 * value.abs();
        let known = || self.numbers.iter().chain(&[0.5, 1.0, 2.0, HOURS]);
        // "A double room" is not the number 1.
        let factors = self.word_factors.iter().filter(|_| number.abs() != 1.0);
        factors
            .flat_map(|factor| known().flat_map(move |known| [known * factor, known / factor]))
            .any(|value| FACTORS.iter().any(|factor| is_equal(value * factor)))
    }
}

/// Returns `true` if the numbers are equal, except for the error of a multiplication.
fn is_equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * other.abs().max(1e-3)
}

/// Returns the number of `quantity` without its sign, in percent if it is a share.
fn magnitude(quantity: &Quantity) -> f64 {
    quantity.number.abs() * if quantity.is_share { 100.0 } else { 1.0 }
}

/// Returns `true` if `numbers` contain `number`, possibly in another unit.
fn has_in_unit(numbers: &[f64], number: f64) -> bool {
    let is_factor = |known: f64, factor: f64| {
        is_equal(known * factor, number.abs()) || is_equal(known / factor, number.abs())
    };
    numbers.iter().any(|known| FACTORS.iter().any(|factor| is_factor(*known, *factor)))
}

fn is_digit_or_point(letter: char) -> bool {
    letter.is_ascii_digit() || letter == '.'
}

fn parse_digits(text: &str) -> Option<f64> {
    text.trim_matches('.').parse().ok()
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
