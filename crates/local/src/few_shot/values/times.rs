//! Times of day.

use std::sync::LazyLock;

use jiff::civil::Time;
use regex::{Captures, Regex};

use super::quantities::pattern;

/// `9:15`, `9:15 pm`, `9h15`, `09:15:00`, and `9.15 pm`.
static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(\d{1,2})(?::|h)(\d{2})(?::\d{2})?(?: ?(am|pm)\b)?|\b(\d{1,2})\.(\d{2}) ?(am|pm)\b")
});
/// `9 pm`, `9 o'clock`, and `9 Uhr`.
static HOUR: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(\d{1,2})(?: ?(am|pm)| ?uhr|o'clock)\b"));
/// `half past nine` and `10 minutes to nine`, after the number words were replaced by digits.
static RELATIVE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(half|quarter|\d{1,2})(?: minutes?)? (past|after|to|before) (\d{1,2}|noon|midnight)\b(?: ?(am|pm)\b)?",
    )
});
/// `at nine`, with nothing after it that makes the number a quantity.
static BARE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:at|by|until|till|before|after|from) (?<bare>\d{1,2})(?:$|[,?!]|\.(?:$| )| (?:on|tomorrow|today|tonight|in the|at night|and|for|with|sharp)\b)",
    )
});
/// `2 to 4 pm`. The first time has the mark of the second.
static RANGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(\d{1,2})(?: to | until | till | and | ?[-\u{2013}] ?)(\d{1,2})(?::\d{2})? ?(am|pm)\b")
});
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(noon|midday|midnight)\b"));

/// Returns `text`, which is normalized, without its times in digits.
pub(super) fn remove(text: &str) -> String {
    let patterns: [&LazyLock<Regex>; 4] = [&RANGE, &RELATIVE, &CLOCK, &HOUR];
    patterns.iter().fold(text.to_owned(), |text, pattern| pattern.replace_all(&text, " ").into_owned())
}

/// The maximum distance in bytes between a time and the part of the day that belongs to it.
const PART_OF_DAY_DISTANCE: usize = 24;

/// The part of the day to which a time belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Morning,
    Afternoon,
    /// The evening or the hours after midnight.
    Night,
}

