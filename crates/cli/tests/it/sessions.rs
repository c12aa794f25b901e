//! Tests of stored conversations: `haft run --session`, `haft sessions` and `haft serve`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
};

use expect_test::expect;
use haft_core::{model::catalogue, usage::Usage};
use haft_testing::model_server::{ModelServer, Reply};
use serde_json::Value;

use crate::{CommandOutput, haft};

/// Runs `haft` with the store in `folder`.
fn haft_in(folder: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = haft(arguments);
    command.env("HAFT_STORE", format!("sqlite:{}", folder.join("haft.db").display()));
    CommandOutput::run(command)
}

/// Asks `question` in the conversation `talk`.
fn ask(folder: &Path, server: &ModelServer, question: &str) -> CommandOutput {
    let base_url = server.base_url();
    let model = ["--model", "openai:scripted", "--base-url", base_url.as_str(), "--no-mcp"];
    haft_in(folder, &[&["run", "--session", "talk", question], &model[..]].concat())
}

#[test]
fn conversation_is_continued_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let call = ("call_a", "calculator", r#"{"expression":"17 + 25"}"#);
    let replies = [Reply::calls([call]), Reply::text("It is 42."), Reply::text("I said 42.")];
    let server = ModelServer::start(replies).unwrap();
    assert_eq!(ask(folder, &server, "What is 17 plus 25?").code, Some(0));
    let output = ask(folder, &server, "What did you say?");
    assert!(output.stdout.contains("I said 42."), "{}{}", output.stdout, output.stderr);
    assert!(server.requests()[2].to_string().contains("It is 42."), "the second run does not know the first");

    assert_eq!(haft_in(folder, &["sessions", "list"]).stdout, "talk: 6 entries\n");
    expect![[r#"
        user: What is 17 plus 25?
        assistant: call calculator {"expression":"17 + 25"}
        calculator: {"result":"42","exact":true}
        assistant: It is 42.
        user: What did you say?
        assistant: I said 42.
    "#]]
    .assert_eq(&haft_in(folder, &["sessions", "show", "talk"]).stdout);
    assert_eq!(haft_in(folder, &["sessions", "show", "talk", "--no-tools", "--json"]).json_lines().len(), 4);
    assert_eq!(haft_in(folder, &["sessions", "search", "said"]).stdout, "talk #6 assistant: I said 42.\n");

    let exported = haft_in(folder, &["sessions", "export", "talk"]).stdout;
    let file = folder.join("talk.jsonl");
    fs::write(&file, &exported).unwrap();
    let import = ["sessions", "import", "copy", file.to_str().unwrap()];
    assert_eq!(haft_in(folder, &import).code, Some(0));
    haft_in(folder, &import).assert_failed(1, "the session \"copy\" exists already");
    assert_eq!(haft_in(folder, &["sessions", "delete", "talk"]).code, Some(0));
    haft_in(folder, &["sessions", "show", "talk"]).assert_failed(2, "there is no session \"talk\"");
    assert_eq!(haft_in(folder, &["sessions", "list"]).stdout, "copy: 6 entries\n");
}

/// A run that fails keeps its question, and the conversation can go on.
#[test]
fn failed_run_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = ModelServer::start([Reply::status(400, "{}"), Reply::text("Yes.")]).unwrap();
    assert_eq!(ask(folder, &server, "Are you there?").code, Some(1));
    assert_eq!(ask(folder, &server, "And now?").code, Some(0));
    let shown = haft_in(folder, &["sessions", "show", "talk"]).stdout;
    assert_eq!(shown, "user: Are you there?\nuser: And now?\nassistant: Yes.\n");
}

#[test]
fn foreign_store_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haft.db");
    let text = "not a database, but a text of some length\n".repeat(40);
    fs::write(&path, &text).unwrap();
    haft_in(folder.path(), &["sessions", "list"]).assert_failed(1, "is not a database of haft");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    haft(["sessions", "--store", "mysql://localhost", "list"])
        .output()
        .map(CommandOutput::from)
        .unwrap()
        .assert_failed(1, "write `sqlite:FILE`");
}

