//! Dates and periods.

use std::{ops::Range, sync::LazyLock};

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};
use regex::{Captures, Match, Regex};

use super::quantities::pattern;

/// A date, or a period such as a month. A date is a period with one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::few_shot) struct DateRange {
    pub(in crate::few_shot) first: Date,
    pub(in crate::few_shot) last: Date,
}

impl DateRange {
    fn day(day: Date) -> Self {
        Self { first: day, last: day }
    }

    pub(in crate::few_shot) fn contains(&self, day: Date) -> bool {
        (self.first..=self.last).contains(&day)
    }
}

const MONTH: &str =
    "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)(?:uary|ruary|ch|il|e|y|ust|t|tember|ober|ember)?\\.?";
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/// The names of the weekdays without `day`.
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tues", Weekday::Tuesday),
    ("wednes", Weekday::Wednesday),
    ("thurs", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("satur", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

/// `2025-08-09`.
static ISO: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\d{4})-(\d{1,2})-(\d{1,2})(?:\b|t)"));
/// `9 August 2025`, `the 9th of August`.
static DAY_MONTH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r"\b(\d{{1,2}})(?:st|nd|rd|th|\.)?(?: day)?(?: of)? {MONTH}\b(?:,? (\d{{4}})\b)?"))
});
/// `6 to 10 October 2025`.
static DAYS_MONTH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: ?[-\u{{2013}}] ?| (?:and|to|until|till|through) (?:the )?)(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {MONTH}\b(?:,? (\d{{4}})\b)?"
    ))
});
/// `October 6 to 10, 2025`.
static MONTH_DAYS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"\b{MONTH} (\d{{1,2}})(?:st|nd|rd|th)?(?: ?[-\u{{2013}}] ?| (?:and|to|until|till|through) (?:the )?)(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}})\b)?"
    ))
});
/// `August 9, 2025`.
static MONTH_DAY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(r"\b{MONTH} (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}})\b)?"))
});
/// `09.08.2025`, `8/9/2025`.
static NUMERIC: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\d{1,2})([./])(\d{1,2})[./](\d{4})\b"));
/// `August 2025`.
static MONTH_YEAR: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r"\b{MONTH} (?:of )?(\d{{4}})\b")));
/// `Q1 2024`, `the first quarter of 2024`, after the number words were replaced by digits.
static QUARTER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(?:q([1-4])|([1-4])(?:st|nd|rd|th) quarter)(?: of| in|,)? (\d{4})\b"));
/// `in 2024`.
static YEAR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:in|of|during|for|year|season) ((?:19|20)\d{2})(?:$|[?!,;]|\.(?: |$)| (?:and|for|to|with)\b)",
    )
});
/// `the 7th`, the day of a month that the text mentions before.
static DAY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:on|to|until|till|from|by|before|after|then|and) the (\d{1,2})(?:st|nd|rd|th)(?:$|[,.?!;]| (?:at|and|to|instead|for)\b)",
    )
});
/// `in 3 days`, `2 weeks ago`.
static DISTANCE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\bin (\d+) (day|week|month)s?\b|\b(\d+) (day|week|month)s? (ago|from now|from today)\b")
});
static WEEKDAY: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b(?:(next|last|this) )?(mon|tues|wednes|thurs|fri|satur|sun)days?\b"));
static RELATIVE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(day after tomorrow|day before yesterday|today|tonight|tomorrow|yesterday|(?:this|next|last) (?:week|month|year|weekend)|the weekend)\b",
    )
});
/// The text before the date of today.
static TODAY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:\btoday(?: is|'s date is|'s date:|:)?|\bit's|\bit is|\bcurrent date(?: is|:)?|\bdate:)(?: [a-z]+day)?,?(?: the)? ?$",
    )
});

/// A period at a place in a text.
struct FoundRange {
    place: Range<usize>,
    range: DateRange,
}

/// Finds the date of today in `text`, which is normalized: `Today is 3 May 2025`.
pub(super) fn find_today(text: &str) -> Option<Date> {
    let found = find_explicit(text, None);
    let days = found.iter().filter(|found| found.range.first == found.range.last);
    let mut marked = days.filter(|found| TODAY.is_match(text.get(..found.place.start).unwrap_or_default()));
    marked.next().map(|found| found.range.first)
}

/// Finds the days in `text`, which is normalized, except days relative to today.
pub(super) fn find_days(text: &str) -> Vec<Date> {
    let days = find_explicit(text, Some(Date::ZERO)).into_iter().map(|found| found.range);
    days.filter(|range| range.first == range.last).map(|range| range.first).collect()
}

/// Returns `text`, which is normalized, without its days.
pub(super) fn remove_days(text: &str) -> String {
    let days = find_explicit(text, Some(Date::ZERO));
    let places = days.iter().filter(|found| found.range.first == found.range.last).map(|found| &found.place);
    let is_in_day = |index: &usize| places.clone().any(|place| place.contains(index));
    text.char_indices().filter(|(index, _)| !is_in_day(index)).map(|(_, letter)| letter).collect()
}

