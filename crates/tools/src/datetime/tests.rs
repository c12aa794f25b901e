use haft_core::{Json, Timestamp, ToolContext};

use super::{CurrentDatetime, DatetimeError, DatetimeFormat, get_current_datetime};
use crate::Clock;

/// 2026-11-21T09:30:00Z.
const NOW: Timestamp = Timestamp::from_unix_millis(1_795_253_400_000);

fn tell(format: DatetimeFormat, timezone: &str) -> Result<CurrentDatetime, String> {
    let cx = ToolContext::default().with_state(Clock::fixed(NOW));
    let told = get_current_datetime(format, timezone.to_owned(), &cx);
    told.map(|Json(datetime)| datetime).map_err(|error| error.to_string())
}

fn check(format: DatetimeFormat, timezone: &str, datetime: &str) {
    let expected = CurrentDatetime { datetime: datetime.to_owned(), format, timezone: timezone.to_owned() };
    assert_eq!(tell(format, timezone), Ok(expected));
}

#[test]
fn each_format_is_written_as_documented() {
    check(DatetimeFormat::Iso, "UTC", "2026-11-21T09:30:00+00:00");
    check(DatetimeFormat::Iso, "Asia/Tokyo", "2026-11-21T18:30:00+09:00");
    check(DatetimeFormat::Rfc2822, "Asia/Tokyo", "Sat, 21 Nov 2026 18:30:00 +0900");
    check(DatetimeFormat::Unix, "Asia/Tokyo", "1795253400");
    check(DatetimeFormat::Date, "Pacific/Auckland", "2026-11-21");
    check(DatetimeFormat::Time, "America/New_York", "04:30:00");
}

#[test]
fn a_zone_is_found_in_any_case_and_named_as_the_database_does() {
    let told = tell(DatetimeFormat::Date, "europe/paris").map(|told| told.timezone);
    assert_eq!(told.as_deref(), Ok("Europe/Paris"));
}

fn check_unknown(timezone: &str, message: &str) {
    assert_eq!(tell(DatetimeFormat::Iso, timezone), Err(message.to_owned()));
}

#[test]
fn an_unknown_zone_suggests_the_closest() {
    let advice = "(names are those of the IANA database, such as \"Europe/Paris\" or \"UTC\")";
    for (wrong, right) in [
        ("Tokyo", "Asia/Tokyo"),
        ("New York", "America/New_York"),
        ("Asia/Tokio", "Asia/Tokyo"),
        ("Europe/Pairs", "Europe/Paris"),
    ] {
        check_unknown(wrong, &format!("unknown timezone \"{wrong}\", did you mean \"{right}\"? {advice}"));
    }
    // Looking for a name that is like a long one would take minutes, and reading it as long.
    for length in [65, 1 << 20] {
        let name = "Asia/Tokyo".repeat(length / 10 + 1);
        check_unknown(&name, &format!("unknown timezone \"{}…\" {advice}", &name[..64]));
    }
    // A suggestion that is wrong is worse than none.
    for wrong in ["PST", "CEST", "UTC+9", "the moon", ""] {
        check_unknown(wrong, &format!("unknown timezone \"{wrong}\" {advice}"));
    }
}

#[test]
fn a_clock_that_gives_no_date_says_so() {
    let clock = Clock::fixed(Timestamp::from_unix_millis(i64::MAX));
    let cx = ToolContext::default().with_state(clock);
    let told = get_current_datetime(DatetimeFormat::Iso, "UTC".to_owned(), &cx);
    assert!(matches!(told, Err(DatetimeError::Clock(_))));
}
