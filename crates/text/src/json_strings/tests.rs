use super::StringDecoder;

#[track_caller]
fn check(written: &str, decoded: &str) {
    let mut decoder = StringDecoder::default();
    let text: String = written.chars().filter_map(|written| decoder.feed(written)).collect();
    assert_eq!(text, decoded, "{written}");
}

#[test]
fn escapes_are_decoded() {
    check(r#"a\"b\\c\/\n\t\r\b\f"#, "a\"b\\c/\n\t\r\u{8}\u{c}");
    check(r"\u00e9\u20AC\ud83c\udf0d!", "é€🌍!");
}

#[test]
fn invalid_escapes_cause_no_error() {
    check(r"\x\u00g1", "x\u{1}");
    check(r"\ud83cz", "z");
    check(r"\ud83c\nz", "\nz");
    check(r"\ud83c\u0041", "A");
    check(r"\ud83c\ud83c\udf0d", "🌍");
    check(r"\udf0dz", "\u{fffd}z");
    check(r"\ud83cz\udf0d", "z\u{fffd}");
}

#[test]
fn incomplete_escape_yields_no_character() {
    check(r"a\", "a");
    check(r"a\u00e", "a");
    check(r"a\ud83c\udf0", "a");
}