/// Finds the dates and periods in `text`, which is normalized. A date without a year is in the year
/// of another date in the text, or the next such date after `today`.
pub(super) fn find(text: &str, today: Option<Date>) -> Vec<DateRange> {
    let mut found = find_explicit(text, today);
    if let Some(today) = today {
        add_all(&mut found, &RELATIVE, text, |captures| {
            // `today is` only precedes the date of today.
            let after = text.get(captures.get(0)?.end()..)?;
            let is_label = [" is ", "'s date", ":"].iter().any(|label| after.starts_with(label));
            (!is_label).then(|| relative(captures.get(1)?.as_str(), today)).flatten()
        });
        add_all(&mut found, &DISTANCE, text, |captures| distance(captures, today).map(DateRange::day));
        let explicit: Vec<_> = found.iter().map(|found| found.place.clone()).collect();
        add_all(&mut found, &WEEKDAY, text, |captures| {
            // `Monday, 1 September 2025` has a date already.
            let end = captures.get(0)?.end();
            let has_date = explicit.iter().any(|place| place.start >= end && place.start <= end + 6);
            (!has_date).then(|| weekday(captures, today)).flatten().map(DateRange::day)
        });
    }
    // The date of today is only the reference for other dates.
    let is_label = |found: &FoundRange| TODAY.is_match(text.get(..found.place.start).unwrap_or_default());
    found.retain(|found| Some(found.range.first) != today || !is_label(found));
    let mut ranges: Vec<DateRange> = Vec::new();
    found.into_iter().map(|found| found.range).for_each(|range| {
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    });
    ranges
}

/// Parses `text` as a single date.
pub(in crate::few_shot) fn parse_date(text: &str) -> Option<Date> {
    let text = super::normalize(text);
    let found = find_explicit(&text, None);
    match found.as_slice() {
        [only] if only.place == (0..text.len()) && only.range.first == only.range.last => {
            Some(only.range.first)
        }
        _ => None,
    }
}

/// Returns `true` if `text`, which is in lower case, begins with a date, a month or a weekday, or
/// with a day relative to today. Words such as `on` may precede it.
pub(in crate::few_shot) fn starts_with_date(text: &str) -> bool {
    static START: LazyLock<Regex> = LazyLock::new(|| {
        pattern(&format!(
            r"^(?:on |the |next |this )*(?:\d{{4}}-\d|\d{{1,2}}[./]\d{{1,2}}[./]\d|\d{{1,2}}(?:st|nd|rd|th|\.)?(?: of)? {MONTH}\b|{MONTH}\b|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|today\b|tomorrow\b)"
        ))
    });
    START.is_match(text.trim_start())
}

fn find_explicit(text: &str, today: Option<Date>) -> Vec<FoundRange> {
    let mut found = Vec::new();
    add_all(&mut found, &ISO, text, |captures| {
        day(number(captures.get(1))?, number(captures.get(2))?, number(captures.get(3))?)
    });
    add_all(&mut found, &NUMERIC, text, |captures| {
        let (one, other) = (number(captures.get(1))?, number(captures.get(3))?);
        let year = number(captures.get(4))?;
        // `03/04/2025` may be in March or in April.
        let is_american = captures.get(2)?.as_str() == "/" && one <= 12;
        match is_american {
            false => day(year, other, one),
            true if other > 12 => day(year, one, other),
            true => None,
        }
    });
    let year = found.first().map(|found: &FoundRange| found.range.first.year()).or_else(|| any_year(text));
    let with_year = |written: Option<Match<'_>>, month: i16, day: i16| {
        let written = number(written).or(today.is_none().then_some(year).flatten());
        written.or_else(|| next_year_of(month, day, today?)).or(year)
    };
    let days = |year: Option<Match<'_>>, month: i16, first: Option<i16>, last: Option<i16>| {
        let year = with_year(year, month, first?)?;
        Some(DateRange { first: day(year, month, first?)?.first, last: day(year, month, last?)?.last })
    };
    add_all(&mut found, &DAYS_MONTH, text, |captures| {
        days(captures.get(4), month(captures.get(3))?, number(captures.get(1)), number(captures.get(2)))
    });
    add_all(&mut found, &MONTH_DAYS, text, |captures| {
        days(captures.get(4), month(captures.get(1))?, number(captures.get(2)), number(captures.get(3)))
    });
    add_all(&mut found, &DAY_MONTH, text, |captures| {
        let (number_of_day, month) = (number(captures.get(1))?, month(captures.get(2))?);
        day(with_year(captures.get(3), month, number_of_day)?, month, number_of_day)
    });
    add_all(&mut found, &MONTH_DAY, text, |captures| {
        let (number_of_day, month) = (number(captures.get(2))?, month(captures.get(1))?);
        day(with_year(captures.get(3), month, number_of_day)?, month, number_of_day)
    });
    add_all(&mut found, &MONTH_YEAR, text, |captures| {
        months(number(captures.get(2))?, month(captures.get(1))?, 1)
    });
    add_all(&mut found, &QUARTER, text, |captures| {
        let quarter = number(captures.get(1)).or(number(captures.get(2)))?;
        months(number(captures.get(3))?, quarter * 3 - 2, 3)
    });
    add_all(&mut found, &YEAR, text, |captures| months(number(captures.get(1))?, 1, 12));
    let days: Vec<_> = found.iter().map(|found| (found.place.start, found.range.first)).collect();
    add_all(&mut found, &DAY, text, |captures| {
        let start = captures.get(0)?.start();
        let before = days.iter().filter(|(place, _)| *place < start).max_by_key(|(place, _)| *place);
        let near = before.map(|(_, date)| *date).or(today)?;
        day(near.year(), i16::from(near.month()), number(captures.get(1))?)
    });
    found
}

