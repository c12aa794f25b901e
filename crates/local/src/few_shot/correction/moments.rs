//! Correction of dates and times.

use jiff::civil::{Date, Time};
use jiff::{SignedDuration, Span};
use serde_json::{Map, Value, json};

use super::Sources;
use crate::few_shot::grounding::has_word_of;
use crate::few_shot::values::{DateRange, Unit, parse_date, parse_time};

/// Words in the names of parameters for the end of a period or for a new time, which the model may
/// compute.
const END_WORDS: [&str; 14] = [
    "before", "checkout", "deadline", "due", "end", "ends", "finish", "max", "new", "return", "till", "to",
    "until", "updated",
];

/// A text argument and its parameter.
pub(super) struct TextArgument<'a> {
    pub(super) text: &'a str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
}

/// The values that may replace an argument.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The values in the question.
    pub(super) known: Vec<Value>,
    /// The values that result from adding a duration.
    pub(super) computed: Vec<Value>,
}

impl Candidates {
    fn known(known: Vec<Value>) -> Self {
        Self { known, computed: Vec::new() }
    }

    /// Returns the known values that no argument in `arguments` has, the computed values if there
    /// are none, or else all known values.
    pub(super) fn unused(self, name: &str, arguments: &Map<String, Value>) -> Vec<Value> {
        let is_used = |value: &Value| arguments.iter().any(|(other, used)| other != name && used == value);
        let unused = |values: &[Value]| -> Vec<Value> {
            values.iter().filter(|value| !is_used(value)).cloned().collect()
        };
        let sources = [unused(&self.known), unused(&self.computed)];
        sources.into_iter().find(|values| !values.is_empty()).unwrap_or(self.known)
    }
}

impl TextArgument<'_> {
    /// Returns the dates of the question, in the form of the argument, if the argument is a date
    /// that the conversation does not contain. Returns `None` if the argument is no date.
    pub(super) fn date_candidates(&self, sources: &Sources<'_>) -> Option<Candidates> {
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
            return Some(Candidates::default());
        }
        let is_end = has_word_of(self.name, &END_WORDS);
        let other_clock = if is_end { None } else { other_clock(rest, sources) };
        let clock = other_clock.as_deref().unwrap_or(rest);
        let format = |day: Date| match clock {
            "" => json!(day.to_string()),
            clock => json!(format!("{day}{}{clock}", self.text.get(10..11).unwrap_or_default())),
        };
        let mut known = sources.all().into_iter().flat_map(|values| &values.dates);
        let mut days = sources.replacing().into_iter().map(|values| days_of(&values.dates));
        let days = days.find(|days| !days.is_empty()).unwrap_or_default().into_iter().map(format);
        let Some(written) = written else { return Some(Candidates::known(days.collect())) };
        if known.any(|range| range.contains(written)) {
            return Some(if is_iso && other_clock.is_none() {
                Candidates::default()
            } else {
                Candidates::known(vec![format(written)])
            });
        }
        // The date may be computed: the last of three nights.
        if !are_computable(sources) {
            return Some(Candidates::default());
        }
        let computed = computed_days(&days_of(&sources.question.dates), sources);
        if computed.contains(&written) {
            return Some(Candidates::default());
        }
        Some(Candidates { known: days.collect(), computed: computed.into_iter().map(format).collect() })
    }

    /// Returns the months of the question, if the argument must be a month such as `2025-05` and is
    /// not in this form. Returns `None` if the argument is no month.
    pub(super) fn month_candidates(&self, sources: &Sources<'_>) -> Option<Candidates> {
        let must_be_month = self.description.contains("YYYY-MM") && !self.description.contains("YYYY-MM-DD");
        let has_form = self.text.len() == 7 && parse_date(&format!("{}-01", self.text)).is_some();
        if !must_be_month || has_form {
            return None;
        }
        let mut months = sources.replacing().into_iter().map(|values| {
            let is_month = |range: &&DateRange| {
                range.first.year() == range.last.year() && range.first.month() == range.last.month()
            };
            let dates = values.dates.iter().filter(is_month);
            let mut months: Vec<_> =
                dates.map(|range| json!(range.first.strftime("%Y-%m").to_string())).collect();
            months.dedup();
            months
        });
        Some(Candidates::known(months.find(|months| !months.is_empty())?))
    }

    /// Returns the times of the question, in the form of the argument, if the argument is a time
    /// that the conversation does not contain. Returns `None` if the argument is no time.
    pub(super) fn time_candidates(&self, sources: &Sources<'_>) -> Option<Candidates> {
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
            let is_changed = must_be_clock && same != self.text;
            return Some(if is_changed { Candidates::known(vec![same]) } else { Candidates::default() });
        }
        // The time may be computed: the end of a meeting of one hour.
        if (!is_clock && !must_be_clock) || !are_computable(sources) {
            return Some(Candidates::default());
        }
        let source = sources.replacing().into_iter().find(|values| !values.times.is_empty());
        let times = source.map(|values| values.times.as_slice()).unwrap_or_default();
        // "Half an hour, and nothing before ten" begins at ten at the earliest.
        let is_bound = !times.is_empty() && has_word_of(self.name, &["earliest"]);
        let is_later = || later_times(times, sources).any(|later| later == written);
        let is_computed = computed_times(&sources.question.times, sources).contains(&written);
        if (!is_bound || is_later()) && (is_computed || (times.is_empty() && has_duration(sources))) {
            return Some(Candidates::default());
        }
        let half_day = SignedDuration::from_hours(12);
        let other_half = [written.checked_add(half_day), written.checked_sub(half_day)];
        if let Some(known) = other_half.iter().flatten().find(|time| times.contains(time)) {
            return Some(Candidates::known(vec![format(known)]));
        }
        let computed = computed_once(times, sources).iter().map(format).collect();
        Some(Candidates { known: times.iter().map(format).collect(), computed })
    }
}

