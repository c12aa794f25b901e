use haft_core::limits::SERVER_MESSAGE_BYTES;
use proptest::prelude::*;

use super::{EventParser, EventTooLong};

/// Parses a stream that arrives in `pieces`. Returns the data of its events.
fn parse<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut parser = EventParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece.to_vec()).unwrap();
        while let Some(event) = parser.next_event() {
            events.push(str::from_utf8(event.data).unwrap().to_owned());
        }
    }
    events.extend(parser.last_event().map(|event| str::from_utf8(event.data).unwrap().to_owned()));
    events
}

#[track_caller]
fn check(text: &str, events: &[&str]) {
    assert_eq!(parse([text.as_bytes()]), events);
    assert_eq!(parse(text.as_bytes().chunks(1)), events, "byte by byte");
}

#[test]
fn lf_crlf_and_cr_end_a_line() {
    check("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\n", &["a", "b", "c", "d"]);
    check("data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", &["a", "b", "c"]);
}

#[test]
fn comments_and_other_fields_are_ignored() {
    check(": ping\n\nevent: x\nid: 1\nretry: 2\ndatas: no\n data: no\n\ndata: a\n\n", &["a"]);
}

#[test]
fn first_space_after_the_colon_is_removed() {
    check("data:a\n\ndata: a\n\ndata:  a\n\n", &["a", "a", " a"]);
}

#[test]
fn data_lines_of_an_event_are_joined() {
    check("data: a\ndata: b\n\ndata\ndata:\n\n", &["a\nb", "\n"]);
}

#[test]
fn leading_byte_order_mark_is_removed() {
    check("\u{feff}data: a\n\n", &["a"]);
    check("\n\u{feff}data: a\n\n", &[]);
}

#[test]
fn unterminated_last_event_is_parsed() {
    check("data: a\n\ndata: [DONE]", &["a", "[DONE]"]);
    check("data: a\n\ndata: b\n", &["a", "b"]);
    check("data: a\n\n", &["a"]);
}

#[test]
fn oversized_event_is_rejected() {
    let mut parser = EventParser::default();
    parser.push(b"data: ".to_vec()).unwrap();
    let piece = vec![b'x'; SERVER_MESSAGE_BYTES / 2];
    parser.push(piece.clone()).unwrap();
    assert_eq!(parser.next_event(), None);
    assert_eq!(parser.push(piece), Err(EventTooLong));
}

#[test]
fn error_events_are_marked() {
    let text =
        b"event: error\ndata: a\n\ndata: b\n\nerror: c\n\nevent: error\n\ndata: d\ndata: e\nevent: error\n\n";
    let expected = [("a", true), ("b", false), ("c", true), ("d\ne", true)];
    for size in [1, 2, 7, text.len()] {
        let (mut parser, mut events) = (EventParser::default(), Vec::new());
        for piece in text.chunks(size) {
            parser.push(piece.to_vec()).unwrap();
            while let Some(event) = parser.next_event() {
                events.push((str::from_utf8(event.data).unwrap().to_owned(), event.is_error));
            }
        }
        let events: Vec<_> = events.iter().map(|(data, is_error)| (data.as_str(), *is_error)).collect();
        assert_eq!(events, expected, "in pieces of {size}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The parser returns the same events for any division of the bytes into chunks.
    #[test]
    fn any_rechunking_gives_the_same_events(
        text in "(data|event|:|: |\n|\r|\r\n|ü|🌍|x){0,40}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]);
        prop_assert_eq!(parse(pieces), parse([text.as_bytes()]));
    }
}
