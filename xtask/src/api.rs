//! The command `cargo xtask api`: compares the public API of each published library with its
//! snapshot in `docs/api`.
//!
//! The JSON output of rustdoc is unstable: its format changes between compilers. This command
//! supports the format version [`RUSTDOC_FORMAT`]. With a compiler that writes another version, the
//! check is skipped.

mod release;
mod snapshot;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use crate::failure::Failure;
use crate::process::{announce, cargo_command, run as run_command};
use crate::workspace::{self, Package, Workspace};

/// The version of rustdoc's JSON format in Rust 1.93 to 1.95. `public-api` 0.52 reads this version.
const RUSTDOC_FORMAT: u64 = 57;

/// The folder of the API snapshots, as a path from the root of the repository.
const SNAPSHOT_FOLDER: &str = "docs/api";

/// The environment variable with the path of the real rustdoc. If it is set, cargo has started
/// xtask as the rustdoc wrapper.
const REAL_RUSTDOC_VARIABLE: &str = "HAFT_REAL_RUSTDOC";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    let is_update = match flags[..] {
        [] => false,
        ["--update"] => true,
        _ => return Err(Failure::usage("`api` takes `--update` or nothing")),
    };
    let workspace = Workspace::load()?;
    write_rustdoc_json()?;
    let (mut changes, mut removals) = (Vec::new(), Vec::new());
    for package in workspace.published().filter(|package| package.has_library()) {
        let Some(api) = list_public_items(&workspace.target_directory, package)? else {
            announce("note: the public API is not checked: this compiler's rustdoc has another JSON format");
            return Ok(());
        };
        let file = snapshot_path(package);
        if is_update {
            write(&file, &api)?;
        } else {
            changes.extend(snapshot::difference(
                &file,
                &fs::read_to_string(workspace_path(&file)).unwrap_or_default(),
                &api,
            ));
        }
        removals.extend(release::find_removed_items(package, &file, &api)?);
    }
    let Some(message) = error_message(&changes, &removals) else {
        announce(&format!("the public API equals the snapshots in {SNAPSHOT_FOLDER}"));
        return Ok(());
    };
    eprintln!("{}", [changes, removals].concat().join("\n"));
    Err(Failure::message(message))
}

/// Returns the error message for the given findings. Returns `None` if there are none. `--update`
/// accepts `changes`, the differences from the snapshots. It cannot accept `removals`, because
/// these items are missing in comparison with the latest release.
fn error_message(changes: &[String], removals: &[String]) -> Option<&'static str> {
    match (changes, removals) {
        ([], []) => None,
        (_, []) => Some("the public API has changed: `cargo xtask api --update` accepts the change"),
        _ => Some(
            "the public API lacks items of the latest release: restore them or set an incompatible version",
        ),
    }
}

/// Runs rustdoc, which writes a JSON file for every library. Features are resolved for the whole
/// workspace, as in `cargo xtask doc`, so both commands use the same compiled dependencies.
fn write_rustdoc_json() -> Result<(), Failure> {
    let this = env::current_exe().map_err(|error| Failure::message(format!("cannot find xtask: {error}")))?;
    run_command(
        cargo_command(&["doc", "--workspace", "--lib", "--no-deps", "--locked", "--quiet"])
            .env("RUSTDOC", this)
            .env(REAL_RUSTDOC_VARIABLE, env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into()))
            .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json"),
    )
}

/// Runs the real rustdoc with the arguments of this program and with `RUSTC_BOOTSTRAP=1`, which
/// permits unstable options. Returns the exit code of rustdoc, or `None` if this program was not
/// started as the rustdoc wrapper.
pub(crate) fn run_as_rustdoc() -> Option<ExitCode> {
    let rustdoc = env::var_os(REAL_RUSTDOC_VARIABLE)?;
    let status = Command::new(rustdoc).args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    let code = status.ok().and_then(|status| u8::try_from(status.code()?).ok());
    Some(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns a list of the public items in the library of `package`, one per line. Returns `None` if
/// the rustdoc JSON has an unsupported format.
fn list_public_items(target: &Path, package: &Package) -> Result<Option<String>, Failure> {
    let name = package.name.replace('-', "_");
    let file = target.join("doc").join(name).with_extension("json");
    let failed = |error: &dyn std::fmt::Display| {
        Failure::message(format!("cannot read the public API in {}: {error}", file.display()))
    };
    let json = fs::read_to_string(&file).map_err(|error| failed(&error))?;
    if snapshot::format_version(&json) != Some(RUSTDOC_FORMAT) {
        return Ok(None);
    }
    let api = public_api::Builder::from_rustdoc_json(&file)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .omit_blanket_impls(true)
        .build()
        .map_err(|error| failed(&error))?;
    Ok(Some(api.to_string()))
}

/// Returns the path of the snapshot of `package`, relative to the root of the repository.
fn snapshot_path(package: &Package) -> String {
    format!("{SNAPSHOT_FOLDER}/{}.txt", package.name)
}

fn workspace_path(file: &str) -> PathBuf {
    workspace::root().join(file)
}

fn write(file: &str, text: &str) -> Result<(), Failure> {
    let file = workspace_path(file);
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(&file, text))
        .map_err(|error| Failure::message(format!("cannot write {}: {error}", file.display())))
}