/// Returns the only time of the question in the form of `clock`, the time of day of an argument, if
/// the conversation does not contain `clock`: `09:00` for `17:00` and "9:00 am". Returns `None` if
/// the time may be computed, or if it is the beginning or the end of a day.
fn other_clock(clock: &str, sources: &Sources<'_>) -> Option<String> {
    let written = parse_time(clock)?;
    let is_known = sources.all().into_iter().any(|values| values.times.contains(&written));
    let is_end_of_day = ["00:00", "23:59"].iter().any(|end| clock.starts_with(end));
    if is_known || is_end_of_day || has_duration(sources) || sources.question.has_unclear_numbers {
        return None;
    }
    let source = sources.replacing().into_iter().find(|values| !values.times.is_empty())?;
    let time = source.times.first().filter(|_| !source.has_several_times())?;
    let form = if clock.matches(':').count() == 2 { "%H:%M:%S" } else { "%H:%M" };
    Some(time.strftime(form).to_string())
}

/// Returns `true` if all times and dates that the question implies can be computed: it has at most
/// one duration, in a form that is read.
fn are_computable(sources: &Sources<'_>) -> bool {
    match durations(sources).count() {
        0 => true,
        1 => !sources.question.has_unclear_numbers,
        _ => false,
    }
}

/// Returns `true` if the question has a duration, from which a time may be computed.
fn has_duration(sources: &Sources<'_>) -> bool {
    durations(sources).next().is_some()
}

fn durations<'a>(sources: &Sources<'a>) -> impl Iterator<Item = SignedDuration> + 'a {
    let seconds = sources.question.quantities.iter().filter_map(|quantity| quantity.in_unit(Unit::SECOND));
    let durations = seconds.filter_map(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
    durations.filter(SignedDuration::is_positive)
}

/// Returns the times that result from adding a duration of the question.
fn later_times<'a>(times: &'a [Time], sources: &Sources<'a>) -> impl Iterator<Item = Time> + 'a {
    let add = |duration: SignedDuration| times.iter().map(move |time| time.checked_add(duration).ok());
    durations(sources).flat_map(add).flatten()
}

/// Returns the times that result from adding or subtracting a duration of the question.
fn computed_once(times: &[Time], sources: &Sources<'_>) -> Vec<Time> {
    let subtract = |duration: SignedDuration| times.iter().map(move |time| time.checked_sub(duration).ok());
    let earlier = durations(sources).flat_map(subtract).flatten();
    later_times(times, sources).chain(earlier).collect()
}

/// Returns the times that result from one or two additions or subtractions.
fn computed_times(times: &[Time], sources: &Sources<'_>) -> Vec<Time> {
    let once = computed_once(times, sources);
    let twice = computed_once(&once, sources);
    [once, twice].concat()
}

/// Returns the days that result from adding or subtracting a duration of the question. The first of
/// several days may count.
fn computed_days(days: &[Date], sources: &Sources<'_>) -> Vec<Date> {
    let counts = durations(sources).map(|duration| duration.as_hours() / 24).filter(|count| *count > 0);
    let shift = |count: i64| {
        let counts = [count, -count, count - 1, 1 - count].map(|count| Span::new().try_days(count).ok());
        days.iter().flat_map(move |day| counts.into_iter().flatten().map(|span| day.checked_add(span).ok()))
    };
    counts.flat_map(shift).flatten().collect()
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
