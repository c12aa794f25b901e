//! The command `cargo xtask setup`: installs the programs required by other commands and by the
//! tests.

use std::env::consts::EXE_EXTENSION;
use std::process::Stdio;
use std::thread;

use crate::eval;
use crate::failure::Failure;
use crate::process::{announce, cargo_command, command_in_root, run as run_command, run_succeeds};
use crate::workspace::Workspace;
use crate::{conformance, judges, native_build, peers};

/// The toolchain components that `cargo xtask ci` needs, as pairs of the cargo subcommand and the
/// rustup name of the component.
const RUSTUP_COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Programs or libraries of the system.
pub(crate) struct SystemPackages {
    /// The names of the Debian packages.
    pub(crate) names: &'static [&'static str],
    /// A command that fails unless the packages are installed.
    pub(crate) check: &'static [&'static str],
    pub(crate) purpose: &'static str,
}

/// The headers of OpenSSL. `langchain-rust` needs them at build time, because it depends on
/// native-tls.
const OPENSSL: SystemPackages = SystemPackages {
    names: &["pkg-config", "libssl-dev"],
    check: &["pkg-config", "--exists", "openssl"],
    purpose: "`haft-langchain` cannot be built",
};
const PYTHON: SystemPackages = SystemPackages {
    names: &["python3-venv"],
    check: &["python3", "-c", "import venv, ensurepip"],
    purpose: "llmock, xllamacpp and the MCP peers cannot be installed",
};
const NPM: SystemPackages = SystemPackages {
    names: &["npm"],
    check: &["npm", "--version"],
    purpose: "aimock, the MCP conformance suites and the MCP peers cannot be installed",
};
/// The program of the requests in the book, which the tests run.
const CURL: SystemPackages = SystemPackages {
    names: &["curl"],
    check: &["curl", "--version"],
    purpose: "the tests of `haft-cli` fail",
};
/// The program that counts instructions.
pub(crate) const VALGRIND: SystemPackages = SystemPackages {
    names: &["valgrind"],
    check: &["valgrind", "--version"],
    purpose: "instructions cannot be counted",
};

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    if !matches!(flags[..], [] | ["--model"] | ["--eval"] | ["--judges"]) {
        return Err(Failure::usage("`setup` takes `--model`, `--eval`, `--judges` or nothing"));
    }
    for (command, component) in RUSTUP_COMPONENTS {
        install_component(command, component)?;
    }
    if cfg!(target_os = "linux") {
        OPENSSL.ensure_installed();
        CURL.ensure_installed();
        PYTHON.ensure_installed();
        NPM.ensure_installed();
    }
    run_command(&mut cargo_command(&["fetch", "--locked"]))?;
    match flags[..] {
        ["--model"] => {
            judges::install_test_servers(false)?;
            native_build::build_and_run("haft", &["model".to_owned(), "pull".to_owned()])
        }
        ["--eval"] => {
            judges::install_test_servers(true)?;
            eval::fetch_models()
        }
        ["--judges"] => install_judges(),
        _ => judges::install_test_servers(false),
    }
}

/// Installs all third-party programs that test haft, and downloads the model of the tests. The
/// installations wait for the network, so the tests are compiled at the same time.
fn install_judges() -> Result<(), Failure> {
    thread::scope(|scope| {
        let installations = scope.spawn(|| {
            judges::install_postgresql();
            judges::install_test_servers(true)?;
            conformance::install()?;
            peers::install()
        });
        pull_test_model()?;
        installations.join().unwrap_or_else(|_| Err(Failure::message("an installation panicked")))
    })
}

/// Downloads the model with the program `haft` from the test build. `cargo run --package` would
/// resolve different features and compile the dependencies again.
fn pull_test_model() -> Result<(), Failure> {
    run_command(&mut cargo_command(&["test", "--locked", "--workspace", "--no-run"]))?;
    let haft = Workspace::load()?.target_directory.join("debug").join("haft");
    run_command(command_in_root(haft.with_extension(EXE_EXTENSION)).args(["model", "pull"]))
}

impl SystemPackages {
    /// Returns `true` if the packages are installed.
    pub(crate) fn is_installed(&self) -> bool {
        let mut words = self.check.iter();
        words.next().is_some_and(|program| run_succeeds(command_in_root(program).args(words)))
    }

    /// Tries to install the packages with `apt-get`, which requires root, unless they are installed.
    /// If the installation fails, a note is printed: only some commands need the packages.
    pub(crate) fn ensure_installed(&self) {
        let apt_get = |arguments: &[&str]| {
            let mut command = command_in_root("apt-get");
            // A question about the time zone, for example, would wait for ever.
            run_command(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()))
        };
        let install = || apt_get(&[&["install", "--yes", "--no-install-recommends"], self.names].concat());
        // On a new machine, the first attempt fails, because the package lists have not been
        // downloaded.
        let update = || apt_get(&["update"]);
        if !self.is_installed() && install().or_else(|_| update().and_then(|()| install())).is_err() {
            self.announce_missing();
        }
    }

    /// Prints a note with the command that installs the packages.
    pub(crate) fn announce_missing(&self) {
        announce(&format!("note: {} without `apt-get install {}`", self.purpose, self.names.join(" ")));
    }
}

/// Prints a note if the headers of OpenSSL are missing on Linux. macOS and Windows have other TLS
/// libraries.
pub(crate) fn check_openssl() {
    if cfg!(target_os = "linux") && !OPENSSL.is_installed() {
        OPENSSL.announce_missing();
    }
}

fn install_component(command: &str, component: &str) -> Result<(), Failure> {
    if run_succeeds(cargo_command(&[command]).arg("--version")) {
        return Ok(());
    }
    run_command(command_in_root("rustup").args(["component", "add", component]))
        .map_err(|failure| Failure::message(format!("{failure}; install {component} for this toolchain")))
}