/// Finds the times in `text`, which is normalized. A time that may be in the morning or in the
/// afternoon gives two times.
pub(super) fn find(text: &str) -> Vec<Time> {
    let mut found = Vec::new();
    let mut add = |captures: &Captures<'_>, hour: Option<i8>, minute: Option<i8>, mark: Option<&str>| {
        let (Some(hour), Some(minute), Some(whole)) = (hour, minute, captures.get(0)) else { return };
        // The text after a bare number, such as `at night`, is not a part of the time.
        let end = captures.name("bare").map_or(whole.end(), |number| number.end());
        let half = match (mark, whole.as_str().starts_with('0')) {
            (Some("am"), _) | (None, true) => Some(Half::Morning),
            (Some(_), _) => Some(Half::Afternoon),
            (None, false) => part_of_day(text, whole.start(), end),
        };
        for time in readings(hour, minute, half) {
            if !found.contains(&time) {
                found.push(time);
            }
        }
    };
    let number = |captures: &Captures<'_>, index: usize| captures.get(index)?.as_str().parse::<i8>().ok();
    for captures in RELATIVE.captures_iter(text).filter(|captures| is_relative(text, captures)) {
        let hour = match captures.get(3).map(|hour| hour.as_str()) {
            Some("noon") => Some(12),
            Some("midnight") => Some(24),
            _ => number(&captures, 3),
        };
        let minutes = match captures.get(1).map(|part| part.as_str()) {
            Some("half") => Some(30),
            Some("quarter") => Some(15),
            _ => number(&captures, 1),
        };
        let is_before = captures.get(2).is_some_and(|word| matches!(word.as_str(), "to" | "before"));
        let (hour, minute) = match is_before {
            true => {
                (hour.map(|hour| if hour == 1 { 12 } else { hour - 1 }), minutes.map(|minutes| 60 - minutes))
            }
            false => (hour.map(|hour| hour % 24), minutes),
        };
        add(&captures, hour, minute, captures.get(4).map(|mark| mark.as_str()));
    }
    // The hour of `half past nine` and the minutes of `9:15 pm` are no times of their own.
    let blank = |captures: &Captures<'_>| " ".repeat(captures.get(0).map_or(0, |whole| whole.as_str().len()));
    let rest = RELATIVE.replace_all(text, |captures: &Captures<'_>| match is_relative(text, captures) {
        true => blank(captures),
        false => captures.get(0).map_or_else(String::new, |whole| whole.as_str().to_owned()),
    });
    for captures in CLOCK.captures_iter(&rest) {
        let (hour, minute) =
            (number(&captures, 1).or(number(&captures, 4)), number(&captures, 2).or(number(&captures, 5)));
        add(&captures, hour, minute, captures.get(3).or(captures.get(6)).map(|mark| mark.as_str()));
    }
    for captures in RANGE.captures_iter(&rest) {
        // From 11 to 2 pm
        let crosses_noon = number(&captures, 1) > number(&captures, 2);
        let mark = captures.get(3).map(|mark| if crosses_noon { "am" } else { mark.as_str() });
        let start = captures.get(0).and_then(|whole| rest.get(..whole.start())).unwrap_or_default();
        if !start.ends_with([':', '.']) {
            add(&captures, number(&captures, 1), Some(0), mark);
        }
    }
    let rest = CLOCK.replace_all(&rest, blank);
    for captures in HOUR.captures_iter(&rest) {
        add(&captures, number(&captures, 1), Some(0), captures.get(2).map(|mark| mark.as_str()));
    }
    for captures in BARE.captures_iter(&rest) {
        add(&captures, number(&captures, 1), Some(0), None);
    }
    for captures in NAME.captures_iter(&rest) {
        let hour = if captures.get(1).is_some_and(|name| name.as_str() == "midnight") { 0 } else { 12 };
        add(&captures, Some(hour), Some(0), Some(if hour == 0 { "am" } else { "pm" }));
    }
    found
}

/// Returns `true` if `captures` of [`RELATIVE`] are a time: `10 to 9`. A range (`from 10 to 4`,
/// `9:10 to 10`) and a day of a month (`May 5 after 4 pm`) are not.
fn is_relative(text: &str, captures: &Captures<'_>) -> bool {
    const MINUTES_TO: [&str; 4] = ["5", "10", "20", "25"];
    let part = |index: usize| captures.get(index).map_or("", |part| part.as_str());
    let (minutes, word) = (part(1), part(2));
    let is_explicit = !minutes.starts_with(|letter: char| letter.is_ascii_digit())
        || captures.get(0).is_some_and(|whole| whole.as_str().contains("minute"));
    let before = captures.get(0).and_then(|whole| text.get(..whole.start())).unwrap_or_default();
    let is_range = ["from ", "between ", ":", "."].iter().any(|end| before.ends_with(end));
    is_explicit
        || match word {
            "to" => MINUTES_TO.contains(&minutes) && !is_range,
            "past" => true,
            _ => false,
        }
}

/// Returns the first and the last of `times`, the times of `text`, which is normalized. Returns
/// `None` if `text` has other times, or if it does not have the range between them.
pub(super) fn range(text: &str, times: &[Time]) -> Option<(Time, Time)> {
    static RANGE: LazyLock<Regex> = LazyLock::new(|| {
        let time = r"\d{1,2}(?::\d\d)? ?(?:am|pm)?";
        pattern(&format!(
            r"\bfrom {time} ?(?:to|until|till|-|–) ?{time}|{time} ?[-–] ?\d{{1,2}}(?::\d\d| ?am| ?pm)"
        ))
    });
    let [one, other] = *times else { return None };
    let is_range = !are_readings_of_one(one, other) && RANGE.is_match(text);
    is_range.then(|| (one.min(other), one.max(other)))
}

