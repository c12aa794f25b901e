use std::fs;

use super::REQUESTS;
use crate::workspace;

/// A test of the program `haft` runs the lines of the chapter.
#[test]
fn requests_are_lines_of_the_book() {
    let chapter = fs::read_to_string(workspace::root().join("docs/src/server.md")).unwrap_or_default();
    for request in REQUESTS {
        let line = format!("$ {request}");
        assert!(chapter.lines().any(|printed| printed == line), "no line {line}");
    }
}
