use std::collections::BTreeSet;

use super::{RunState, TRANSITIONS};

const BOOK: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/how-a-run-works.md"));

/// Parses the state diagram in the book. Returns its edges as pairs of state names.
fn diagram() -> BTreeSet<(String, String)> {
    let begin = BOOK.split("stateDiagram-v2\n").nth(1).unwrap();
    let lines = begin.split("```").next().unwrap().lines().map(str::trim);
    let edges = lines.filter_map(|line| line.split(':').next()?.split_once(" --> "));
    edges.map(|(from, to)| (from.trim().to_owned(), to.trim().to_owned())).collect()
}

fn name(state: RunState) -> String {
    format!("{state:?}")
}

#[test]
fn diagram_in_the_book_matches_the_transitions() {
    let ends = [RunState::Finished, RunState::Cancelled].map(|end| (name(end), "[*]".to_owned()));
    let code: BTreeSet<_> = TRANSITIONS
        .iter()
        .map(|(from, to)| (name(*from), name(*to)))
        .chain([("[*]".to_owned(), name(RunState::ReadyToRequest))])
        .chain(ends)
        .chain([("AnyState".to_owned(), name(RunState::Cancelled))])
        .collect();
    let book = diagram();
    let missing: Vec<_> = code.difference(&book).collect();
    let unknown: Vec<_> = book.difference(&code).collect();
    assert!(missing.is_empty(), "the diagram lacks {missing:?}");
    assert!(unknown.is_empty(), "the code has no {unknown:?}");
}

#[test]
fn every_state_except_final_states_has_a_successor() {
    let states: BTreeSet<_> = TRANSITIONS.iter().flat_map(|(from, to)| [name(*from), name(*to)]).collect();
    let left: BTreeSet<_> = TRANSITIONS.iter().map(|(from, _)| name(*from)).collect();
    let last: Vec<_> = states.difference(&left).collect();
    assert_eq!(last, [&name(RunState::Finished)]);
    // The transitions to `Cancelled`, the 13th state, are not in the list.
    assert_eq!(states.len(), 12);
}

#[test]
fn transitions_are_unique() {
    for (index, transition) in TRANSITIONS.iter().enumerate() {
        assert!(!TRANSITIONS[..index].contains(transition), "{transition:?}");
    }
}

/// A driver in another crate must be able to do everything that `ReactAgent` does. The files of
/// `run` must therefore contain no `pub(crate)` methods.
#[test]
fn run_has_no_crate_private_methods_for_drivers() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/run");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file()).chain([format!("{folder}.rs").into()]);
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("pub(crate)"), "{}", path.display());
        assert!(path.ends_with("state.rs") || !text.contains("Machine {"), "{}", path.display());
    }
}
