//! The command `cargo xtask doc`: builds the API reference of every crate and the book, and checks
//! the links in the book.

mod pages;
#[cfg(test)]
mod tests;

use crate::cargo_tools::MDBOOK;
use crate::failure::Failure;
use crate::process::{announce, cargo_command, command_in_root, run as run_command};
use crate::workspace;

/// The folder of the rendered book, as a path from the root of the repository.
const BOOK_FOLDER: &str = "docs/book/build";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    let open: &[&str] = match flags[..] {
        [] => &[],
        ["--open"] => &["--open"],
        _ => return Err(Failure::usage("`doc` takes `--open` or nothing")),
    };
    build_reference(open)?;
    build_book(open)
}

/// Builds the reference of every crate. Warnings are errors.
pub(crate) fn build_reference(arguments: &[&str]) -> Result<(), Failure> {
    let mut command = cargo_command(&["doc", "--workspace", "--no-deps", "--locked"]);
    run_command(command.args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds the book, and checks its links.
pub(crate) fn build_book(arguments: &[&str]) -> Result<(), Failure> {
    run_command(command_in_root(MDBOOK.ensure_installed()?).args(["build", "docs"]).args(arguments))?;
    check_book()
}

/// Checks the links in the rendered book. The returned error lists the dead links.
fn check_book() -> Result<(), Failure> {
    let folder = workspace::root().join(BOOK_FOLDER);
    let unreadable = |error| Failure::message(format!("cannot read {}: {error}", folder.display()));
    let pages = pages::read_pages(&folder).map_err(unreadable)?;
    let dead = pages::dead_links(&pages, |file| folder.join(file).is_file());
    if dead.is_empty() {
        announce(&format!(
            "the book is in {BOOK_FOLDER}/index.html; its {} pages have no dead links",
            pages.len()
        ));
        return Ok(());
    }
    Err(Failure::message(format!("dead links in the book:\n{}", dead.join("\n"))))
}
