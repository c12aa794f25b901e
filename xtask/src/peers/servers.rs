//! `haft` as a client: lists and calls the tools of third-party servers.

use std::net::TcpListener;

use super::child::Running;
use super::{Home, Peers};
use crate::failure::Failure;
use crate::process::announce;

/// The texts in commands and arguments that stand for the home folder, and for the scripts.
const HOME: &str = "{home}";
const SCRIPTS: &str = "{scripts}";
/// The script of the server `everything`, for its HTTP modes.
const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// A server on standard input and output.
struct Server {
    name: &'static str,
    command: &'static [&'static str],
    /// Options of `haft mcp add`.
    options: &'static [&'static str],
    calls: &'static [Call],
}

/// A call: the tool, the arguments, the expected exit code, and a part of the expected output.
struct Call(&'static str, &'static str, i32, &'static str);

const EVERYTHING_CALLS: &[Call] = &[
    Call("echo", r#"{"message": "héllo"}"#, 0, "Echo: héllo"),
    Call("get-sum", r#"{"a": 17, "b": 25}"#, 0, "42"),
    Call("get-sum", r#"{"a": "many", "b": 25}"#, 1, "/a: expected number"),
    Call("get-structured-content", r#"{"location": "Chicago"}"#, 0, "\"humidity\""),
    Call("trigger-long-running-operation", r#"{"duration": 0.2, "steps": 2}"#, 0, "Steps: 2"),
];

const SERVERS: &[Server] = &[
    Server {
        name: "everything",
        command: &["npx", "-y", "@modelcontextprotocol/server-everything"],
        options: &[],
        calls: EVERYTHING_CALLS,
    },
    Server {
        name: "filesystem",
        command: &["npx", "-y", "@modelcontextprotocol/server-filesystem", "{home}/notes"],
        options: &[],
        calls: &[
            Call(
                "write_file",
                r#"{"path": "{home}/notes/a.txt", "content": "first"}"#,
                0,
                "Successfully wrote",
            ),
            Call("read_text_file", r#"{"path": "{home}/notes/a.txt"}"#, 0, "first"),
            Call("read_text_file", r#"{"path": "/etc/passwd"}"#, 1, "outside allowed directories"),
            Call(
                "read_text_file",
                r#"{"file": "{home}/notes/a.txt"}"#,
                1,
                "missing required property \"path\"",
            ),
        ],
    },
    Server {
        name: "memory",
        command: &["npx", "-y", "@modelcontextprotocol/server-memory"],
        options: &["--env", "MEMORY_FILE_PATH={home}/memory.jsonl"],
        calls: &[
            Call(
                "create_entities",
                r#"{"entities": [{"name": "Ann", "entityType": "person", "observations": ["likes tea"]}]}"#,
                0,
                "Ann",
            ),
            Call("read_graph", "{}", 0, "likes tea"),
            Call("create_entities", r#"{"entities": [{"name": "Ann"}]}"#, 1, "/entities/0: missing required"),
        ],
    },
    Server {
        name: "time",
        command: &["mcp-server-time"],
        options: &[],
        calls: &[
            Call(
                "convert_time",
                r#"{"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}"#,
                0,
                "03:00:00",
            ),
            Call("get_current_time", r#"{"timezone": "Nowhere/City"}"#, 1, "Nowhere/City"),
            Call("convert_time", r#"{"time": "12:00"}"#, 1, "missing required property \"source_timezone\""),
        ],
    },
    Server {
        name: "git",
        command: &["mcp-server-git", "--repository", "{home}/notes"],
        options: &[],
        calls: &[
            Call("git_status", r#"{"repo_path": "{home}/notes"}"#, 0, "No commits yet"),
            Call("git_log", r#"{"repo_path": "{home}/notes", "max_count": "many"}"#, 1, "/max_count"),
            Call("git_status", r#"{"repo_path": "/"}"#, 1, "outside the allowed repository"),
        ],
    },
    Server {
        name: "fastmcp",
        command: &["python", "{scripts}/servers/slow.py"],
        options: &[],
        calls: &[
            Call("was_cancelled", r#"{"key": "peers"}"#, 0, "false"),
            Call("was_cancelled", r#"{"key": 1, "call": 2}"#, 1, "/key"),
        ],
    },
];

/// The HTTP modes of the server `everything`: the argument of the server, the path of the URL, and
/// further options of `haft mcp add`. Without an option, `haft` detects the transport.
const HTTP_MODES: [(&str, &str, &[&str]); 3] = [
    ("streamableHttp", "/mcp", &["--transport", "http"]),
    ("sse", "/sse", &["--transport", "sse"]),
    ("sse", "/sse", &[]),
];

pub(super) fn check(peers: &Peers) -> Result<(), Failure> {
    for server in SERVERS {
        announce(&format!("haft as a client of {}", server.name));
        let home = Home::new(peers, server.name)?;
        let mut git = home.command("git");
        git.args(["init", "--quiet"]).arg(home.folder.join("notes"));
        home.run(git)?.expect(0, "")?;
        let words = [&["mcp", "add", server.name], server.options, &["--"], server.command].concat();
        let words = words.iter().map(|word| expand(word, &home));
        home.run_haft(words)?.expect(0, &format!("added {}", server.name))?;
        check_tools(&home, server.name, server.calls)?;
    }
    HTTP_MODES.into_iter().try_for_each(|(mode, path, options)| check_http(peers, mode, path, options))
}

/// Tests the server `everything` over HTTP.
fn check_http(peers: &Peers, mode: &str, path: &str, options: &[&str]) -> Result<(), Failure> {
    announce(format!("haft as a client of everything, {mode} {}", options.join(" ")).trim_end());
    let host = Home::new(peers, "http-server")?;
    let port = free_port()?;
    let mut command = host.command(&peers.node);
    let mut server = Running::start(command.args([EVERYTHING, mode]).env("PORT", &port))?;
    server.line_with(&format!("on port {port}"))?;
    let home = Home::new(peers, "http-client")?;
    let url = format!("http://127.0.0.1:{port}{path}");
    let words = ["mcp", "add", "everything", &url].into_iter().chain(options.iter().copied());
    home.run_haft(words)?.expect(0, "added everything")?;
    check_tools(&home, "everything", EVERYTHING_CALLS)
}

/// Lists the tools of the only configured server, and makes `calls`.
fn check_tools(home: &Home<'_>, server: &str, calls: &[Call]) -> Result<(), Failure> {
    home.run_haft(["mcp", "test", server])?.expect(0, &format!("{server}: ready after "))?;
    let tools = home.run_haft(["tools", "--json"])?;
    for Call(tool, arguments, code, output) in calls {
        tools.expect(0, &format!("\"name\":\"{tool}\""))?;
        home.run_haft(["call", tool, &expand(arguments, home)])?.expect(*code, output)?;
    }
    Ok(())
}

/// Replaces [`HOME`] and [`SCRIPTS`] in `text`.
fn expand(text: &str, home: &Home<'_>) -> String {
    let scripts = home.peers.scripts.to_string_lossy();
    text.replace(HOME, &home.folder.to_string_lossy()).replace(SCRIPTS, &scripts)
}

/// Returns a free port, for a server that does not print the port that the system has chosen.
fn free_port() -> Result<String, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let address = listener.map_err(|error| Failure::message(format!("no free port: {error}")))?;
    Ok(address.port().to_string())
}
