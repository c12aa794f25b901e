use jiff::civil::{date, time};

use super::*;

fn numbers(text: &str) -> Vec<f64> {
    TextValues::new(text, None).quantities.iter().map(|quantity| quantity.number).collect()
}

fn minutes(text: &str) -> Vec<f64> {
    let minute = Unit::from_name("min").unwrap();
    let values = TextValues::new(text, None);
    values.quantities.iter().filter_map(|quantity| quantity.in_unit(minute)).collect()
}

fn times(text: &str) -> Vec<String> {
    let values = TextValues::new(text, None);
    values.times.iter().map(|time| time.strftime("%H:%M").to_string()).collect()
}

/// Returns the dates and periods of `text` if today is Monday, 1 September 2025.
fn dates(text: &str) -> Vec<String> {
    let values = TextValues::new(text, Some(date(2025, 9, 1)));
    let format = |range: &DateRange| match range.first == range.last {
        true => range.first.to_string(),
        false => format!("{} to {}", range.first, range.last),
    };
    values.dates.iter().map(format).collect()
}

#[test]
fn numbers_have_signs_and_words() {
    assert_eq!(numbers("add 3.5 and 1,250"), [3.5, 1250.0]);
    assert_eq!(numbers("thirty-five, one hundred and twenty"), [35.0, 120.0]);
    assert_eq!(numbers("36.72 north, 4.42 west"), [36.72, -4.42]);
    assert_eq!(numbers("33.4 degrees south and 70.6° W"), [-33.4, -70.6]);
    assert_eq!(numbers("minus 5, -6, 7 degrees below zero, (-8)"), [-5.0, -6.0, -7.0, 0.0, -8.0]);
    assert_eq!(numbers("17 minus 5, 4 - 6"), [17.0, 5.0, 4.0, 6.0]);
    assert_eq!(
        numbers("three point one four one five nine two six five three five eight nine seven"),
        [0.0; 0]
    );
    assert_eq!(numbers("rem_118, m-20417, LX318, #42"), [0.0; 0]);
    assert_eq!(numbers("3-5"), [3.0]);
    assert_eq!(numbers("two and a half thousand, three thousand"), [2500.0, 3000.0]);
}

#[test]
fn shares_are_fractions_of_one() {
    assert_eq!(numbers("35 percent, 7.5 %"), [0.35, 0.075]);
    assert_eq!(numbers("three quarters of the way"), [0.75]);
    assert_eq!(numbers("half of it, a quarter"), [0.5, 0.25]);
    assert_eq!(numbers("half past three"), [3.0]);
    assert_eq!(numbers("the first quarter of it"), [1.0]);
}

#[test]
fn durations_are_converted_and_added() {
    assert_eq!(minutes("for 45 minutes"), [45.0]);
    assert_eq!(minutes("by an hour and a half"), [90.0]);
    assert_eq!(minutes("half an hour, then a 10-minute break"), [30.0, 10.0]);
    assert_eq!(minutes("two and a half hours"), [150.0]);
    assert_eq!(minutes("an hour and a quarter"), [75.0]);
    assert_eq!(minutes("three quarters of an hour"), [45.0]);
    assert_eq!(minutes("1 hour and 30 minutes, 2h 15min"), [90.0, 135.0]);
    assert_eq!(minutes("for two hours"), [120.0]);
    assert_eq!(minutes("90 s"), [1.5]);
}

#[test]
fn times_have_all_usual_forms() {
    assert_eq!(times("at 9:15 pm"), ["21:15"]);
    assert_eq!(times("quarter past nine in the morning"), ["09:15"]);
    assert_eq!(times("after half past three in the afternoon"), ["15:30"]);
    assert_eq!(times("ten to eight in the evening"), ["19:50"]);
    assert_eq!(times("18:00, 6 p.m. and noon"), ["18:00", "12:00"]);
    assert_eq!(times("this evening at seven"), ["19:00"]);
    assert_eq!(times("at 7"), ["07:00", "19:00"]);
    assert_eq!(times("from 2 to 4 pm"), ["14:00", "16:00"]);
    assert_eq!(times("between 11 and 2 pm"), ["11:00", "14:00"]);
    assert_eq!(times("from 9:15 to 10:30 am"), ["09:15", "21:15", "10:30"]);
    assert_eq!(times("10 minutes after 9 am"), ["09:10"]);
    assert_eq!(times("on May 5 after 4 pm"), ["16:00"]);
    assert_eq!(times("at 2 at night, ten o'clock at night"), ["22:00", "02:00"]);
    assert_eq!(times("at 08:00 tonight"), ["08:00"]);
    assert_eq!(times("at midnight"), ["00:00"]);
    assert_eq!(times("add 3.50 and 12 at 5 percent"), [""; 0]);
    assert_eq!(parse_time("1 pm"), Some(time(13, 0, 0, 0)));
    assert_eq!(parse_time("09:15"), Some(time(9, 15, 0, 0)));
    assert_eq!(parse_time("9 oranges"), None);
}

