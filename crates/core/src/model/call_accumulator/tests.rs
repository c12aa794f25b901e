use std::collections::VecDeque;

use super::{CallAccumulator, CallPiece};
use crate::model::ChatEvent;

/// A chunk with one piece: index, id, name, arguments.
type Piece = (Option<i64>, &'static str, &'static str, &'static str);

/// The name and the arguments of a call.
type Named = (String, String);

fn piece((index, id, name, arguments): &Piece) -> CallPiece {
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    CallPiece { index: *index, id: filled(id), name: filled(name), arguments: (*arguments).to_owned() }
}

/// Adds the pieces in `chunks`. Returns the names and arguments of the calls, and of the events.
fn receive(chunks: &[Vec<Piece>]) -> (Vec<Named>, Vec<Named>) {
    let (mut calls, mut events) = (CallAccumulator::default(), VecDeque::new());
    for chunk in chunks {
        calls.begin_chunk();
        for it in chunk {
            calls.push(piece(it), Some(&mut events)).unwrap();
        }
    }
    calls.finish(Some(&mut events));
    let calls = calls.into_calls().into_iter().map(|call| (call.name, call.arguments.to_string())).collect();
    let mut streamed = Vec::<(usize, String, String)>::new();
    for event in events {
        match event {
            ChatEvent::ToolCallStarted { index, name, .. } => streamed.push((index, name, String::new())),
            ChatEvent::ToolCallDelta { index, arguments } => {
                let call =
                    streamed.iter_mut().find(|call| call.0 == index).expect("a call is announced first");
                call.2.push_str(&arguments);
            }
            other => panic!("{other:?}"),
        }
    }
    streamed.sort_by_key(|call| call.0);
    (calls, streamed.into_iter().map(|(_, name, arguments)| (name, arguments)).collect())
}

#[track_caller]
fn check(case: &str, chunks: &[Vec<Piece>], expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect();
    let (calls, streamed) = receive(chunks);
    assert_eq!(calls, expected, "{case}");
    // A call without arguments has no deltas.
    let with_arguments = streamed
        .into_iter()
        .map(|(name, arguments)| (name, if arguments.is_empty() { "{}".to_owned() } else { arguments }));
    assert_eq!(with_arguments.collect::<Vec<_>>(), expected, "events of {case}");
}

fn one_per_chunk(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    pieces.iter().map(|piece| vec![*piece]).collect()
}

const I: Option<i64> = Some(0);

#[test]
fn pieces_of_one_call_are_joined() {
    let cases: &[(&str, &[Piece])] = &[
        ("name before arguments", &[(I, "a", "dock_", ""), (I, "", "list", ""), (I, "", "", r#"{"n":1}"#)]),
        ("name beside arguments", &[(I, "a", "dock_", r#"{"n""#), (I, "a", "list", ":1}")]),
        ("name beside arguments without ids", &[(I, "", "dock_", r#"{"n""#), (I, "", "list", ":1}")]),
        ("no index", &[(None, "a", "dock_", ""), (None, "", "list", ""), (None, "", "", r#"{"n":1}"#)]),
        ("id in each piece, no index", &[(None, "a", "dock_", ""), (None, "a", "list", r#"{"n":1}"#)]),
        ("neither id nor index", &[(None, "", "dock_", ""), (None, "", "list", r#"{"n":1}"#)]),
        (
            "whole name repeated",
            &[(I, "a", "dock_list", ""), (I, "a", "dock_list", r#"{"n""#), (I, "a", "dock_list", ":1}")],
        ),
        (
            "whole name repeated after its pieces",
            &[(I, "a", "dock_", ""), (I, "a", "list", ""), (I, "a", "dock_list", r#"{"n":1}"#)],
        ),
        (
            "name so far repeated and continued",
            &[(I, "a", "do", ""), (I, "a", "dock_", ""), (I, "a", "dock_list", r#"{"n":1}"#)],
        ),
        (
            "name so far repeated",
            &[(I, "a", "dock_", ""), (I, "a", "dock_", ""), (I, "a", "list", r#"{"n":1}"#)],
        ),
        (
            "index drifts",
            &[(I, "a", "dock_list", ""), (Some(1), "", "", r#"{"n""#), (Some(2), "", "", ":1}")],
        ),
        (
            "index drifts within the name",
            &[(I, "a", "dock_", ""), (Some(1), "", "list", ""), (Some(2), "", "", r#"{"n":1}"#)],
        ),
        (
            "index drifts beside a repeated id",
            &[(I, "a", "dock_", ""), (Some(1), "a", "list", r#"{"n""#), (Some(2), "a", "", ":1}")],
        ),
        (
            "index is missing at first",
            &[(None, "a", "dock_", ""), (I, "", "list", ""), (I, "", "", r#"{"n":1}"#)],
        ),
        ("id comes late", &[(I, "", "dock_", ""), (I, "a", "list", ""), (I, "a", "", r#"{"n":1}"#)]),
        ("id changes", &[(I, "a", "dock_list", ""), (I, "null", "", r#"{"n""#), (I, "null", "", ":1}")]),
        (
            "id changes, no index",
            &[(None, "a", "dock_list", ""), (None, "x1", "", r#"{"n""#), (None, "x2", "", ":1}")],
        ),
        (
            "id changes beside the whole name",
            &[
                (I, "a", "dock_list", ""),
                (I, "null", "dock_list", r#"{"n""#),
                (I, "null", "dock_list", ":1}"),
            ],
        ),
        ("arguments before the name", &[(I, "a", "", r#"{"n""#), (I, "a", "dock_list", ":1}")]),
        ("arguments sent twice", &[(I, "a", "dock_list", r#"{"n":1}"#), (I, "", "", r#"{"n":1}"#)]),
    ];
    for (case, pieces) in cases {
        check(case, &one_per_chunk(pieces), &[("dock_list", r#"{"n":1}"#)]);
    }
}

/// A piece that equals the end of the name, but not the whole name, is a part of the name.
#[test]
fn piece_that_equals_the_end_of_the_name_is_added() {
    let pieces = [(I, "a", "walk_walk", ""), (I, "", "_walk", ""), (I, "", "", r#"{"n":1}"#)];
    check("suffix", &one_per_chunk(&pieces), &[("walk_walk_walk", r#"{"n":1}"#)]);
    let pieces = [(I, "a", "dock_", ""), (I, "", "dock", r#"{"n":1}"#)];
    check("prefix", &one_per_chunk(&pieces), &[("dock_dock", r#"{"n":1}"#)]);
}

#[test]
fn parallel_calls_stay_separate() {
    let (one, two) = (r#"{"n":1}"#, r#"{"n":2}"#);
    let cases: Vec<(&str, Vec<Vec<Piece>>)> = vec![
        (
            "interleaved names and arguments",
            one_per_chunk(&[
                (I, "a", "dock_", ""),
                (Some(1), "b", "ship_", ""),
                (I, "", "list", ""),
                (Some(1), "", "list", ""),
                (I, "", "", one),
                (Some(1), "", "", two),
            ]),
        ),
        (
            "first index 1",
            one_per_chunk(&[
                (Some(1), "a", "dock_list", ""),
                (Some(1), "", "", one),
                (Some(2), "b", "ship_list", ""),
                (Some(2), "", "", two),
            ]),
        ),
        (
            "index 0 for every piece",
            one_per_chunk(&[
                (I, "a", "dock_", ""),
                (I, "", "list", one),
                (I, "b", "ship_", ""),
                (I, "", "list", two),
            ]),
        ),
        (
            "index 0 for every piece, no ids",
            one_per_chunk(&[
                (I, "", "dock_", ""),
                (I, "", "list", one),
                (I, "", "ship_", ""),
                (I, "", "list", two),
            ]),
        ),
        (
            "index 0 for every later piece",
            one_per_chunk(&[
                (I, "a", "dock_list", ""),
                (I, "", "", one),
                (Some(1), "b", "ship_list", ""),
                (I, "", "", two),
            ]),
        ),
        (
            "index counts the pieces",
            one_per_chunk(&[
                (I, "a", "dock_list", ""),
                (Some(1), "", "", one),
                (Some(2), "b", "ship_", ""),
                (Some(3), "", "list", ""),
                (Some(4), "", "", two),
            ]),
        ),
        (
            "index 0 and the id in each piece",
            one_per_chunk(&[
                (I, "a", "dock_list", ""),
                (I, "b", "ship_list", ""),
                (I, "a", "", one),
                (I, "b", "", two),
            ]),
        ),
        ("no index", vec![vec![(None, "", "dock_list", one), (None, "", "ship_list", two)]]),
        (
            "no index and no arguments at first",
            vec![
                vec![(None, "a", "dock_list", ""), (None, "b", "ship_list", "")],
                vec![(None, "a", "", one), (None, "b", "", two)],
            ],
        ),
        (
            "one id for all calls",
            vec![
                vec![(I, "0", "dock_list", ""), (Some(1), "0", "ship_list", "")],
                vec![(I, "0", "", one), (Some(1), "0", "", two)],
            ],
        ),
    ];
    for (case, chunks) in cases.into_iter().chain(calls_with_one_id()) {
        check(case, &chunks, &[("dock_list", one), ("ship_list", two)]);
    }
    let same = vec![vec![(None, "", "now", ""), (None, "", "today", "")]];
    check("names in one chunk", &same, &[("now", "{}"), ("today", "{}")]);
}

/// Streams of two calls with the same id under different indexes.
fn calls_with_one_id() -> Vec<(&'static str, Vec<Vec<Piece>>)> {
    let (one, two) = (r#"{"n":1}"#, r#"{"n":2}"#);
    let second = Some(1);
    let cases: [(&str, &[Piece]); 7] = [
        ("one id, whole calls", &[(I, "0", "dock_list", one), (second, "0", "ship_list", two)]),
        (
            "one id, arguments after the name",
            &[
                (I, "0", "dock_list", ""),
                (I, "", "", one),
                (second, "0", "ship_list", ""),
                (second, "", "", two),
            ],
        ),
        (
            "one id, names in pieces",
            &[
                (I, "0", "dock_", ""),
                (I, "0", "list", one),
                (second, "0", "ship_", ""),
                (second, "0", "list", two),
            ],
        ),
        (
            "one id, names first",
            &[
                (I, "0", "dock_list", ""),
                (second, "0", "ship_list", ""),
                (I, "", "", one),
                (second, "", "", two),
            ],
        ),
        (
            "one id in each piece, names first",
            &[
                (I, "0", "dock_list", ""),
                (second, "0", "ship_list", ""),
                (I, "0", "", r#"{"n""#),
                (second, "0", "", r#"{"n":"#),
                (I, "0", "", ":1}"),
                (second, "0", "", "2}"),
            ],
        ),
        (
            "one id, names in pieces first",
            &[
                (I, "0", "dock_", ""),
                (I, "0", "list", ""),
                (second, "0", "ship_", ""),
                (second, "0", "list", ""),
                (I, "0", "", one),
                (second, "0", "", two),
            ],
        ),
        (
            "one id and one index",
            &[(I, "0", "dock_list", ""), (I, "", "", one), (I, "0", "ship_list", ""), (I, "", "", two)],
        ),
    ];
    cases.into_iter().map(|(case, pieces)| (case, one_per_chunk(pieces))).collect()
}

/// Calls of one tool with the same id under different indexes, and calls without arguments.
#[test]
fn calls_of_one_tool_with_one_id_stay_separate() {
    let (one, two) = (r#"{"n":1}"#, r#"{"n":2}"#);
    let second = Some(1);
    type Case = (&'static str, &'static [Piece], &'static [(&'static str, &'static str)]);
    let cases: [Case; 9] = [
        (
            "arguments beside the name",
            &[(I, "0", "get", r#"{"n":1}"#), (Some(1), "0", "get", r#"{"n":2}"#)],
            &[("get", r#"{"n":1}"#), ("get", r#"{"n":2}"#)],
        ),
        (
            "arguments after the name",
            &[(I, "0", "get", r#"{"n":1}"#), (Some(1), "0", "get", ""), (Some(1), "", "", r#"{"n":2}"#)],
            &[("get", r#"{"n":1}"#), ("get", r#"{"n":2}"#)],
        ),
        (
            "names first",
            &[
                (I, "0", "get", ""),
                (Some(1), "0", "get", ""),
                (I, "0", "", r#"{"n":1}"#),
                (Some(1), "0", "", r#"{"n":2}"#),
            ],
            &[("get", r#"{"n":1}"#), ("get", r#"{"n":2}"#)],
        ),
        (
            "the first call has empty arguments",
            &[(I, "0", "get", "{}"), (Some(1), "0", "get", r#"{"n":2}"#)],
            &[("get", "{}"), ("get", r#"{"n":2}"#)],
        ),
        (
            "the first call has no arguments",
            &[(I, "0", "now", ""), (Some(1), "0", "get", r#"{"n""#), (Some(1), "0", "", ":2}")],
            &[("now", "{}"), ("get", r#"{"n":2}"#)],
        ),
        (
            "the second name begins with the first",
            &[(I, "0", "get", r#"{"n":1}"#), (Some(1), "0", "get_all", r#"{"n":2}"#)],
            &[("get", r#"{"n":1}"#), ("get_all", r#"{"n":2}"#)],
        ),
        (
            "arguments that are no object",
            &[(I, "0", "get", "[1]"), (Some(1), "0", "put", r#""x""#), (Some(2), "0", "now", "null")],
            &[("get", "[1]"), ("put", r#""x""#), ("now", "null")],
        ),
        (
            "a repeated name after the arguments is no call",
            &[(I, "0", "get", r#"{"n":1}"#), (Some(1), "0", "get", ""), (Some(2), "0", "get", " ")],
            &[("get", r#"{"n":1}"#)],
        ),
        (
            "a repeated call is one call",
            &[(I, "0", "get", r#"{"n":1}"#), (Some(1), "0", "get", r#"{"n":1}"#)],
            &[("get", r#"{"n":1}"#)],
        ),
    ];
    for (case, pieces, expected) in cases {
        check(case, &one_per_chunk(pieces), expected);
    }
    let whole = vec![vec![(I, "0", "get", one), (second, "0", "get", two)]];
    check("in one chunk", &whole, &[("get", one), ("get", two)]);
}

/// An index that counts the pieces never returns, so the pieces of a name stay together.
#[test]
fn index_that_counts_the_pieces_separates_no_calls() {
    let cases: [(&str, &[Piece]); 3] = [
        (
            "whole name in each piece",
            &[
                (I, "a", "dock_list", ""),
                (Some(1), "a", "dock_list", r#"{"n""#),
                (Some(2), "a", "dock_list", ":1}"),
            ],
        ),
        (
            "cumulative name",
            &[(I, "a", "do", ""), (Some(1), "a", "dock_", ""), (Some(2), "a", "dock_list", r#"{"n":1}"#)],
        ),
        (
            "whole name under a second index",
            &[(I, "a", "dock_list", ""), (Some(1), "a", "dock_list", r#"{"n""#), (Some(1), "a", "", ":1}")],
        ),
    ];
    for (case, pieces) in cases {
        check(case, &one_per_chunk(pieces), &[("dock_list", r#"{"n":1}"#)]);
    }
}

/// The results of two calls are told apart by their ids.
#[test]
fn calls_with_one_id_get_distinct_ids() {
    for pieces in [
        vec![(I, "0", "dock", ""), (Some(1), "0", "ship", ""), (I, "", "", "{}"), (Some(1), "", "", "{}")],
        vec![(I, "0", "get", r#"{"n":1}"#), (Some(1), "0", "get", ""), (Some(1), "", "", r#"{"n":2}"#)],
    ] {
        let (mut calls, mut events) = (CallAccumulator::default(), VecDeque::new());
        for it in &pieces {
            calls.begin_chunk();
            calls.push(piece(it), Some(&mut events)).unwrap();
        }
        calls.finish(Some(&mut events));
        assert_eq!(calls.received_ids().collect::<Vec<_>>(), ["0"]);
        let started: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                ChatEvent::ToolCallStarted { id, .. } => Some(id.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(started, ["0", "0_2"]);
        assert_eq!(calls.into_calls().into_iter().map(|call| call.id).collect::<Vec<_>>(), started);
    }
}

/// The name is announced once, and only after the first arguments that follow it.
#[test]
fn call_is_announced_with_its_whole_name() {
    let (mut calls, mut events) = (CallAccumulator::default(), VecDeque::new());
    let mut push = |it: Piece| {
        calls.begin_chunk();
        calls.push(piece(&it), Some(&mut events)).unwrap();
        events.len()
    };
    assert_eq!(push((I, "a", "dock", "")), 0);
    assert_eq!(push((I, "", "_list", "")), 0);
    assert_eq!(push((I, "", "", r#"{"n""#)), 2);
    assert_eq!(push((I, "", "", ":1}")), 3);
    let ChatEvent::ToolCallStarted { name, id, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!((name.as_str(), id.as_str()), ("dock_list", "a"));
}

/// An id that arrives before the call is announced replaces the generated one.
#[test]
fn late_id_is_used_before_the_announcement() {
    let mut calls = CallAccumulator::default();
    for it in [(I, "", "dock", ""), (I, "k", "", r#"{"n":1}"#)] {
        calls.push(piece(&it), None).unwrap();
    }
    assert_eq!(calls.id(0), Some("k"));
}

#[test]
fn call_without_a_name_keeps_its_arguments_only() {
    let (calls, streamed) = receive(&one_per_chunk(&[(I, "a", "", r#"{"n":1}"#)]));
    assert_eq!((calls[0].0.as_str(), streamed.len()), ("", 0));
}

/// A call without a name does not give its arguments to the call before it.
#[test]
fn new_id_under_a_new_index_begins_a_call() {
    let pieces = [(Some(0), "a", "list", "{}"), (Some(1), "b", "", r#"{"path":"/x"}"#)];
    let (calls, _) = receive(&one_per_chunk(&pieces));
    let call = |name: &str, arguments: &str| (name.to_owned(), arguments.to_owned());
    assert_eq!(calls, [call("list", "{}"), call("", r#"{"path":"/x"}"#)]);
    let late_name =
        [(Some(0), "a", "list", "{}"), (Some(1), "b", "", ""), (Some(1), "", "find", r#"{"x":1}"#)];
    check("a name after the id", &one_per_chunk(&late_name), &[("list", "{}"), ("find", r#"{"x":1}"#)]);
}
