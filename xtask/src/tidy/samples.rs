//! Rule: Rust code in the README and in the book is either a copy of a file or a doctest.
//!
//! On every Markdown page, a code block after `<!-- source: PATH -->` must equal the file at this
//! path, and no block may be marked `ignore`. The other Rust blocks in the chapters of the book are
//! doctests of a package in [`DOCTESTS`].

use super::{Finding, SourceTree, markdown};
use crate::workspace::Package;

const README: &str = "README.md";
/// The files that include chapters as doctests. The example compiles the chapter about
/// `langchain-rust`, because `tests` does not depend on that crate.
const DOCTESTS: [&str; 2] = ["tests/src/book.rs", "examples/langchain/src/lib.rs"];

pub(super) fn check(_packages: &[Package], tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
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
        if (path == README || path.starts_with("docs/src/")) && !is_doctest(path, tree) {
            findings.extend(blocks.iter().find(|block| block.is_rust() && block.source.is_none()).map(|block| {
                let message = format!(
                    "this code is not compiled: list the page in `{}`, or put `<!-- source: PATH -->` before the copy of a file",
                    DOCTESTS[0]
                );
                Finding::new(path, block.line, message)
            }));
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

fn is_doctest(path: &str, tree: &SourceTree) -> bool {
    let include = format!("/{path}\"");
    DOCTESTS.iter().any(|file| tree.text(file).is_some_and(|text| text.contains(&include)))
}
