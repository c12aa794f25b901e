use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use strsim::normalized_damerau_levenshtein;

/// The minimum similarity of a suggested name to the requested name, from 0 to 1. At 0.8, about one
/// letter in five may be wrong.
const MIN_SIMILARITY: f64 = 0.8;

/// The maximum length, in characters, of an unknown name for which a suggestion is searched. For
/// longer names, the search would take too long.
const MAX_NAME_CHARS: usize = 64;

/// The error for an unknown time zone. Its message suggests a similar name, if there is one, so
/// that a model can correct its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTimezone {
    /// The requested name. A name with more than 64 characters is truncated and ends with `…`.
    pub name: String,
    /// The most similar name in the IANA database, among the names with a `/`. `None` if no name is
    /// similar enough, or if the requested name has more than 64 characters.
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

/// Finds the time zone `name` in the bundled IANA database. Case is ignored.
pub(super) fn find_timezone(name: &str) -> Result<TimeZone, UnknownTimezone> {
    let zones = TimeZoneDatabase::bundled();
    zones.get(name).map_err(|_| {
        match name.char_indices().nth(MAX_NAME_CHARS).map(|(end, _)| name.split_at(end)) {
            Some((start, _)) => UnknownTimezone { name: format!("{start}…"), suggestion: None },
            None => UnknownTimezone { name: name.to_owned(), suggestion: closest_name(name, &zones) },
        }
    })
}

fn closest_name(name: &str, zones: &TimeZoneDatabase) -> Option<String> {
    let wanted = name.trim().replace(' ', "_").to_ascii_lowercase();
    // Abbreviations without `/` are never suggested, because they are too similar to each other:
    // `PST` and `CEST` are not misspellings of `EST`.
    let cities = zones.available().filter(|zone| zone.as_str().contains('/'));
    let scored = cities.map(|zone| (similarity(&wanted, zone.as_str()), zone));
    let best = scored.filter(|(score, _)| *score >= MIN_SIMILARITY).max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, zone)| zone.as_str().to_owned())
}

/// Returns the similarity of `wanted` to the name or to the city of `zone`, whichever is greater.
/// For example, `tokyo` matches `Asia/Tokyo`.
fn similarity(wanted: &str, zone: &str) -> f64 {
    let zone = zone.to_ascii_lowercase();
    let city = zone.rsplit('/').next().unwrap_or(&zone);
    normalized_damerau_levenshtein(wanted, &zone).max(normalized_damerau_levenshtein(wanted, city))
}
