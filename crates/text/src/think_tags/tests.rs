use proptest::prelude::*;

use super::{ThinkSplit, ThinkTagParser};

fn split<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
    let mut parser = ThinkTagParser::default();
    let mut splits: Vec<_> = pieces.into_iter().map(|piece| parser.push(piece.to_owned())).collect();
    splits.push(parser.finish());
    let join = |part: fn(&ThinkSplit) -> &str| splits.iter().map(part).collect();
    (join(|split| &split.reasoning), join(|split| &split.text))
}

#[track_caller]
fn check(text: &str, reasoning: &str, rest: &str) {
    let expected = (reasoning.to_owned(), rest.to_owned());
    assert_eq!(split([text]), expected);
    assert_eq!(split(text.split_inclusive(|_| true)), expected, "one character at a time");
}

#[test]
fn leading_block_is_reasoning() {
    check("<think>\nhm\n</think>\n\nHi", "hm", "Hi");
    check(" \n<think>a < b</think>Hi </think>", "a < b", "Hi </think>");
    check("<think></think>Hi", "", "Hi");
}

#[test]
fn block_behind_text_is_text() {
    check("Hi <think>hm</think>", "", "Hi <think>hm</think>");
    check("  Hi", "", "  Hi");
    check("<thin", "", "<thin");
}

#[test]
fn unclosed_block_is_reasoning() {
    check("<think>hm </thi", "hm </thi", "");
    check("<think>hm \n", "hm", "");
}

#[test]
fn disabled_parser_passes_text_through() {
    let mut parser = ThinkTagParser::default();
    parser.disable();
    assert_eq!(parser.push("<think>hm</think>".to_owned()).text, "<think>hm</think>");
    assert!(!parser.is_inside());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn division_into_pieces_changes_nothing(text in "(<think>|</think>|<thi|nk>|</| |\n|hm|ü){0,12}") {
        prop_assert_eq!(split(text.split_inclusive(|_| true)), split([text.as_str()]));
    }
}
