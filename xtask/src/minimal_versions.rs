//! The command `cargo xtask minimal-versions`: checks that the published crates compile with the
//! oldest versions of their direct dependencies that the manifests allow.
//!
//! `-Z direct-minimal-versions` overwrites the lock file, so the command works in a copy of the
//! repository. The option is unstable, so `RUSTC_BOOTSTRAP` is set to write the lock file. The
//! crates are then checked without this variable.

use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::process::{cargo_command, command_in_root, run as run_command};
use crate::workspace::{self, Workspace};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("`minimal-versions` takes no arguments"));
    }
    let workspace = Workspace::load()?;
    let folder = workspace.target_directory.join("minimal-versions");
    let copy = folder.join("copy");
    copy_repository(&copy)?;
    let in_copy = |arguments: &[&str]| {
        let mut command = cargo_command(arguments);
        command.current_dir(&copy).env("CARGO_TARGET_DIR", folder.join("target"));
        command
    };
    run_command(in_copy(&["update", "-Z", "direct-minimal-versions"]).env("RUSTC_BOOTSTRAP", "1"))?;
    let mut check = in_copy(&["check", "--locked"]);
    for package in workspace.published() {
        check.args(["--package", &package.name]);
    }
    run_command(&mut check)
}

/// Copies the repository to the folder `copy`: the tracked files, and the untracked files that git
/// does not ignore.
fn copy_repository(copy: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::message(format!("cannot copy the repository: {error}"));
    let files = command_in_root("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    let files = String::from_utf8_lossy(&files.map_err(failed)?.stdout).into_owned();
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(failed)?;
    }
    for name in files.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (workspace::root().join(name), copy.join(name));
        // git also lists a deleted file if the deletion is not staged.
        if from.is_file() {
            to.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            fs::copy(from, to).map_err(failed)?;
        }
    }
    Ok(())
}
