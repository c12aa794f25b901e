use super::{TAIL, tail};

#[test]
fn the_end_of_a_text_is_shown_on_one_line() {
    assert_eq!(tail(""), "");
    assert_eq!(tail("one\ntwo\x1b"), "one two ");
    let fits = "é".repeat(TAIL);
    assert_eq!(tail(&fits), fits);
    assert_eq!(tail(&format!("a{fits}")), format!("…{fits}"));
}
