use haft_core::{Json, Timestamp, ToolContext};

use super::{CurrentDatetime, DatetimeError, DatetimeFormat, get_current_datetime};
use crate::Clock;

/// The current time in the tests: 2026-11-21T09:30:00Z.
const NOW: Timestamp = Timestamp::from_unix_millis(1_795_253_400_000);

fn get(format: DatetimeFormat, timezone: &str) -> Result<CurrentDatetime, String> {
    let cx = ToolContext::default().with_state(Clock::fixed(NOW));
    let result = get_current_datetime(format, timezone.to_owned(), &cx);
    result.map(|Json(datetime)| datetime).map_err(|error| error.to_string())
}

fn check(format: DatetimeFormat, timezone: &str, datetime: &str) {
    let expected = CurrentDatetime { datetime: datetime.to_owned(), format, timezone: timezone.to_owned() };
    assert_eq!(get(format, timezone), Ok(expected));
}

#[test]
fn formats_match_their_documentation() {
    check(DatetimeFormat::Iso, "UTC", "2026-11-21T09:30:00+00:00");
    check(DatetimeFormat::Iso, "Asia/Tokyo", "2026-11-21T18:30:00+09:00");
    check(DatetimeFormat::Rfc2822, "Asia/Tokyo", "Sat, 21 Nov 2026 18:30:00 +0900");
    check(DatetimeFormat::Unix, "Asia/Tokyo", "1795253400");
    check(DatetimeFormat::Date, "Pacific/Auckland", "2026-11-21");
    check(DatetimeFormat::Time, "America/New_York", "04:30:00");
}

#[test]
fn zone_name_is_case_insensitive_and_returned_in_canonical_case() {
    let timezone = get(DatetimeFormat::Date, "europe/paris").map(|result| result.timezone);
    assert_eq!(timezone.as_deref(), Ok("Europe/Paris"));
}

fn check_unknown(timezone: &str, message: &str) {
    assert_eq!(get(DatetimeFormat::Iso, timezone), Err(message.to_owned()));
}

#[test]
fn unknown_zone_suggests_the_closest() {
    let advice = "(names are those of the IANA database, such as \"Europe/Paris\" or \"UTC\")";
    for (wrong, right) in [
        ("Tokyo", "Asia/Tokyo"),
        ("New York", "America/New_York"),
        ("Asia/Tokio", "Asia/Tokyo"),
        ("Europe/Pairs", "Europe/Paris"),
    ] {
        check_unknown(wrong, &format!("unknown timezone \"{wrong}\", did you mean \"{right}\"? {advice}"));
    }
    // Long names get no suggestion, because the comparison with every zone would take minutes.
    for length in [65, 1 << 20] {
        let name = "Asia/Tokyo".repeat(length / 10 + 1);
        check_unknown(&name, &format!("unknown timezone \"{}…\" {advice}", &name[..64]));
    }
    // A wrong suggestion is worse than no suggestion.
    for wrong in ["PST", "CEST", "UTC+9", "the moon", ""] {
        check_unknown(wrong, &format!("unknown timezone \"{wrong}\" {advice}"));
    }
}

#[test]
fn out_of_range_clock_is_an_error() {
    let clock = Clock::fixed(Timestamp::from_unix_millis(i64::MAX));
    let cx = ToolContext::default().with_state(clock);
    let result = get_current_datetime(DatetimeFormat::Iso, "UTC".to_owned(), &cx);
    assert!(matches!(result, Err(DatetimeError::ClockOutOfRange(_))));
}
