use super::*;

/// What comes of pieces of text.
fn heard(stops: &[&str], pieces: &[&[u8]]) -> String {
    let (outlet, mut events) = Outlet::new(64);
    let mut prose = Prose::new(&outlet, stops.to_vec(), vec!["\nTool:"]);
    let _ = pieces.iter().find(|piece| prose.hear(piece) == Attention::Satisfied);
    let text = prose.end();
    let mut told = String::new();
    while let Ok(Ok(haft_core::model::ChatEvent::TextDelta { text })) = events.try_recv() {
        told.push_str(&text);
    }
    assert_eq!(told, text);
    text
}

#[test]
fn the_space_before_the_first_word_is_none_of_it() {
    assert_eq!(heard(&[], &[b" ", b"\n a", b" b"]), "a b");
    assert_eq!(heard(&["\n"], &[b"\n", b"a", b"\nb"]), "a");
}

#[test]
fn a_line_of_the_conversation_ends_the_text() {
    assert_eq!(heard(&[], &[b" a", b"\nTo", b"ol: x"]), "a");
    assert_eq!(heard(&[], &[b"\n", b"Tool: x(", b"{})"]), "");
    assert_eq!(heard(&[], &[b" Tool: a hammer"]), "Tool: a hammer");
}

#[test]
fn broken_characters_are_marked_where_they_are() {
    assert_eq!(heard(&[], &[b"a\xE2", b"\x82", b"\xAC"]), "a\u{20AC}");
    assert_eq!(heard(&[], &[b"a\xE2\x82b", b"c"]), "a\u{FFFD}bc");
    assert_eq!(heard(&[], &[b"\xFF", b"a\xE2"]), "\u{FFFD}a");
}

#[test]
fn what_was_not_all_goes_on_behind_it() {
    for (first, resumed, whole) in [
        (&b" 42"[..], " 42, and", "42, and more"),
        (b" 42.", " 42.", "42. more"),
        (b" 42\nTool: x\xE2", " 42, and", "42, and more"),
        (b" ", " ", "more"),
    ] {
        let (outlet, mut events) = Outlet::new(64);
        let mut prose = Prose::new(&outlet, vec!["END"], vec!["\nTool:"]);
        let _ = prose.hear(first);
        assert!(!prose.is_stopped());
        assert_eq!(prose.resume(), resumed);
        let _ = prose.hear(b" more");
        assert_eq!(prose.end(), whole);
        let mut told = String::new();
        while let Ok(Ok(haft_core::model::ChatEvent::TextDelta { text })) = events.try_recv() {
            told.push_str(&text);
        }
        assert_eq!(told, whole);
    }
}

#[test]
fn the_stop_of_the_user_is_the_end() {
    let (outlet, _events) = Outlet::new(64);
    let mut prose = Prose::new(&outlet, vec!["END"], vec!["\nTool:"]);
    assert_eq!(prose.hear(b" 42 END more"), Attention::Satisfied);
    assert!(prose.is_stopped());
}
