//! Rule: Rust code in the book is either a copy of a file or a doctest.
//!
//! On every Markdown page, a code block after `<!-- source: PATH -->` must equal the file at this
//! path, and no block may be marked `ignore`. The README must contain a copy of each file in
//! [`README_EXAMPLES`]. The other Rust blocks in the chapters of the book are doctests of the
//! package in `tests/`, or of the example in [`EXAMPLE_DOCTESTS`].

use super::{Finding, SourceTree, markdown};
use crate::workspace::Package;

const README: &str = "README.md";
/// The source files of the examples that the README must contain.
const README_EXAMPLES: [&str; 2] = ["examples/openai-agent/src/main.rs", "examples/quickstart/src/main.rs"];
const DOCTESTS: &str = "tests/src/book.rs";
/// The chapter about `langchain-rust` is compiled by its example, since `tests` does not depend on
/// that crate.
const EXAMPLE_DOCTESTS: &str = "examples/langchain/src/lib.rs";
const DOCTESTS_PARENT: &str = "tests/src/lib.rs";

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings: Vec<_> = check_doctests(tree).into_iter().collect();
    for (path, page) in tree.files_matching("", ".md") {
        let blocks = markdown::code_blocks(page);
        findings.extend(blocks.iter().filter_map(|block| check_copy(path, block, tree)));
        findings.extend(blocks.iter().filter(|block| block.has_word("ignore")).map(|block| {
            Finding::new(
                path,
                block.line,
                "an ignored block is not compiled: remove `ignore`, or use `no_run`",
            )
        }));
        if path.starts_with("docs/src/")
            && blocks.iter().any(|block| block.is_rust() && block.source.is_none())
        {
            findings.extend(check_chapter(path, tree));
        }
        if path == README {
            let is_shown =
                |example: &str| blocks.iter().any(|block| block.source.as_deref() == Some(example));
            findings.extend(README_EXAMPLES.into_iter().filter(|example| !is_shown(example)).map(
                |example| {
                    let message =
                        format!("the README lacks an example: put `<!-- source: {example} -->` before it");
                    Finding::new(path, 1, message)
                },
            ));
        }
    }
    findings
}

fn check_copy(path: &str, block: &markdown::CodeBlock, tree: &SourceTree) -> Option<Finding> {
    let source = block.source.as_ref()?;
    let message = match tree.text(source) {
        None => format!("the block is a copy of `{source}`, which does not exist"),
        Some(text) if text == block.text => return None,
        Some(_) => format!("the block differs from `{source}`: copy the file into it"),
    };
    Some(Finding::new(path, block.line, message))
}

fn check_doctests(tree: &SourceTree) -> Option<Finding> {
    let is_used = tree.text(DOCTESTS_PARENT).is_some_and(|text| text.contains("mod book;"));
    (tree.contains(DOCTESTS) && !is_used).then(|| {
        let message =
            format!("this file is not compiled: add `#[cfg(doctest)] mod book;` to `{DOCTESTS_PARENT}`");
        Finding::new(DOCTESTS, 1, message)
    })
}

fn check_chapter(path: &str, tree: &SourceTree) -> Option<Finding> {
    let lists = |file| tree.text(file).is_some_and(|text| text.contains(&format!("/{path}\"")));
    let is_listed = lists(DOCTESTS) || lists(EXAMPLE_DOCTESTS);
    (!is_listed).then(|| {
        let message = format!("the Rust of this chapter is not compiled: list the chapter in `{DOCTESTS}`");
        Finding::new(path, 1, message)
    })
}
