//! The command `cargo xtask peers`: tests the program `haft` with MCP servers and MCP clients by
//! others.

mod child;
mod clients;
mod home;
mod login;
mod servers;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use self::home::Home;
use crate::failure::Failure;
use crate::judges::{install_node, install_npm_packages, install_python_packages};
use crate::process::{announce, cargo_command, run as run_command};
use crate::workspace::{self, Workspace};

/// The servers and clients from npm.
const NPM_PACKAGES: [&str; 6] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/sdk@1.32.2",
];
/// The servers and clients from PyPI.
const PYTHON_PACKAGES: [&str; 4] =
    ["mcp==2.3.0", "fastmcp==4.2.3", "mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"];
/// The last version of the Python SDK before revision 2026-07-28.
const PYTHON_SDK_V1: &str = "mcp==1.30.0";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if !arguments.is_empty() {
        return Err(Failure::usage("`peers` takes no arguments"));
    }
    let peers = Peers::install()?;
    // The same features as the tests, so that dependencies are not compiled again.
    run_command(&mut cargo_command(&["test", "--locked", "--workspace", "--no-run"]))?;
    servers::check(&peers)?;
    login::check(&peers)?;
    clients::check(&peers)?;
    announce("haft works with all peers");
    Ok(())
}

/// Installs the servers and clients, and Node if it is too old.
pub(crate) fn install() -> Result<(), Failure> {
    Peers::install().map(drop)
}

/// The installed packages, and the program `haft`.
struct Peers {
    haft: PathBuf,
    node: PathBuf,
    /// The folder of the npm packages. `npx` finds them if it is the working directory.
    npm: PathBuf,
    /// The Python interpreter of [`PYTHON_PACKAGES`].
    python: PathBuf,
    /// The Python interpreter of [`PYTHON_SDK_V1`].
    python_v1: PathBuf,
    /// The folder with the copies of our scripts. It is in the folder of the npm packages, because
    /// Node searches packages only in the folders above a script.
    scripts: PathBuf,
    /// The folder of the temporary home folders.
    homes: PathBuf,
    /// The variable `PATH` of all processes.
    path: OsString,
}

impl Peers {
    fn install() -> Result<Self, Failure> {
        let target = Workspace::load()?.target_directory;
        let folder = target.join("judges");
        let node = install_node(&folder)?;
        let (npm, python) = (folder.join("mcp-peers-npm"), folder.join("mcp-peers-python"));
        let python_v1 = folder.join("mcp-peers-python-v1");
        install_npm_packages(&npm, &NPM_PACKAGES)?;
        install_python_packages(&python, &PYTHON_PACKAGES)?;
        install_python_packages(&python_v1, &[PYTHON_SDK_V1])?;
        let scripts = npm.join("scripts");
        copy_scripts(&scripts)?;
        let system = env::var_os("PATH").unwrap_or_default();
        // The parent of `node`, the program of the system, is empty.
        let node_folder = node.parent().filter(|folder| !folder.as_os_str().is_empty()).map(PathBuf::from);
        let folders = node_folder.into_iter().chain([python.join("bin")]).chain(env::split_paths(&system));
        let path = env::join_paths(folders)
            .map_err(|error| Failure::message(format!("cannot extend PATH: {error}")))?;
        Ok(Self {
            haft: target.join("debug").join("haft").with_extension(env::consts::EXE_EXTENSION),
            node,
            npm,
            python: python.join("bin").join("python"),
            python_v1: python_v1.join("bin").join("python"),
            scripts,
            homes: folder.join("mcp-peers-homes"),
            path,
        })
    }

    /// Returns the path of one of our scripts.
    fn script(&self, name: &str) -> PathBuf {
        self.scripts.join(name)
    }
}

/// Copies the scripts of the clients and servers to `target`.
fn copy_scripts(target: &Path) -> Result<(), Failure> {
    for folder in ["clients", "servers"] {
        let (source, target) = (workspace::root().join("tests/peers").join(folder), target.join(folder));
        let failed = |error| {
            Failure::message(format!("cannot copy {} to {}: {error}", source.display(), target.display()))
        };
        fs::create_dir_all(&target).map_err(failed)?;
        for entry in fs::read_dir(&source).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            fs::copy(entry.path(), target.join(entry.file_name())).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
