use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{ALLOWED_TRANSITIONS, RunState};

const STATES: &str = include_str!("../../../docs/states.md");

/// Parses the state diagram in the documentation. Returns its edges as pairs of state names.
fn diagram() -> BTreeSet<(String, String)> {
    let begin = STATES.split("stateDiagram-v2\n").nth(1).unwrap();
    let lines = begin.split("```").next().unwrap().lines().map(str::trim);
    let edges = lines.filter_map(|line| line.split(':').next()?.split_once(" --> "));
    edges.map(|(from, to)| (from.trim().to_owned(), to.trim().to_owned())).collect()
}

fn name(state: RunState) -> String {
    format!("{state:?}")
}

#[test]
fn diagram_matches_the_transitions() {
    let ends = [RunState::Finished, RunState::Cancelled].map(|end| (name(end), "[*]".to_owned()));
    let code: BTreeSet<_> = ALLOWED_TRANSITIONS
        .iter()
        .map(|(from, to)| (name(*from), name(*to)))
        .chain([("[*]".to_owned(), name(RunState::ReadyToRequest))])
        .chain(ends)
        .chain([("AnyState".to_owned(), name(RunState::Cancelled))])
        .collect();
    let documented = diagram();
    let missing: Vec<_> = code.difference(&documented).collect();
    let unknown: Vec<_> = documented.difference(&code).collect();
    assert!(missing.is_empty(), "the diagram lacks {missing:?}");
    assert!(unknown.is_empty(), "the code has no {unknown:?}");
}

#[test]
fn every_state_except_final_states_has_a_successor() {
    let states: BTreeSet<_> =
        ALLOWED_TRANSITIONS.iter().flat_map(|(from, to)| [name(*from), name(*to)]).collect();
    let left: BTreeSet<_> = ALLOWED_TRANSITIONS.iter().map(|(from, _)| name(*from)).collect();
    let last: Vec<_> = states.difference(&left).collect();
    assert_eq!(last, [&name(RunState::Finished)]);
    // The transitions to `Cancelled`, the 14th state, are not in the list.
    assert_eq!(states.len(), 13);
}

#[test]
fn transitions_are_unique() {
    for (index, transition) in ALLOWED_TRANSITIONS.iter().enumerate() {
        assert!(!ALLOWED_TRANSITIONS[..index].contains(transition), "{transition:?}");
    }
}

/// A driver in another crate must be able to do everything that `ReactAgent` does. The modules that
/// a driver uses must therefore have no items that are visible only inside this crate:
/// `pub(crate)`, `pub(in …)`, or `pub(super)` in the file of a module at the crate root.
#[test]
fn modules_for_drivers_have_no_crate_private_items() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for module in ["run", "extension", "queue", "handoff", "compaction"] {
        let root = sources.join(format!("{module}.rs"));
        let text = fs::read_to_string(&root).unwrap();
        assert!(!text.contains("pub(super)"), "{}", root.display());
        for path in files_below(&sources.join(module)).into_iter().chain([root]) {
            if path.ends_with("tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            assert!(!["pub(crate)", "pub(in"].iter().any(|word| text.contains(word)), "{}", path.display());
            let is_machine = path.ends_with("run/state.rs");
            assert!(is_machine || !text.contains("Machine {"), "{}", path.display());
        }
    }
}

/// The driver of `ReactAgent` must use no crate-private module except `agent` itself. In
/// particular, it must not use `open_calls`, which only runs and queues share.
#[test]
fn agent_uses_public_modules_only() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agent");
    for path in files_below(&folder).into_iter().chain([folder.with_extension("rs")]) {
        assert!(!fs::read_to_string(&path).unwrap().contains("open_calls"), "{}", path.display());
    }
    let root = fs::read_to_string(folder.with_file_name("lib.rs")).unwrap();
    let private: Vec<_> = root.lines().filter(|line| line.starts_with("mod ")).collect();
    assert_eq!(private, ["mod agent;", "mod open_calls;"]);
}

/// Returns all files in `folder` and in its subfolders. Empty if there is no such folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
