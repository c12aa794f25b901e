//! Installs programs from crates.io in `target/tools`.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::process::{announce, cargo_command, command_in_root, run as run_command, run_succeeds};
use crate::workspace::Workspace;

/// A program from crates.io, pinned to a tested version.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) arguments: &'static [&'static str],
}

/// The program that renders the book. It is installed without its web server and its file watcher,
/// because no command uses them.
pub(crate) const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", arguments: &["--no-default-features", "--features", "search"] };

/// The program that checks the licenses and sources of dependencies, rejects banned crates, and
/// warns about duplicate crates. Its rules are in `deny.toml`.
pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", arguments: &[] };

impl Tool {
    /// Installs the pinned version of the program if it is missing. Returns the path of the
    /// executable.
    pub(crate) fn ensure_installed(&self) -> Result<PathBuf, Failure> {
        let root = Workspace::load()?.target_directory.join("tools").join(self.name).join(self.version);
        let file = root.join("bin").join(self.name).with_extension(std::env::consts::EXE_EXTENSION);
        if run_succeeds(command_in_root(&file).arg("--version")) {
            return Ok(file);
        }
        announce(&format!("{} is not installed; building it takes a minute or two", self.name));
        // Use a debug build, because compiling an optimized build takes longer than all runs of the
        // program.
        let mut command =
            cargo_command(&["install", self.name, "--version", self.version, "--locked", "--debug"]);
        command.args(self.arguments).arg("--root").arg(&root);
        run_command(command.env("CARGO_PROFILE_DEV_DEBUG", "false").env_remove("CARGO_TARGET_DIR"))?;
        Ok(file)
    }
}