#[test]
fn dates_have_all_usual_forms() {
    assert_eq!(
        dates("2025-08-09, 10 August 2025, August 11, 2025"),
        ["2025-08-09", "2025-08-10", "2025-08-11"]
    );
    assert_eq!(dates("the 9th of August 2026 at 5"), ["2026-08-09"]);
    assert_eq!(dates("14.04.2024 and 25/12/2024 and 12/25/2024"), ["2024-04-14", "2024-12-25"]);
    assert_eq!(dates("on 5 August 2026, then the 7th, the 8th item"), ["2026-08-05", "2026-08-07"]);
    assert_eq!(dates("on 3 March"), ["2026-03-03"]);
    assert_eq!(parse_date("28/02/2025"), Some(date(2025, 2, 28)));
    assert_eq!(parse_date("28 apples"), None);
}

#[test]
fn relative_dates_refer_to_today() {
    assert_eq!(dates("tomorrow, yesterday"), ["2025-09-02", "2025-08-31"]);
    assert_eq!(dates("on Wednesday and on Saturday"), ["2025-09-03", "2025-09-06"]);
    assert_eq!(dates("in two weeks"), ["2025-09-15"]);
    assert_eq!(dates("Monday, 1 September 2025"), ["2025-09-01"]);
    assert_eq!(dates("It's Monday, 1 September 2025."), [""; 0]);
    assert_eq!(TextValues::new("tomorrow", None).dates, []);
    let today = |text| TextValues::today(text);
    assert_eq!(today("Today is 28 February 2025."), Some(date(2025, 2, 28)));
    assert_eq!(today("It's Monday, 1 September 2025. Remind me"), Some(date(2025, 9, 1)));
    assert_eq!(today("The current date is 2025-03-04."), Some(date(2025, 3, 4)));
    assert_eq!(today("A flight on 2025-03-04"), None);
}

#[test]
fn periods_have_a_first_and_a_last_day() {
    assert_eq!(dates("the first quarter of 2024"), ["2024-01-01 to 2024-03-31"]);
    assert_eq!(dates("November 2025"), ["2025-11-01 to 2025-11-30"]);
    assert_eq!(dates("between 6 and 10 October 2025"), ["2025-10-06 to 2025-10-10"]);
    assert_eq!(
        dates("the 3rd to the 5th of May, March 3-5, 2026"),
        ["2026-05-03 to 2026-05-05", "2026-03-03 to 2026-03-05"]
    );
    assert_eq!(dates("in 2024"), ["2024-01-01 to 2024-12-31"]);
    assert_eq!(dates("next week"), ["2025-09-08 to 2025-09-14"]);
    assert_eq!(dates("this weekend"), ["2025-09-06 to 2025-09-07"]);
}

#[test]
fn three_quarters_of_an_hour_are_45_minutes() {
    let values = TextValues::new("I just ran 8 kilometres in three quarters of an hour, log it!", None);
    let minutes: Vec<_> = values.quantities.iter().filter_map(|it| it.in_unit(Unit::MINUTE)).collect();
    assert_eq!(minutes, [45.0]);
    assert!(!values.has_unclear_numbers);
}

#[test]
fn a_part_of_the_day_may_follow_the_weekdays() {
    let values = TextValues::new("an alarm for quarter past six every Saturday and Sunday morning", None);
    assert_eq!(values.times, [time(6, 15, 0, 0)]);
    let values = TextValues::new("remind me at 9:00 to buy the vegetables for dinner", None);
    assert_eq!(values.times, [time(9, 0, 0, 0), time(21, 0, 0, 0)]);
}

#[test]
fn two_times_are_the_ends_of_a_range() {
    let range = |text: &str| {
        let range = TextValues::new(text, None).time_range;
        range.map(|(start, end)| [start.hour(), end.hour()])
    };
    assert_eq!(range("from 14:00 to 16:00 in room 204"), Some([14, 16]));
    assert_eq!(range("2pm - 3:30pm"), Some([14, 15]));
    for other in
        ["at 14:00 and at 16:00", "From 5 to 7 May at nine", "from 2 to 4 pm or at 6 pm", "2026-03-05"]
    {
        assert_eq!(range(other), None, "{other}");
    }
}