/// Sends a request with a bearer token to `address`, and returns the status line and the body.
fn request(address: &str, token: &str, method: &str, path: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

/// The server keeps the conversation over a restart, and ends on SIGTERM.
#[test]
fn server_knows_the_conversation_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start([Reply::text("Hello, Ada."), Reply::text("You are Ada.")]).unwrap();
    let base_url = model.base_url();
    let store = format!("sqlite:{}", folder.path().join("haft.db").display());
    for (question, answer) in [("I am Ada.", "Hello, Ada."), ("Who am I?", "You are Ada.")] {
        let arguments =
            ["serve", "--addr", "127.0.0.1:0", "--model", "openai:scripted", "--base-url", &base_url];
        let mut command = haft(arguments);
        command.args(["--no-mcp", "--store", &store]).stderr(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().rsplit_once("http://").unwrap().1.to_owned();
        let (status, tools) = request(&address, "", "GET", "/tools/names", "");
        assert!(status.contains("200") && tools.contains("calculator"), "{status} {tools}");
        let body = format!(
            r#"{{"messages": [{{"role": "user", "content": "{question}"}}], "session_id": "talk", "use_memory": true}}"#
        );
        let (status, body) = request(&address, "", "POST", "/chat", &body);
        assert!(status.contains("200"), "{status} {body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["text"], answer);
        let pid = server.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(server.wait().unwrap().code(), Some(0));
        let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(files, ["haft.db"]);
    }
    assert!(
        model.requests()[1].to_string().contains("Hello, Ada."),
        "the second server does not know the first answer"
    );
}

/// The server computes costs with the catalogue, and prints the source at its start.
#[test]
fn server_has_the_prices_of_the_catalogue() {
    let model = ModelServer::start([Reply::text("Hello.")]).unwrap();
    let base_url = model.base_url();
    let mut command = haft(["serve", "--addr", "127.0.0.1:0", "--model", "openai:gpt-5.6", "--no-mcp"]);
    command.args(["--base-url", &base_url, "--no-store"]).stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    let mut lines = [String::new(), String::new()];
    for line in &mut lines {
        stderr.read_line(line).unwrap();
    }
    let date = catalogue::date();
    assert_eq!(
        lines[1],
        format!(
            "costs are in USD, at the catalogue price of openai/gpt-5.6 on {date}; --prices sets other prices\n"
        )
    );
    let address = lines[0].trim_end().strip_prefix("serving at http://").unwrap();
    let body = r#"{"messages": [{"role": "user", "content": "Hi."}]}"#;
    let (status, body) = request(address, "", "POST", "/chat", body);
    assert!(status.contains("200"), "{status} {body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let cost = catalogue::find("gpt-5.6").unwrap().price.unwrap().cost_of(&Usage::one_request(10, 5));
    assert_eq!(body["usage"]["cost"], cost.units(), "{body}");
    let pid = server.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

/// The tokens of one tenant have the same conversations, and those of another tenant do not exist.
#[test]
fn conversations_belong_to_a_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::start([Reply::text("Hello.")]).unwrap();
    let base_url = model.base_url();
    let store = format!("sqlite:{}", folder.path().join("haft.db").display());
    let mut command = haft(["serve", "--addr", "127.0.0.1:0", "--model", "openai:scripted", "--no-mcp"]);
    command.args(["--base-url", &base_url, "--store", &store]).stderr(Stdio::piped());
    for (variable, token) in [("ANN_LAPTOP", "token-1"), ("ANN_PHONE", "token-2"), ("BOB", "token-3")] {
        command.env(variable, token);
    }
    command.args(["--token-env", "ann=ANN_LAPTOP", "--token-env", "ann=ANN_PHONE", "--token-env", "BOB"]);
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().rsplit_once("http://").unwrap().1.to_owned();
    let body = r#"{"messages": [{"role": "user", "content": "Hi."}], "session_id": "talk"}"#;
    for (token, method, path, body, expected) in [
        ("token-1", "POST", "/chat", body, "200"),
        ("token-2", "GET", "/sessions/talk", "", "200"),
        ("token-3", "GET", "/sessions/talk", "", "404"),
        ("token-4", "GET", "/sessions/talk", "", "401"),
    ] {
        let (status, body) = request(&address, token, method, path, body);
        assert!(status.contains(expected), "{token}: {status} {body}");
    }
    let pid = server.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
    for (tenant, expected) in
        [("", "no conversations"), ("ann", "talk: 2 entries"), ("BOB", "no conversations")]
    {
        let listed = CommandOutput::run(haft(["sessions", "--store", &store, "--tenant", tenant, "list"]));
        assert!(listed.stdout.starts_with(expected), "{tenant}: {}", listed.stdout);
    }
}

#[test]
fn server_for_everyone_needs_a_token() {
    let serve = |more: &[&str]| {
        let base = ["serve", "--addr", "0.0.0.0:0", "--no-store", "--no-mcp"];
        CommandOutput::run(haft(base.iter().chain(more)))
    };
    serve(&[]).assert_failed(2, "everyone who reaches");
    serve(&["--token-env", "HAFT_MISSING_TOKEN"])
        .assert_failed(2, "the variable HAFT_MISSING_TOKEN has no token");
}
