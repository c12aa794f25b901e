use super::{TAIL_CHARS, tail};

#[test]
fn tail_is_a_single_line_of_limited_length() {
    assert_eq!(tail(""), "");
    assert_eq!(tail("one\ntwo\x1b"), "one two ");
    let fits = "é".repeat(TAIL_CHARS);
    assert_eq!(tail(&fits), fits);
    assert_eq!(tail(&format!("a{fits}")), format!("…{fits}"));
}
