use super::*;

/// Pushes `pieces` until `push` returns [`NextAction::Stop`]. Returns the finished text.
fn text_of(stops: &[&str], pieces: &[&[u8]]) -> String {
    let (sender, mut events) = EventSender::new(64);
    let mut prose = ProseDecoder::new(&sender, stops.to_vec(), vec!["\nTool:"]);
    let _ = pieces.iter().find(|piece| prose.push(piece) == NextAction::Stop);
    let text = prose.finish();
    assert_eq!(emitted(&mut events), text);
    text
}

fn emitted(events: &mut crate::respond::EventReceiver) -> String {
    let mut emitted = String::new();
    while let Ok(Ok(haft_core::model::ChatEvent::TextDelta { text })) = events.try_recv() {
        emitted.push_str(&text);
    }
    emitted
}

#[test]
fn leading_whitespace_is_removed() {
    assert_eq!(text_of(&[], &[b" ", b"\n a", b" b"]), "a b");
    assert_eq!(text_of(&["\n"], &[b"\n", b"a", b"\nb"]), "a");
}

#[test]
fn marker_ends_the_text() {
    assert_eq!(text_of(&[], &[b" a", b"\nTo", b"ol: x"]), "a");
    assert_eq!(text_of(&[], &[b"\n", b"Tool: x(", b"{})"]), "");
    assert_eq!(text_of(&[], &[b" Tool: a hammer"]), "Tool: a hammer");
}

#[test]
fn invalid_utf8_becomes_the_replacement_character() {
    assert_eq!(text_of(&[], &[b"a\xE2", b"\x82", b"\xAC"]), "a\u{20AC}");
    assert_eq!(text_of(&[], &[b"a\xE2\x82b", b"c"]), "a\u{FFFD}bc");
    assert_eq!(text_of(&[], &[b"\xFF", b"a\xE2"]), "\u{FFFD}a");
}

#[test]
fn stop_sequence_of_the_request_ends_the_text() {
    let (sender, _events) = EventSender::new(64);
    let mut prose = ProseDecoder::new(&sender, vec!["END"], vec!["\nTool:"]);
    assert_eq!(prose.push(b" 42 END more"), NextAction::Stop);
    assert!(prose.end() == Some(ProseEnd::StopSequence));
}

#[test]
fn leading_marker_is_matched_without_whitespace_at_the_beginning_only() {
    for (pieces, marked, text) in [
        (&[&b"{\n \"na"[..], b"me\": \"x"][..], true, ""),
        (&[b"{\"no", b"te\": 1}"], false, "{\"note\": 1}"),
        (&[b"`", b"``\n{"], true, ""),
        (&[b"See {\"name\": \"x\"}"], false, "See {\"name\": \"x\"}"),
    ] {
        let (sender, mut events) = EventSender::new(64);
        let mut prose = ProseDecoder::new(&sender, vec![], vec![])
            .with_leading_markers(vec!["{\"name\":\"".to_owned(), "```{".to_owned()]);
        let stopped = pieces.iter().any(|piece| prose.push(piece) == NextAction::Stop);
        assert_eq!((stopped, prose.end() == Some(ProseEnd::LeadingMarker)), (marked, marked));
        assert_eq!(prose.finish(), text);
        assert_eq!(emitted(&mut events), text);
    }
}
