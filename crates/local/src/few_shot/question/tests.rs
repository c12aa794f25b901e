use super::*;

#[test]
fn a_quotation_begins_after_the_last_one() {
    let mut question = OpenQuestion::new("What is 17 plus 25,\nand what time is it in Tokyo?");
    question.advance_past("What is 17 plus 25");
    assert!(question.is_open());
    question.advance_past("what time is it in Tokyo");
    assert!(!question.is_open());
    assert_eq!(question.need_rules(), None);
}

/// A text in Japanese has no spaces between words.
#[test]
fn a_language_without_spaces_has_words() {
    let mut question = OpenQuestion::new(
        "\u{6771}\u{4EAC}\u{306E}\u{5929}\u{6C17}\u{3068}\u{3001}\u{30D1}\u{30EA}\u{306E}\u{6642}\u{523B}\u{306F}\u{FF1F}",
    );
    let rules = question.need_rules().unwrap();
    assert!(rules.contains("\"\u{6771}\",\"\u{4EAC}\",\"\u{306E}\""), "{rules}");
    question.advance_past("\u{6771}\u{4EAC}\u{306E}\u{5929}\u{6C17}");
    assert!(question.is_open());
}

#[test]
fn a_long_question_cannot_be_quoted() {
    assert_eq!(OpenQuestion::new(&"word ".repeat(500)).need_rules(), None);
}
