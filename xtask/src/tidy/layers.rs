//! Rule: the modules of `haft-core` are in layers, and the size of the crate is bounded.

use std::collections::BTreeSet;

use super::{Finding, SourceTree, sources};
use crate::workspace::Package;

const SOURCES: &str = "crates/core/src/";

/// The top-level modules of `haft-core`, lowest layer first. A module may import only from lower
/// layers.
const LAYERS: &[&str] = &[
    "limits",
    "text",
    "panic_log",
    "schema",
    "tool",
    "pipeline",
    "toolset",
    "model",
    "agent",
    "export",
    "__private",
];

/// The maximum number of lines of code in `haft-core`. Blank lines, comments and tests are not
/// counted.
const MAX_CODE_LINES: usize = 6_000;

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut lines = 0;
    for (path, text) in tree.files_matching(SOURCES, ".rs") {
        let Some(file) = path.strip_prefix(SOURCES) else { continue };
        if sources::is_test_file(path) {
            continue;
        }
        if file != "lib.rs" {
            findings.extend(upward_imports(path, file, text));
        }
        lines += count_code_lines(text);
    }
    if lines > MAX_CODE_LINES {
        let message = format!(
            "haft-core has {lines} lines of code; the limit is {MAX_CODE_LINES}: move a subject to another crate"
        );
        findings.push(Finding::new("crates/core/src/lib.rs", 1, message));
    }
    findings
}

/// Returns a finding for each import in `text` that refers to a higher layer. If the module of the
/// file has no layer, returns a finding for the file instead. `text` is the content of the file at
/// `path`, and `file` is its path relative to [`SOURCES`].
///
/// Without upward imports, the dependencies between modules have no cycles.
fn upward_imports(path: &str, file: &str, text: &str) -> Vec<Finding> {
    let module = file.split(['/', '.']).next().unwrap_or_default();
    let Some(layer) = layer_of(module) else {
        let message =
            format!("the module `{module}` has no layer: add it to `LAYERS` in xtask/src/tidy/layers.rs");
        return vec![Finding::new(path, 1, message)];
    };
    let upward = |imported: &&str| *imported != module && layer_of(imported).is_some_and(|it| it >= layer);
    let upward = imported_modules(text).into_iter().filter(|(_, imported)| upward(&imported.as_str()));
    upward
        .map(|(line, imported)| {
            let message = format!(
                "`{module}` imports from `{imported}`, a higher layer of haft-core: move the item down, or its user up"
            );
            Finding::new(path, line, message)
        })
        .collect()
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|it| *it == module)
}

/// Returns the line number and the module of each path in `text` that starts with `crate::`.
/// Comments and tests are ignored.
fn imported_modules(text: &str) -> BTreeSet<(usize, String)> {
    let mut modules = BTreeSet::new();
    let mut offset = 0;
    let code: String = sources::without_tests(text)
        .map(|line| if line.trim_start().starts_with("//") { "\n".to_owned() } else { format!("{line}\n") })
        .collect();
    while let Some(found) = code.get(offset..).and_then(|rest| rest.find("crate::")) {
        let start = offset + found + "crate::".len();
        let rest = code.get(start..).unwrap_or_default();
        let line = code.get(..start).unwrap_or_default().matches('\n').count() + 1;
        match rest.strip_prefix('{') {
            Some(tree) => modules.extend(roots_of(tree).into_iter().map(|name| (line, name))),
            None => drop(modules.insert((line, leading_name(rest)))),
        }
        offset = start;
    }
    modules
}

/// Returns the first name of each path in `tree`, the part of a `use` declaration after an opening
/// brace.
fn roots_of(tree: &str) -> Vec<String> {
    let (mut depth, mut roots, mut is_start) = (1, Vec::new(), true);
    for (index, char) in tree.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_start = true,
            _ if is_start && depth == 1 && !char.is_whitespace() => {
                roots.push(leading_name(tree.get(index..).unwrap_or_default()));
                is_start = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    roots
}

fn leading_name(text: &str) -> String {
    text.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect()
}

fn count_code_lines(text: &str) -> usize {
    let lines = sources::without_tests(text).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_from_a_higher_layer_is_reported() {
        let text = "use crate::{\n    call::ToolCall,\n    agent::{Agent, RunInput},\n};\n";
        let findings = upward_imports("crates/core/src/tool/name.rs", "tool/name.rs", text);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].message.contains("`tool` imports from `agent`"));
        assert!(upward_imports("", "agent.rs", "use crate::tool::Tool;\n// crate::agent::X\n").is_empty());
        assert_eq!(upward_imports("", "pipeline/x.rs", "fn f() { crate::toolset::f() }").len(), 1);
    }

    #[test]
    fn module_without_a_layer_is_reported() {
        assert_eq!(upward_imports("", "other.rs", "").len(), 1);
    }

    #[test]
    fn comments_and_tests_are_not_counted() {
        assert_eq!(
            count_code_lines("//! Doc.\n\nfn f() {\n    // Why.\n}\n#[cfg(test)]\nmod tests {\n}\n"),
            3
        );
    }
}
