//! Installs third-party programs in `target/judges`, for tests against independent implementations.
//!
//! The tests in `tests/tests/it/judges.rs` start the model servers. If its server is not installed,
//! a test is skipped. If the environment variable `HAFT_JUDGES` lists the server, as in CI, the
//! test fails instead. The tests of `haft-session` treat PostgreSQL in the same way; it is a package
//! of the system. `cargo xtask conformance` and `cargo xtask peers` install their programs
//! themselves if they are missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::process::{announce, command_in_root, run as run_command, run_succeeds};
use crate::setup::SystemPackages;
use crate::workspace::Workspace;

/// The Python package of a server that injects failures, such as 429 responses and broken streams,
/// and reports mistakes of the client.
const LLMOCK: &str = "llmock==0.2.2";

/// The npm package of a server that emulates the OpenAI API with recorded fixtures.
const AIMOCK: &str = "@copilotkit/aimock@1.43.0";

/// The Python package of the llama.cpp server, which runs a real model.
const XLLAMACPP: &str = "xllamacpp==2026.10.11549";

/// The Python package of a program that compares the HTTP server with its OpenAPI description.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The Python package of Anthropic's SDK, whose types check the requests of `haft-anthropic`.
const ANTHROPIC: &str = "anthropic==2.14.0";

/// The Python package with Google's types of the requests to Gemini.
const GOOGLE_GENAI: &str = "google-genai==3.6.1";

/// The version of Node that is installed if the Node of the system is older than [`MIN_NODE`].
const NODE: &str = "22.23.3";
/// The oldest usable version of Node, major and minor. The MCP Inspector needs it.
const MIN_NODE: [u32; 2] = [22, 19];

/// The server for the tests of `haft-session`.
const POSTGRESQL: SystemPackages = SystemPackages {
    names: &["postgresql"],
    check: &["sh", "-c", "command -v initdb || ls /usr/lib/postgresql/*/bin/initdb"],
    purpose: "`haft-session` cannot be tested with PostgreSQL",
};

/// Installs PostgreSQL on Linux, without the database and the service of the Debian package: the
/// tests start a server of their own.
pub(crate) fn install_postgresql() {
    if !cfg!(target_os = "linux") || POSTGRESQL.is_installed() {
        return;
    }
    let folder = Path::new("/etc/postgresql-common/createcluster.d");
    let config = folder.join("haft.conf");
    // Without root, this fails and the installation too, which prints a note.
    let _ = fs::create_dir_all(folder).and_then(|()| fs::write(&config, "create_main_cluster = false\n"));
    POSTGRESQL.ensure_installed();
    let _ = fs::remove_file(config);
}

/// Installs llmock, aimock, Schemathesis, and the SDKs of Anthropic and Google. If `with_llama_cpp` is `true`, also installs the llama.cpp server,
/// which is a large download. If `python3` or `npm` is missing, its servers are skipped and a note
/// is printed.
pub(crate) fn install_test_servers(with_llama_cpp: bool) -> Result<(), Failure> {
    let folder = Workspace::load()?.target_directory.join("judges");
    let package_in_folder = |name: &'static str| (name, folder.join(name.split("==").next().unwrap_or(name)));
    let packages = [
        Some(package_in_folder(LLMOCK)),
        Some(package_in_folder(SCHEMATHESIS)),
        Some(package_in_folder(ANTHROPIC)),
        Some(package_in_folder(GOOGLE_GENAI)),
        with_llama_cpp.then(|| package_in_folder(XLLAMACPP)),
    ];
    if run_succeeds(command_in_root("python3").args(["-c", "import venv, ensurepip"])) {
        packages
            .into_iter()
            .flatten()
            .try_for_each(|(package, place)| install_python_packages(&place, &[package]))?;
    } else {
        announce(
            "note: the tests against llmock, xllamacpp, Schemathesis and the SDKs need `python3` with `venv`",
        );
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
    install_python_packages(&place, &[XLLAMACPP])?;
    Ok(place.join("bin").join("python"))
}

/// Creates a Python virtual environment in the folder `place` and installs `packages` in it. Does
/// nothing if the same versions are already installed.
pub(crate) fn install_python_packages(place: &Path, packages: &[&str]) -> Result<(), Failure> {
    install_once(place, &packages.join(" "), || {
        run_command(command_in_root("python3").args(["-m", "venv", "--clear"]).arg(place))?;
        let pip = place.join("bin").join("pip");
        let command = ["install", "--quiet", "--disable-pip-version-check"];
        run_command(command_in_root(pip).args(command).args(packages))
    })
}

/// Returns the program `node`, of the system if its version is at least [`MIN_NODE`]. Otherwise,
/// installs it in `folder`.
pub(crate) fn install_node(folder: &Path) -> Result<PathBuf, Failure> {
    let version = Command::new("node").arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let numbers: Vec<_> =
        version.trim_start_matches('v').split('.').map_while(|it| it.parse().ok()).collect();
    if numbers.as_slice() >= MIN_NODE.as_slice() {
        return Ok("node".into());
    }
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let package = format!("node-{os}-{arch}");
    let node = folder.join("node");
    install_npm_packages(&node, &[&format!("{package}@{NODE}")])?;
    Ok(node.join("node_modules").join(package).join("bin").join("node"))
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
