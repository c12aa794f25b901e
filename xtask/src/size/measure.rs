//! Counts third-party crates with `cargo tree`, and measures the sizes of programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::process::cargo_command;

/// Returns the number of third-party crates that a build of `packages` compiles, including
/// procedural macros but excluding dependencies of build scripts.
pub(super) fn count_crates(packages: &[&str]) -> Result<u32, Failure> {
    let mut command =
        cargo_command(&["tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    for package in packages {
        command.args(["--package", package]);
    }
    let output =
        command.output().map_err(|error| Failure::message(format!("cannot start `cargo tree`: {error}")))?;
    if !output.status.success() {
        return Err(Failure::message(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(count_third_party(&String::from_utf8_lossy(&output.stdout)))
}

/// Counts the third-party crates in `tree`, the output of `cargo tree`. Two versions of a crate
/// count as two crates. Crates of the workspace, which are recognized by the path in their lines,
/// are not counted.
pub(super) fn count_third_party(tree: &str) -> u32 {
    let lines = tree.lines().map(|line| line.trim_end_matches(" (*)").trim_end_matches(" (proc-macro)"));
    let crates: BTreeSet<_> = lines.filter(|line| !line.is_empty() && !line.contains(" (/")).collect();
    u32::try_from(crates.len()).unwrap_or(u32::MAX)
}

/// Returns the size of `file` in megabytes. Returns `None` if the file does not exist.
#[expect(clippy::cast_precision_loss, reason = "a file is smaller than 2^53 bytes")]
pub(super) fn file_megabytes(file: &Path) -> Option<f64> {
    Some(fs::metadata(file).ok()?.len() as f64 / 1e6)
}