/// Returns `true` if `one` and `other` may be the readings of the same time, such as `at nine`.
pub(super) fn are_readings_of_one(one: Time, other: Time) -> bool {
    (one.hour() - other.hour()).abs() == 12 && one.minute() == other.minute()
}

/// Parses `text` as a single time: `09:15`, `9:15 pm`, or `9 pm`.
pub(in crate::few_shot) fn parse_time(text: &str) -> Option<Time> {
    let text = super::normalize(text);
    let whole = |pattern: &Regex| {
        let captures = pattern.captures(&text)?;
        (captures.get(0)?.as_str() == text).then_some(captures)
    };
    let number = |captures: &Captures<'_>, index: usize| captures.get(index)?.as_str().parse::<i8>().ok();
    let (hour, minute, mark) = match (whole(&CLOCK), whole(&HOUR)) {
        (Some(captures), _) => (
            number(&captures, 1).or(number(&captures, 4))?,
            number(&captures, 2).or(number(&captures, 5))?,
            captures.get(3).or(captures.get(6)).map(|mark| mark.as_str() == "am"),
        ),
        (None, Some(captures)) => {
            (number(&captures, 1)?, 0, captures.get(2).map(|mark| mark.as_str() == "am"))
        }
        (None, None) => return None,
    };
    let half = match mark {
        Some(true) => Some(Half::Morning),
        Some(false) => Some(Half::Afternoon),
        None => None,
    };
    readings(hour, minute, half).into_iter().next()
}

/// Returns the times that `hour` and `minute` can mean: the given time first, and then the time 12
/// hours later, if `half` is unknown and the hour is at most 12.
fn readings(hour: i8, minute: i8, half: Option<Half>) -> Vec<Time> {
    let hours = match half {
        Some(Half::Morning) if hour <= 12 => vec![hour % 12],
        Some(Half::Afternoon) if hour <= 12 => vec![hour % 12 + 12],
        // Two at night is in the morning, and ten at night is in the evening.
        Some(Half::Night) if hour <= 5 || hour == 12 => vec![hour % 12],
        Some(Half::Night) if hour < 12 => vec![hour + 12],
        None if (1..=12).contains(&hour) => vec![hour, (hour + 12) % 24],
        _ => vec![hour],
    };
    hours.into_iter().filter_map(|hour| Time::new(hour, minute, 0, 0).ok()).collect()
}

/// Returns the half of the day of the time at `start..end`, from words such as `in the morning` or
/// `tonight` near it in the same clause.
fn part_of_day(text: &str, start: usize, end: usize) -> Option<Half> {
    const CLAUSE_ENDS: [char; 5] = [',', '.', ';', '?', '!'];
    let after = text.get(end..).unwrap_or_default();
    let after = after.split(CLAUSE_ENDS).next().unwrap_or_default();
    // "Every Saturday and Sunday morning"
    static WEEKDAYS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^ (?:(?:every|on|and|mon|tues|wednes|thurs|fri|satur|sun)(?:days?)?\b,? ?)+")
    });
    let after = WEEKDAYS.find(after).and_then(|days| after.get(days.end()..)).unwrap_or(after);
    let after = after.get(..after.floor_char_boundary(PART_OF_DAY_DISTANCE)).unwrap_or(after);
    let from = text.ceil_char_boundary(start.saturating_sub(PART_OF_DAY_DISTANCE));
    let before = text.get(from..start).unwrap_or_default();
    let before = before.rsplit(CLAUSE_ENDS).next().unwrap_or_default();
    [after, before].into_iter().find_map(|text| {
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if has(&["morning", "breakfast"]) {
            Some(Half::Morning)
        } else if has(&["afternoon", "evening", "tonight", "dinner"]) {
            Some(Half::Afternoon)
        } else if has(&["at night"]) {
            Some(Half::Night)
        } else {
            None
        }
    })
}
