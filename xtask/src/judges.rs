//! Programs of others that our models are held against in the tests, in `target/judges`.
//!
//! The tests look there (`tests/tests/it/judges.rs`). What is missing is skipped by who works on something else, and is a
//! failure where the variable `HAFT_JUDGES` names it, as in CI.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::process::{announce, program, run as run_command, succeeds};
use crate::workspace::Workspace;

/// Breaks its replies on purpose, and says what a client made of them.
const LLMOCK: &str = "llmock==0.2.2";

/// Answers as OpenAI does, by fixtures.
const AIMOCK: &str = "@copilotkit/aimock@1.43.0";

/// The server of llama.cpp, for a real model.
const XLLAMACPP: &str = "xllamacpp==2026.10.11549";

/// Installs those that are quick to fetch, and the server of llama.cpp, if that is wanted.
pub(crate) fn install(with_llama_cpp: bool) -> Result<(), Failure> {
    let folder = Workspace::load()?.target_directory.join("judges");
    let wanted = |name: &'static str| (name, folder.join(name.split("==").next().unwrap_or(name)));
    let packages = [Some(wanted(LLMOCK)), with_llama_cpp.then(|| wanted(XLLAMACPP))];
    if succeeds(program("python3").args(["-c", "import venv, ensurepip"])) {
        packages.into_iter().flatten().try_for_each(|(package, place)| python(&place, package))?;
    } else {
        announce("note: the tests against llmock and xllamacpp need `python3` with `venv`");
    }
    if succeeds(program("npm").arg("--version")) {
        node(&folder.join("aimock"))
    } else {
        announce("note: the tests against aimock need `npm`");
        Ok(())
    }
}

/// A Python that has the server of llama.cpp, which is installed if it is not there.
pub(crate) fn llama_cpp() -> Result<PathBuf, Failure> {
    let place = Workspace::load()?.target_directory.join("judges").join("xllamacpp");
    python(&place, XLLAMACPP)?;
    Ok(place.join("bin").join("python"))
}

/// An environment for one package, made anew when another version is wanted.
fn python(place: &Path, package: &str) -> Result<(), Failure> {
    install_once(place, package, || {
        run_command(program("python3").args(["-m", "venv", "--clear"]).arg(place))?;
        let pip = place.join("bin").join("pip");
        run_command(program(pip).args(["install", "--quiet", "--disable-pip-version-check", package]))
    })
}

fn node(place: &Path) -> Result<(), Failure> {
    install_once(place, AIMOCK, || {
        let command = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"];
        run_command(program("npm").args(command).arg(place).arg(AIMOCK))
    })
}

/// Installs what is not there: a file beside it says which version is.
fn install_once(
    place: &Path,
    package: &str,
    install: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let version = place.join("version");
    if fs::read_to_string(&version).is_ok_and(|installed| installed == package) {
        return Ok(());
    }
    let write = |error| Failure::message(format!("cannot write {}: {error}", version.display()));
    fs::create_dir_all(place).map_err(write)?;
    install()?;
    fs::write(&version, package).map_err(write)
}
