//! Rule: the files and functions in the behavior tables of ARCHITECTURE.md exist. Each row of a
//! behavior table contains a behavior, and the file and the function that implement it:
//!
//! ```text
//! | order of the steps | `core: pipeline.rs` | `Pipeline::run_steps` |
//! ```

use super::{Finding, SourceTree};
use crate::workspace::Package;

const ARCHITECTURE: &str = "ARCHITECTURE.md";

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let page = tree.text(ARCHITECTURE).unwrap_or_default();
    let rows = page.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    rows.flat_map(|(index, row)| {
        let messages = check_row(row, tree);
        messages.into_iter().map(move |message| Finding::new(ARCHITECTURE, index + 1, message))
    })
    .collect()
}

fn check_row(row: &str, tree: &SourceTree) -> Vec<String> {
    let cells: Vec<_> = row.trim_matches('|').split('|').collect();
    let [_, files, functions] = cells[..] else { return Vec::new() };
    let (mut messages, mut texts) = (Vec::new(), Vec::new());
    for (folder, file) in spans(files).filter_map(|span| span.split_once(": ")) {
        let path = format!("crates/{folder}/src/{file}");
        match tree.text(&path) {
            Some(text) => texts.push(text),
            None => messages.push(format!("`{path}` does not exist")),
        }
    }
    let missing = spans(functions).filter(|name| !declare(&texts, name));
    // A row without a file belongs to another kind of table.
    if !texts.is_empty() {
        messages.extend(missing.map(|name| format!("`{name}` is not in {}", files.trim())));
    }
    messages
}

fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Returns `true` if one of `texts` declares the item `name`, or contains the `impl` block `name`,
/// such as `Drop for Run`. For the name `Type::item`, one of `texts` must also have a declaration
/// or an `impl` block of the type. It may be another text than that of the item.
fn declare(texts: &[&str], name: &str) -> bool {
    let (owner, item) = name.rsplit_once("::").map_or((None, name), |(owner, item)| (Some(owner), item));
    texts.iter().any(|text| declares_item(text, item))
        && owner.is_none_or(|owner| texts.iter().any(|text| names_type(text, owner)))
}

/// Returns `true` if a `struct`, `enum`, `trait` or `impl` in `text` names the type `name`.
fn names_type(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let words = line.split(|char: char| !(char.is_alphanumeric() || char == '_'));
        let mut words = words.filter(|word| !["", "pub", "crate", "super"].contains(word));
        let is_declaration = words.next().is_some_and(|it| ["struct", "enum", "trait", "impl"].contains(&it));
        is_declaration && words.any(|word| word == name)
    })
}

/// Returns `true` if `text` declares a function, a constant or a static named `item`, or contains
/// the `impl` block `item`.
fn declares_item(text: &str, item: &str) -> bool {
    let keywords = ["fn ", "const ", "static ", "impl "];
    keywords.iter().any(|keyword| {
        let start = format!("{keyword}{item}");
        let ends = text.match_indices(&start).filter_map(|(at, _)| text.get(at + start.len()..));
        ends.into_iter().any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::tests;

    #[test]
    fn index_names_existing_files_and_functions() {
        let page = "| file | contains |\n|---|---|\n| `gone.rs` | no index |\n\n\
                    | behaviour | crate: file | function |\n|---|---|---|\n\
                    | the steps | `core: run.rs`, `core: gone.rs` | `Run::next`, `LIMIT`, `Drop for Run` |\n\
                    | the end | `core: run.rs` | `Run::nex`, `end`, `Gone::next` |\n";
        let run = "const LIMIT: u32 = 1;\nimpl Run {\n    pub fn next(&self) {}\n}\nimpl Drop for Run {}\n";
        let tree = [("ARCHITECTURE.md", page), ("crates/core/src/run.rs", run)];
        tests::check(
            super::check,
            &[],
            tree,
            &expect![[r#"
            ARCHITECTURE.md:7: `crates/core/src/gone.rs` does not exist
            ARCHITECTURE.md:8: `Gone::next` is not in `core: run.rs`
            ARCHITECTURE.md:8: `Run::nex` is not in `core: run.rs`
            ARCHITECTURE.md:8: `end` is not in `core: run.rs`
        "#]],
        );
    }
}