/// Adds the matches of `pattern` that overlap no known date.
fn add_all(
    found: &mut Vec<FoundRange>,
    pattern: &Regex,
    text: &str,
    read: impl Fn(&Captures<'_>) -> Option<DateRange>,
) {
    for captures in pattern.captures_iter(text) {
        let Some(place) = captures.get(0).map(|whole| whole.range()) else { continue };
        let overlaps = |other: &FoundRange| place.start < other.place.end && other.place.start < place.end;
        if found.iter().any(overlaps) {
            continue;
        }
        found.extend(read(&captures).map(|range| FoundRange { place, range }));
    }
}

fn number(text: Option<Match<'_>>) -> Option<i16> {
    text?.as_str().parse().ok()
}

fn month(text: Option<Match<'_>>) -> Option<i16> {
    let name = text?.as_str();
    MONTHS.iter().zip(1..).find_map(|(month, number)| (*month == name).then_some(number))
}

fn day(year: i16, month: i16, day: i16) -> Option<DateRange> {
    Date::new(year, month.try_into().ok()?, day.try_into().ok()?).ok().map(DateRange::day)
}

/// Returns the period of `count` months.
fn months(year: i16, month: i16, count: i8) -> Option<DateRange> {
    let first = Date::new(year, month.try_into().ok()?, 1).ok()?;
    let last = first.checked_add(i64::from(count).months()).ok()?.yesterday().ok()?;
    Some(DateRange { first, last })
}

fn any_year(text: &str) -> Option<i16> {
    static ANY_YEAR: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:19|20)\d{2}\b"));
    number(ANY_YEAR.find(text))
}

/// Returns the year of the first date with `month` and `day` that is not before `today`.
fn next_year_of(month: i16, day: i16, today: Date) -> Option<i16> {
    let this_year = Date::new(today.year(), month.try_into().ok()?, day.try_into().ok()?).ok()?;
    Some(if this_year < today { today.year() + 1 } else { today.year() })
}

fn relative(words: &str, today: Date) -> Option<DateRange> {
    let days = |count: i64| today.checked_add(count.days()).ok();
    let single = |count: i64| days(count).map(DateRange::day);
    match words {
        "today" | "tonight" => single(0),
        "tomorrow" => single(1),
        "day after tomorrow" => single(2),
        "yesterday" => single(-1),
        "day before yesterday" => single(-2),
        _ => {
            let weeks = if words.starts_with("next") {
                1
            } else if words.starts_with("last") {
                -1
            } else {
                0
            };
            let monday = today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).ok()?;
            let span = |from: i64, to: i64| {
                let monday = monday.checked_add((weeks * 7).days()).ok()?;
                let at = |offset: i64| monday.checked_add(offset.days()).ok();
                Some(DateRange { first: at(from)?, last: at(to)? })
            };
            match words.rsplit(' ').next() {
                Some("week") => span(0, 6),
                Some("weekend") => span(5, 6),
                Some("month") => {
                    let moved = today.checked_add(weeks.months()).ok()?;
                    months(moved.year(), i16::from(moved.month()), 1)
                }
                Some("year") => months(i16::try_from(i64::from(today.year()) + weeks).ok()?, 1, 12),
                _ => None,
            }
        }
    }
}

fn distance(captures: &Captures<'_>, today: Date) -> Option<Date> {
    let count: i64 = captures.get(1).or(captures.get(3))?.as_str().parse().ok()?;
    let count = if captures.get(5).is_some_and(|word| word.as_str() == "ago") { -count } else { count };
    let span: Span = match captures.get(2).or(captures.get(4))?.as_str() {
        "day" => Span::new().try_days(count).ok()?,
        "week" => Span::new().try_weeks(count).ok()?,
        _ => Span::new().try_months(count).ok()?,
    };
    today.checked_add(span).ok()
}

/// Returns the next such weekday after `today`, or the last one before it for `last Monday`.
fn weekday(captures: &Captures<'_>, today: Date) -> Option<Date> {
    let name = captures.get(2)?.as_str();
    let (_, weekday) = WEEKDAYS.iter().find(|(known, _)| *known == name)?;
    let is_last = captures.get(1).is_some_and(|word| word.as_str() == "last");
    today.nth_weekday(if is_last { -1 } else { 1 }, *weekday).ok()
}
