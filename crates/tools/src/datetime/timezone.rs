use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use strsim::normalized_damerau_levenshtein;

/// How much alike a name and a suggestion are at least, from 0 to 1: one letter in five may be wrong.
const LIKENESS: f64 = 0.8;

/// The longest name that a suggestion is looked for, in characters: the time that it takes grows with the name's length.
const LONGEST: usize = 64;

/// That there is no time zone of a name. The text tells a model which one it may have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTimezone {
    /// The name that was asked for, or the first 64 characters of it and `…`.
    pub name: String,
    /// The name of the zone that is closest, if any is close.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownTimezone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown timezone \"{}\"", self.name)?;
        if let Some(suggestion) = &self.suggestion {
            write!(f, ", did you mean \"{suggestion}\"?")?;
        }
        f.write_str(" (names are those of the IANA database, such as \"Europe/Paris\" or \"UTC\")")
    }
}

impl std::error::Error for UnknownTimezone {}

/// The zone of a name of the IANA database that comes with the program, in any case.
pub(super) fn find(name: &str) -> Result<TimeZone, UnknownTimezone> {
    let zones = TimeZoneDatabase::bundled();
    zones.get(name).map_err(|_| match name.char_indices().nth(LONGEST).map(|(end, _)| name.split_at(end)) {
        Some((start, _)) => UnknownTimezone { name: format!("{start}…"), suggestion: None },
        None => UnknownTimezone { name: name.to_owned(), suggestion: closest(name, &zones) },
    })
}

fn closest(name: &str, zones: &TimeZoneDatabase) -> Option<String> {
    let wanted = name.trim().replace(' ', "_").to_ascii_lowercase();
    // Abbreviations are all alike: `PST` and `CEST` are no misspellings of `EST`.
    let places = zones.available().filter(|zone| zone.as_str().contains('/'));
    let likely = places.map(|zone| (likeness(&wanted, zone.as_str()), zone));
    let best = likely.filter(|(likeness, _)| *likeness >= LIKENESS).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, zone)| zone.as_str().to_owned())
}

/// Compares with the whole name and with the city in it: `Tokyo` means `Asia/Tokyo`.
fn likeness(wanted: &str, zone: &str) -> f64 {
    let zone = zone.to_ascii_lowercase();
    let city = zone.rsplit('/').next().unwrap_or(&zone);
    normalized_damerau_levenshtein(wanted, &zone).max(normalized_damerau_levenshtein(wanted, city))
}
