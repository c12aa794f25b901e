//! Installs third-party model servers in `target/judges`, for tests against independent
//! implementations.
//!
//! The tests in `tests/tests/it/judges.rs` start the servers. If its server is not installed, a
//! test is skipped. If the environment variable `HAFT_JUDGES` lists the server, as in CI, the test
//! fails instead.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::process::{announce, command_in_root, run as run_command, run_succeeds};
use crate::workspace::Workspace;

/// The Python package of a server that injects failures, such as 429 responses and broken streams,
/// and reports mistakes of the client.
const LLMOCK: &str = "llmock==0.2.2";

/// The npm package of a server that emulates the OpenAI API with recorded fixtures.
const AIMOCK: &str = "@copilotkit/aimock@1.43.0";

/// The Python package of the llama.cpp server, which runs a real model.
const XLLAMACPP: &str = "xllamacpp==2026.10.11549";

/// Installs llmock and aimock. If `with_llama_cpp` is `true`, also installs the llama.cpp server,
/// which is a large download. If `python3` or `npm` is missing, its servers are skipped and a note
/// is printed.
pub(crate) fn install_test_servers(with_llama_cpp: bool) -> Result<(), Failure> {
    let folder = Workspace::load()?.target_directory.join("judges");
    let package_in_folder = |name: &'static str| (name, folder.join(name.split("==").next().unwrap_or(name)));
    let packages = [Some(package_in_folder(LLMOCK)), with_llama_cpp.then(|| package_in_folder(XLLAMACPP))];
    if run_succeeds(command_in_root("python3").args(["-c", "import venv, ensurepip"])) {
        packages
            .into_iter()
            .flatten()
            .try_for_each(|(package, place)| install_python_package(&place, package))?;
    } else {
        announce("note: the tests against llmock and xllamacpp need `python3` with `venv`");
    }
    if run_succeeds(command_in_root("npm").arg("--version")) {
        install_npm_packages(&folder.join("aimock"), &[AIMOCK])
    } else {
        announce("note: the tests against aimock need `npm`");
        Ok(())
    }
}

/// Installs the llama.cpp server if it is missing. Returns the path of the Python interpreter in
/// the server's virtual environment.
pub(crate) fn install_llama_cpp() -> Result<PathBuf, Failure> {
    let place = Workspace::load()?.target_directory.join("judges").join("xllamacpp");
    install_python_package(&place, XLLAMACPP)?;
    Ok(place.join("bin").join("python"))
}

/// Creates a Python virtual environment in the folder `place` and installs `package` in it. Does
/// nothing if the same version is already installed.
fn install_python_package(place: &Path, package: &str) -> Result<(), Failure> {
    install_once(place, package, || {
        run_command(command_in_root("python3").args(["-m", "venv", "--clear"]).arg(place))?;
        let pip = place.join("bin").join("pip");
        run_command(command_in_root(pip).args(["install", "--quiet", "--disable-pip-version-check", package]))
    })
}

/// Installs npm packages in the folder `place`, without running their scripts. Does nothing if the
/// same versions are already installed.
pub(crate) fn install_npm_packages(place: &Path, packages: &[&str]) -> Result<(), Failure> {
    install_once(place, &packages.join(" "), || {
        let command = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"];
        run_command(command_in_root("npm").args(command).arg(place).args(packages))
    })
}

/// Runs `install`, unless this version of `package` is already installed in the folder `place`. The
/// name and the version of the installed package are stored in the file `version` in this folder.
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
