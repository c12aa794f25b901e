//! Correction of dates and times.

use jiff::civil::{Date, Time};
use serde_json::{Value, json};

use super::Sources;
use crate::few_shot::values::{DateRange, Quantity, parse_date, parse_time};

/// A text argument and its parameter.
pub(super) struct TextArgument<'a> {
    pub(super) text: &'a str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
}

impl TextArgument<'_> {
    /// Returns the dates of the question, in the form of the argument, if the argument is a date
    /// that the conversation does not contain. Returns `None` if the argument is no date.
    pub(super) fn date_candidates(&self, sources: &Sources<'_>) -> Option<Vec<Value>> {
        let (text, rest) = self.text.split_once(['T', ' ']).filter(|(date, _)| date.len() == 10).unzip();
        let (text, rest) = (text.unwrap_or(self.text), rest.unwrap_or_default());
        let written = parse_date(text);
        if written.is_none() && !is_relative_date(text) {
            return None;
        }
        let is_iso = text.len() == 10 && text.as_bytes().get(4) == Some(&b'-');
        let must_be_iso =
            is_iso || self.description.contains("YYYY-MM-DD") || self.description.contains("ISO");
        if !must_be_iso {
            return Some(Vec::new());
        }
        let format = |day: Date| match rest {
            "" => json!(day.to_string()),
            rest => json!(format!("{day}{}{rest}", self.text.get(10..11).unwrap_or_default())),
        };
        let mut known = sources.all().into_iter().flat_map(|values| &values.dates);
        match written {
            Some(day) if known.any(|range| range.contains(day)) => {
                return Some(if is_iso { Vec::new() } else { vec![format(day)] });
            }
            // The date may be computed: the last of three nights.
            Some(_) if has_duration(sources) => return Some(Vec::new()),
            _ => {}
        }
        let days = sources.replacing().into_iter().map(|values| days_of(&values.dates));
        Some(
            days.into_iter()
                .find(|days| !days.is_empty())
                .unwrap_or_default()
                .into_iter()
                .map(format)
                .collect(),
        )
    }

    /// Returns the times of the question, in the form of the argument, if the argument is a time
    /// that the conversation does not contain. Returns `None` if the argument is no time.
    pub(super) fn time_candidates(&self, sources: &Sources<'_>) -> Option<Vec<Value>> {
        let written = parse_time(self.text)?;
        if self.name.to_lowercase().contains("duration")
            || self.description.to_lowercase().contains("duration")
        {
            return None;
        }
        let is_clock = self.text.len() == 5 || self.text.len() == 8;
        let must_be_clock = ["HH:MM", "24-hour", "24 hour", "24h", "hh:mm"]
            .iter()
            .any(|form| self.description.contains(form));
        let has_seconds = self.text.matches(':').count() == 2;
        let keeps_seconds = has_seconds && (!must_be_clock || self.description.contains("SS"));
        let format =
            |time: &Time| json!(time.strftime(if keeps_seconds { "%H:%M:%S" } else { "%H:%M" }).to_string());
        if sources.all().into_iter().any(|values| values.times.contains(&written)) {
            let same = format(&written);
            return Some(if must_be_clock && same != self.text { vec![same] } else { Vec::new() });
        }
        // The time may be computed: the end of a meeting of one hour.
        if (!is_clock && !must_be_clock) || has_duration(sources) {
            return Some(Vec::new());
        }
        let times =
            sources.replacing().into_iter().map(|values| &values.times).find(|times| !times.is_empty());
        Some(times.into_iter().flatten().map(format).collect())
    }
}

/// Returns `true` if the question has a duration, from which a date or a time may be computed.
fn has_duration(sources: &Sources<'_>) -> bool {
    sources.question.quantities.iter().any(Quantity::is_duration)
}

/// Returns the first and the last day of each period.
fn days_of(ranges: &[DateRange]) -> Vec<Date> {
    let mut days = Vec::new();
    for day in ranges.iter().flat_map(|range| [range.first, range.last]) {
        if !days.contains(&day) {
            days.push(day);
        }
    }
    days
}

/// Returns `true` if `text` is a date relative to today, such as `tomorrow` or `next Monday`.
fn is_relative_date(text: &str) -> bool {
    const WORDS: [&str; 4] = ["today", "tonight", "tomorrow", "yesterday"];
    let text = text.to_lowercase();
    WORDS.contains(&text.as_str()) || (text.ends_with("day") && !text.contains(char::is_numeric))
}
