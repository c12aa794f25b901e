//! The quantities, dates and times in a text, with the values that they have in a tool call.
//!
//! A small model copies words well and computes badly: it writes 14:30 for "half past three in the
//! afternoon", and 28/02/2025 for "tomorrow". [`TextValues`] reads English phrases like these. The
//! arguments of a call are compared with its values; see [`correction`](super::correction).

mod dates;
mod quantities;
mod times;
mod units;

use jiff::civil::{Date, Time};
use text2num::{Language, replace_numbers_in_text};

pub(super) use self::dates::{DateRange, parse_date};
pub(super) use self::quantities::Quantity;
pub(super) use self::times::parse_time;
pub(super) use self::units::Unit;

/// The values in a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct TextValues {
    pub(super) quantities: Vec<Quantity>,
    pub(super) dates: Vec<DateRange>,
    pub(super) times: Vec<Time>,
}

impl TextValues {
    /// Reads the values in `text`. `today` is the date to which words such as `tomorrow` refer.
    pub(super) fn new(text: &str, today: Option<Date>) -> Self {
        let text = normalize(text);
        Self {
            quantities: quantities::find(&text),
            dates: dates::find(&text, today),
            times: times::find(&text),
        }
    }

    /// Returns the date that `text` gives for today, as in "Today is 3 May 2025".
    pub(super) fn today(text: &str) -> Option<Date> {
        dates::find_today(&normalize(text))
    }
}

/// Returns `text` in lower case, with digits for number words, and with one form for phrases that
/// have several.
fn normalize(text: &str) -> String {
    /// The texts are replaced in this order.
    const REPLACEMENTS: [(&str, &str); 17] = [
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
        (" and a half hours", ".5 hours"),
        (" and a half", ".5"),
        ("quarter of an hour", "0.25 hours"),
        (" an hour", " 1 hour"),
        (" a minute", " 1 minute"),
        (" a week", " 1 week"),
    ];
    let lower = replace_numbers_in_text(&text.to_lowercase(), &Language::english(), 0.0);
    let replaced = REPLACEMENTS.iter().fold(format!(" {lower}"), |text, (from, to)| text.replace(from, to));
    replaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
