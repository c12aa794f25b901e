//! `cargo xtask doc`: the reference of every crate, and the book.

use crate::failure::Failure;
use crate::process::{announce, cargo, program, run as run_command, succeeds};

pub(crate) const INSTALL_MDBOOK: &str = "cargo install mdbook --locked";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    let open: &[&str] = match flags[..] {
        [] => &[],
        ["--open"] => &["--open"],
        _ => return Err(Failure::usage("`doc` takes `--open` or nothing")),
    };
    run_command(
        cargo(&["doc", "--workspace", "--no-deps", "--locked"]).args(open).env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    if !can_build_book() {
        announce(&format!("the book is not built, since mdBook is not installed: `{INSTALL_MDBOOK}`"));
        return Ok(());
    }
    run_command(program("mdbook").args(["build", "docs"]).args(open))
}

/// The links of the book and its summary are checked by `tidy`, its code by the tests: building it takes a
/// program that not everybody has.
pub(crate) fn can_build_book() -> bool {
    succeeds(program("mdbook").arg("--version"))
}
