//! The command `cargo xtask setup`: installs the programs required by other commands and by the
//! tests.

use std::env::consts::EXE_EXTENSION;

use crate::bench;
use crate::cargo_tools::{CARGO_DENY, MDBOOK};
use crate::eval;
use crate::failure::Failure;
use crate::process::{announce, cargo_command, command_in_root, run as run_command, run_succeeds};
use crate::workspace::Workspace;
use crate::{judges, native_build};

/// The toolchain components that `cargo xtask ci` needs, as pairs of the cargo subcommand and the
/// rustup name of the component.
const RUSTUP_COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let flags: Vec<_> = arguments.iter().map(String::as_str).collect();
    if !matches!(flags[..], [] | ["--model"] | ["--eval"] | ["--judges"]) {
        return Err(Failure::usage("`setup` takes `--model`, `--eval`, `--judges` or nothing"));
    }
    for (command, component) in RUSTUP_COMPONENTS {
        install_component(command, component)?;
    }
    MDBOOK.ensure_installed()?;
    CARGO_DENY.ensure_installed()?;
    install_valgrind();
    check_openssl();
    run_command(&mut cargo_command(&["fetch", "--locked"]))?;
    judges::install_test_servers(matches!(flags[..], ["--eval"] | ["--judges"]))?;
    match flags[..] {
        ["--model"] => native_build::build_and_run("haft", &["model".to_owned(), "pull".to_owned()]),
        ["--eval"] => eval::fetch_models(),
        // Use the program `haft` from the test build. `cargo run --package` would resolve different
        // features and compile the dependencies again.
        ["--judges"] => {
            run_command(&mut cargo_command(&["test", "--locked", "--workspace", "--no-run"]))?;
            let haft = Workspace::load()?.target_directory.join("debug").join("haft");
            run_command(command_in_root(haft.with_extension(EXE_EXTENSION)).args(["model", "pull"]))
        }
        _ => Ok(()),
    }
}

/// Tries to install valgrind with `apt-get`, which requires root, unless valgrind is already
/// installed. If the installation fails, a note is printed and no error is returned, because
/// valgrind is required only in CI.
fn install_valgrind() {
    let apt_get = |arguments: &[&str]| run_command(command_in_root("apt-get").args(arguments));
    let install = || apt_get(&["install", "--yes", "--no-install-recommends", "valgrind"]);
    // On a new machine, the first attempt fails, because the package lists have not been
    // downloaded.
    let update = || apt_get(&["update"]);
    if !bench::has_valgrind() && install().or_else(|_| update().and_then(|()| install())).is_err() {
        announce(&format!(
            "note: instructions are not counted without valgrind: `{}`",
            bench::INSTALL_VALGRIND
        ));
    }
}

/// Prints a note if `pkg-config` does not find the headers of OpenSSL on Linux. `langchain-rust`
/// needs them at build time, because it depends on native-tls. macOS and Windows have other TLS
/// libraries.
pub(crate) fn check_openssl() {
    if cfg!(target_os = "linux") && !run_succeeds(command_in_root("pkg-config").args(["--exists", "openssl"]))
    {
        announce(
            "note: `haft-langchain` cannot be built without the headers of OpenSSL: `apt-get install pkg-config libssl-dev`",
        );
    }
}

fn install_component(command: &str, component: &str) -> Result<(), Failure> {
    if run_succeeds(cargo_command(&[command]).arg("--version")) {
        return Ok(());
    }
    run_command(command_in_root("rustup").args(["component", "add", component]))
        .map_err(|failure| Failure::message(format!("{failure}; install {component} for this toolchain")))
}
