use proptest::prelude::*;

use super::Unwrapper;

fn unwrapped<'a>(pieces: impl IntoIterator<Item = &'a str>) -> String {
    let mut unwrapper = Unwrapper::default();
    let text: String = pieces.into_iter().map(|piece| unwrapper.push(piece)).collect();
    text + &unwrapper.finish()
}

#[test]
fn value_is_unwrapped_from_its_object() {
    for (object, value) in [
        (r#"{"value":{"a":{}}}"#, r#"{"a":{}}"#),
        ("\n{ \"value\" : [1, 2] }\n", "[1, 2]"),
        (r#"{"value":"}"}"#, r#""}""#),
        // Text that does not begin with the wrapper object is passed through.
        (r#"{"val": 1}"#, r#"{"val": 1}"#),
        ("```json", "```json"),
        (" {\"va", " {\"va"),
        ("", ""),
    ] {
        assert_eq!(unwrapped([object]), value);
        let pieces: Vec<_> = object.char_indices().map(|(at, it)| &object[at..at + it.len_utf8()]).collect();
        assert_eq!(unwrapped(pieces), value, "in pieces");
    }
}

proptest! {
    #[test]
    fn any_rechunking_gives_the_same_value(
        text in prop_oneof![r#"[ {}"value:ü]{0,30}"#, r#" ?\{ ?"value" ?: ?["{}1 ü]{0,20}"#],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        prop_assert_eq!(unwrapped(cuts.windows(2).map(|cut| &text[cut[0]..cut[1]])), unwrapped([&*text]));
    }
}
