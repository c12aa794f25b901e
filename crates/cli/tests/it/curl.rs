//! Runs the `curl` lines of the README and of the book as they are printed.
//!
//! A line `$ haft serve …` in a block of the language `console` starts the server, with a scripted
//! model and the store of the earlier ones. A line `$ curl …` is run by the shell, and the lines
//! after it are its output. `…` stands for any text, and `run_5a…` for the id of the latest run.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use haft_testing::model_server::{ModelServer, Reply};

use crate::haft;

/// The printed address of the server, and that of the output of `haft serve`.
const PRINTED_ADDRESSES: [&str; 2] = ["localhost:8080", "127.0.0.1:8080"];

/// The printed id of the latest run.
const PRINTED_RUN: &str = "run_5a…";

/// The maximum time of a `curl` line. It bounds a stream of events that does not end.
const CURL_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn curl_lines_of_the_book_work_as_printed() {
    let call = |arguments: &str| Reply::calls([("call_1", "calculator", arguments)]);
    let commands = check_page(
        "docs/src/server.md",
        [
            call(r#"{"expression": "17 + 25"}"#),
            Reply::text("It is 42."),
            Reply::text("You asked for 17 plus 25."),
            call(r#"{"expression": "6 * 7"}"#),
            Reply::text("It is 42."),
        ],
    );
    assert!(commands.iter().any(|command| command.contains("/decisions")), "no approval: {commands:?}");
}

#[test]
fn curl_lines_of_the_readme_work_as_printed() {
    let call = Reply::calls([("call_1", "calculator", r#"{"expression": "17 + 25"}"#)]);
    check_page("README.md", [call, Reply::text("It is 42.")]);
}

/// Runs the lines of a page, and returns the `curl` lines. `replies` are all replies of the model.
fn check_page<const REPLIES: usize>(path: &str, replies: [Reply; REPLIES]) -> Vec<String> {
    let version = Command::new("curl").arg("--version").output();
    assert!(version.is_ok(), "this test needs `curl`: cargo xtask setup installs it");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start(replies).unwrap();
    let (mut server, mut run, mut ran) = (None, String::new(), Vec::new());
    for (command, printed) in printed_commands(&text) {
        if let Some(arguments) = command.strip_prefix("haft serve") {
            // The earlier server ends before the next one opens the store.
            drop(server.take());
            let started = Server::start(arguments, folder.path(), &model);
            let serving = format!("serving at http://{}", started.address);
            assert_output(command, &started.with_address(&printed), &serving);
            server = Some(started);
        } else if command.starts_with("curl ") {
            let server: &Server =
                server.as_ref().unwrap_or_else(|| panic!("{path}: no server before {command}"));
            let line = server.with_address(command).replace(PRINTED_RUN, &run);
            let output = run_in_shell(&line);
            run = id_of_run(&output).unwrap_or(run);
            assert!(!printed.is_empty(), "{path} has no output of {command}:\n{output}");
            assert_output(command, &printed.replace(PRINTED_RUN, &run), output.trim_end());
            ran.push(command.to_owned());
        }
    }
    assert!(!ran.is_empty(), "{path} has no `curl` line");
    assert_eq!(model.requests().len(), REPLIES, "requests of the model");
    ran
}

/// Returns the commands in the `console` blocks of a page, each with its printed output.
fn printed_commands(page: &str) -> Vec<(&str, String)> {
    let mut commands: Vec<(&str, String)> = Vec::new();
    let mut is_console = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if let (true, Some(command)) = (is_console, line.strip_prefix("$ ")) {
            commands.push((command, String::new()));
        } else if let (true, Some((_, printed))) = (is_console, commands.last_mut()) {
            let separator = if printed.is_empty() { "" } else { "\n" };
            printed.push_str(&format!("{separator}{line}"));
        }
    }
    commands
}

/// Fails unless `output` is `printed`, where `…` stands for any text.
fn assert_output(command: &str, printed: &str, output: &str) {
    let mut pieces = printed.split('…');
    let first = pieces.next().unwrap_or_default();
    let mut rest = output.strip_prefix(first);
    let mut pieces: Vec<_> = pieces.collect();
    let last = pieces.pop();
    for piece in pieces {
        rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, rest)| rest);
    }
    let is_equal = match last {
        Some(last) => rest.is_some_and(|rest| rest.ends_with(last)),
        None => rest == Some(""),
    };
    assert!(is_equal, "the page prints for {command}:\n{printed}\n\nbut the output is:\n{output}");
}

/// Runs a line as a user does, and returns its standard output.
fn run_in_shell(line: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("no_proxy", "*");
    let (sender, receiver) = mpsc::channel();
    // After a timeout, the test ends the server, and the server ends `curl`.
    thread::spawn(move || sender.send(command.output()));
    let output = receiver.recv_timeout(CURL_TIMEOUT);
    let output = output.unwrap_or_else(|_| panic!("{line} does not end")).unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the id of the run in the output of a line.
fn id_of_run(output: &str) -> Option<String> {
    let (_, id) = output.split_once(r#""run_id":""#)?;
    Some(id.split_once('"')?.0.to_owned())
}

/// A running `haft serve`.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(arguments: &str, folder: &Path, model: &ModelServer) -> Self {
        let mut command = haft(["serve", "--addr", "127.0.0.1:0", "--no-mcp", "--model", "openai:scripted"]);
        command.args(["--base-url", &model.base_url()]).args(arguments.split_whitespace());
        command.env("HAFT_STORE", format!("sqlite:{}", folder.join("haft.db").display()));
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("serving at http://");
        let address = address.unwrap_or_else(|| panic!("haft serve{arguments}: {line}")).to_owned();
        Self { process, address }
    }

    /// Replaces the printed address.
    fn with_address(&self, text: &str) -> String {
        PRINTED_ADDRESSES.iter().fold(text.to_owned(), |text, printed| text.replace(printed, &self.address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.process.wait();
    }
}
