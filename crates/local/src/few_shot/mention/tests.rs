use super::mentions_all;

fn check(answer: &str, results: &[&str], expected: bool) {
    let results: Vec<_> = results.iter().map(|result| (*result).to_owned()).collect();
    assert_eq!(mentions_all(answer, &results, ""), expected, "{answer}");
}

#[test]
fn answer_mentions_each_result() {
    let clock = r#"{"datetime": "2026-11-22T13:29:36+09:00", "timezone": "Asia/Tokyo"}"#;
    check("42", &["42", clock], false);
    check("It is 42, and 13:29 in Tokyo.", &["42", clock], true);
    check("About 123 million people.", &["123000000"], true);
    check("The note is kept.", &["saved", "", "ok"], true);
    let weather = [r#"{"sky": "sunny in Rome", "rain": 7}"#, r#"{"sky": "cloudy in Oslo", "rain": 9}"#];
    check("The sky is sunny, rain 7.", &weather, false);
    check("The sky is sunny (7) and cloudy (9).", &weather, true);
    check("Done.", &[r#"{"ok": true}"#], true);
    check("There are 5.", &["7", "52"], false);
}

#[test]
fn a_time_is_mentioned_as_a_whole() {
    let time = |answer: &str| mentions_all(answer, &[r#"{"datetime": "21:25:42"}"#.to_owned()], "");
    assert!(time("It is 21:25."));
    assert!(time("It is 9:25 PM."));
    assert!(!time("17 plus 25 is 42."));
    let moment = ["2026-11-27T09:24:42+09:00".to_owned()];
    assert!(mentions_all("It is 9:24 in Tokyo.", &moment, ""));
    assert!(!mentions_all("The sum is 42.", &moment, ""));
}

#[test]
fn words_of_the_question_and_of_other_results_are_no_mention() {
    let leave = |answer: &str| {
        let results = [r#"{"employee": "E-1042", "days": 12}"#, r#"{"employee": "E-1077", "days": 7}"#];
        mentions_all(answer, &results.map(str::to_owned), "How many days have E-1042 and E-1077 left?")
    };
    assert!(!leave("E-1042 and E-1077 have 12 days left."));
    assert!(leave("E-1042 has 12 and E-1077 has 7 days left."));
    let equal = ["sunny in Rome", "sunny in Rome"].map(str::to_owned);
    assert!(mentions_all("It is sunny.", &equal, ""));
}
