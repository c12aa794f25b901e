//! The command `cargo xtask conformance`: runs the official conformance suites of MCP against the
//! client and the server of `haft-mcp`.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::failure::Failure;
use crate::judges::{install_node, install_npm_packages};
use crate::process::{announce, cargo_command, command_in_root, run as run_command};
use crate::workspace::Workspace;

/// The suite of revision 2025-11-25.
const SUITE_0_1: &str = "@modelcontextprotocol/conformance@0.1.16";
/// The suite that also has revision 2026-07-28, and the required scenarios of both.
const SUITE_0_2: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
/// The revisions to test, with all their required scenarios.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];
/// The scenarios of extensions that the client supports. No revision requires them.
const EXTENSIONS: [&str; 2] = ["auth/client-credentials-basic", "auth/client-credentials-jwt"];
/// The script of a suite in its folder.
const SCRIPT: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("`conformance` takes no arguments"));
    }
    let Suites { node, first, second } = install_suites()?;
    // The same features as the tests, so that dependencies are not compiled again.
    run_command(&mut cargo_command(&["test", "--locked", "--workspace", "--no-run"]))?;
    let server = Server::start()?;
    let suite = |folder: &Path, arguments: &[&str]| run_suite(&node, folder, arguments);
    let client = program("mcp-conformance")?;
    let client = client.to_string_lossy();
    suite(&first, &["client", "--command", &client, "--suite", "core"])?;
    suite(&first, &["server", "--url", &server.url, "--suite", "all"])?;
    for revision in REVISIONS {
        suite(&second, &["client", "--command", &client, "--requirements", revision])?;
        suite(&second, &["server", "--url", &server.url, "--requirements", revision])?;
    }
    for scenario in EXTENSIONS {
        suite(&second, &["client", "--command", &client, "--scenario", scenario])?;
    }
    announce("all required scenarios passed, and those of the supported extensions");
    Ok(())
}

/// Node, and the folders of the suites.
struct Suites {
    node: PathBuf,
    /// The folder of [`SUITE_0_1`].
    first: PathBuf,
    /// The folder of [`SUITE_0_2`].
    second: PathBuf,
}

/// Installs the suites, and Node if it is too old.
pub(crate) fn install() -> Result<(), Failure> {
    install_suites().map(drop)
}

fn install_suites() -> Result<Suites, Failure> {
    let folder = Workspace::load()?.target_directory.join("judges");
    let node = install_node(&folder)?;
    let (first, second) = (folder.join("mcp-conformance-0.1"), folder.join("mcp-conformance-0.2"));
    install_npm_packages(&first, &[SUITE_0_1])?;
    install_npm_packages(&second, &[SUITE_0_2])?;
    Ok(Suites { node, first, second })
}

/// Returns the path of the program `name` of the example `mcp-conformance`.
fn program(name: &str) -> Result<PathBuf, Failure> {
    let path = Workspace::load()?.target_directory.join("debug").join(name);
    Ok(path.with_extension(std::env::consts::EXE_EXTENSION))
}

/// Runs a suite. If a required scenario fails, prints the output of the suite and returns an error.
fn run_suite(node: &Path, folder: &Path, arguments: &[&str]) -> Result<(), Failure> {
    announce(&format!("conformance {}", arguments.join(" ")));
    let log = folder.join("output.txt");
    let open = |error| Failure::message(format!("cannot write {}: {error}", log.display()));
    let output = File::create(&log).map_err(open)?;
    let errors = output.try_clone().map_err(open)?;
    let mut command = Command::new(node);
    command
        .arg(SCRIPT)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors);
    let status = command
        .status()
        .map_err(|error| Failure::message(format!("cannot run {}: {error}", node.display())))?;
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    eprintln!("{text}");
    Err(Failure::message(format!("the suite in {} failed: {status}", folder.display())))
}

/// The running server of the example. It ends when this value is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Result<Self, Failure> {
        let path = program("mcp-conformance-server")?;
        let failed = |error| Failure::message(format!("cannot run {}: {error}", path.display()));
        let mut command = command_in_root(&path);
        let mut process = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut url = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut url).map_err(failed)?;
        }
        Ok(Self { process, url: url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
