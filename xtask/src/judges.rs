//! Third-party model servers for the tests, in `target/judges`.
//!
//! `tests/tests/it/judges.rs` starts them. A test without its server is skipped, unless the
//! variable `HAFT_JUDGES` lists the server, as in CI.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::process::{announce, program, run as run_command, succeeds};
use crate::workspace::Workspace;

/// Injects 429s and broken streams, and reports the client's reaction.
const LLMOCK: &str = "llmock==0.2.2";

/// Emulates OpenAI with fixtures.
const AIMOCK: &str = "@copilotkit/aimock@1.43.0";

/// The llama.cpp server, with a real model.
const XLLAMACPP: &str = "xllamacpp==2026.10.11549";

/// Installs llmock and aimock, and on request the llama.cpp server, which is a large download.
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

/// The Python interpreter with the llama.cpp server. A missing server is installed.
pub(crate) fn llama_cpp() -> Result<PathBuf, Failure> {
    let place = Workspace::load()?.target_directory.join("judges").join("xllamacpp");
    python(&place, XLLAMACPP)?;
    Ok(place.join("bin").join("python"))
}

/// A virtual environment for one package, created again for another version.
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

/// Runs `install` unless this version is installed. The file `version` in the folder names it.
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
