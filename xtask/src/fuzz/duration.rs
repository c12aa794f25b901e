//! Parses durations on the command line, such as `1h30m`.

use std::time::Duration;

use crate::failure::Failure;

/// Parses a duration above zero, such as `1h`, `30m`, `90s` or `1h30m`.
pub(super) fn parse(text: &str) -> Result<Duration, Failure> {
    parse_seconds(text).filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(|| {
        Failure::usage(format!(
            "`{text}` is not a duration: write a number and a unit, for example `1h` or `30m`"
        ))
    })
}

fn parse_seconds(text: &str) -> Option<u64> {
    text.split_inclusive(|it: char| !it.is_ascii_digit()).try_fold(0_u64, |sum, part| {
        let (unit, number) = [('h', 3_600), ('m', 60), ('s', 1)]
            .into_iter()
            .find_map(|(unit, seconds)| Some((seconds, part.strip_suffix(unit)?)))?;
        sum.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)
    })
}
