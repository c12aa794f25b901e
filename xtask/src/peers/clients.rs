//! `haft` as a server: third-party clients list and call its tools.

use std::path::Path;

use super::child::Running;
use super::{Home, Peers};
use crate::failure::Failure;
use crate::process::announce;

/// A script that uses the client of an SDK.
struct Script {
    path: &'static str,
    /// Returns the program that runs the script.
    interpreter: fn(&Peers) -> &Path,
    /// The newest protocol revision of the SDK.
    revision: &'static str,
}

const SCRIPTS: [Script; 5] = [
    Script { path: "clients/python_sdk.py", interpreter: |peers| &peers.python, revision: "2026-07-28" },
    Script {
        path: "clients/python_sdk_v1.py",
        interpreter: |peers| &peers.python_v1,
        revision: "2025-11-25",
    },
    Script { path: "clients/fastmcp_client.py", interpreter: |peers| &peers.python, revision: "2026-07-28" },
    Script { path: "clients/typescript_sdk.mjs", interpreter: |peers| &peers.node, revision: "2026-07-28" },
    Script {
        path: "clients/typescript_sdk_v1.mjs",
        interpreter: |peers| &peers.node,
        revision: "2025-11-25",
    },
];
/// A server whose tool can be cancelled. `haft` serves its tools.
const SLOW_SERVER: &str = "servers/slow.py";
/// The bearer token of the server that requires one.
const TOKEN: &str = "peers-token";
/// The arguments of the Inspector for a call.
const CALL: [&str; 4] = ["--method", "tools/call", "--tool-name", "calculator"];
/// The eras of the protocol, as the Inspector names them.
const ERAS: [&str; 2] = ["legacy", "modern"];

pub(super) fn check(peers: &Peers) -> Result<(), Failure> {
    let home = Home::new(peers, "clients")?;
    let slow = peers.script(SLOW_SERVER);
    let (python, slow) = (peers.python.to_string_lossy(), slow.to_string_lossy());
    home.run_haft(["mcp", "add", "slow", "--", &python, &slow])?.expect(0, "added slow")?;
    let haft = peers.haft.to_string_lossy();
    run_scripts(&home, "stdio", &["stdio", &haft, "mcp", "serve"])?;
    run_inspector(&home, "stdio", &[&haft, "mcp", "serve"])?;
    serve(&home, &[], check_http)?;
    serve(&home, &["--token-env", "MCP_TOKEN"], check_token)
}

/// Serves the tools of `host` over HTTP with `options`, and passes the URL to `check`.
fn serve(
    host: &Home<'_>,
    options: &[&str],
    check: fn(&Home<'_>, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut command = host.haft(["mcp", "serve", "--http", "127.0.0.1:0"]);
    let mut server = Running::start(command.args(options).env("MCP_TOKEN", TOKEN))?;
    check(&Home::new(host.peers, "http-clients")?, &server.url()?)?;
    server.interrupt()?;
    let finished = server.finish()?;
    finished.expect(0, "serving 4 tools")?;
    host.expect_no_process(&finished.line)
}

fn check_http(home: &Home<'_>, url: &str) -> Result<(), Failure> {
    run_scripts(home, "HTTP", &["http", url])?;
    run_inspector(home, "HTTP", &[url, "--transport", "http"])?;
    // 200 calls, of which ten run concurrently.
    let load = ["--tool-arg", "expression=6 * 7", "--protocol-era=modern", "--load", "--load-requests=200"];
    inspect(home, &[&[url], &CALL[..], &load].concat(), 0, "\"ok\": 200,")
}

fn check_token(home: &Home<'_>, url: &str) -> Result<(), Failure> {
    let header = format!("Authorization: Bearer {TOKEN}");
    run_scripts(home, "HTTP with a token", &["http", url, TOKEN])?;
    run_inspector(home, "HTTP with a token", &[url, "--header", &header])?;
    inspect(home, &[url, "--stored-auth-only", "--method", "tools/list"], 3, "auth_required")
}

/// Runs all scripts with `server`: the transport, and the command or the URL.
fn run_scripts(home: &Home<'_>, transport: &str, server: &[&str]) -> Result<(), Failure> {
    for script in SCRIPTS {
        announce(&format!("haft as a server of {} over {transport}", script.path));
        let mut command = home.command((script.interpreter)(home.peers));
        command.arg(home.peers.script(script.path)).arg(script.revision).args(server);
        home.run(command)?.expect_no_output()?;
    }
    Ok(())
}

/// Runs the command line of the MCP Inspector with `server`: the command, or the URL and options.
fn run_inspector(home: &Home<'_>, transport: &str, server: &[&str]) -> Result<(), Failure> {
    announce(&format!("haft as a server of the MCP Inspector over {transport}"));
    for era in ERAS {
        let run = |arguments: &[&str], code, text| {
            inspect(home, &[server, &["--protocol-era", era], arguments].concat(), code, text)
        };
        run(&["--method", "tools/list", "--strict"], 0, "\"calculator\"")?;
        run(&[&CALL[..], &["--tool-arg", "expression=6 * 7"]].concat(), 0, "\"result\": \"42\"")?;
        run(&[&CALL[..], &["--tool-arg", "expresion=6 * 7"]].concat(), 5, "did you mean \\\"expression\\\"")?;
    }
    Ok(())
}

fn inspect(home: &Home<'_>, arguments: &[&str], code: i32, text: &str) -> Result<(), Failure> {
    let mut command = home.command("npx");
    command.args(["@modelcontextprotocol/inspector", "--cli"]).args(arguments);
    home.run(command)?.expect(code, text)
}
