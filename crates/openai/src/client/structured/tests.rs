use proptest::prelude::*;

use super::Unwrapper;

fn taken<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut unwrapper = Unwrapper::default();
    let text: String = pieces.into_iter().map(|piece| unwrapper.push(piece)).collect();
    text + &unwrapper.finish()
}

#[test]
fn a_value_is_taken_out_of_its_object() {
    for (object, value) in [
        (r#"{"value":{"a":{}}}"#, r#"{"a":{}}"#),
        ("\n{ \"value\" : [1, 2] }\n", "[1, 2]"),
        (r#"{"value":"}"}"#, r#""}""#),
        // What is no such object is told as it is.
        (r#"{"val": 1}"#, r#"{"val": 1}"#),
        ("```json", "```json"),
        (" {\"va", " {\"va"),
        ("", ""),
    ] {
        assert_eq!(taken([object]), value);
        let pieces: Vec<_> = object.char_indices().map(|(at, it)| &object[at..at + it.len_utf8()]).collect();
        assert_eq!(taken(pieces), value, "in pieces");
    }
}

proptest! {
    #[test]
    fn it_does_not_matter_how_a_text_is_cut(
        text in prop_oneof![r#"[ {}"value:ü]{0,30}"#, r#" ?\{ ?"value" ?: ?["{}1 ü]{0,20}"#],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        prop_assert_eq!(taken(cuts.windows(2).map(|cut| &text[cut[0]..cut[1]])), taken([&*text]));
    }
}
