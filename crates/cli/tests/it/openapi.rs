//! Tests of `haft mcp from-openapi`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::Stdio,
    thread,
};

use expect_test::expect;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{CommandOutput, haft};

const DOCUMENT: &str = "
openapi: 3.1.0
info: {title: Pets, version: '1'}
paths:
  /pets/{id}:
    get:
      operationId: getPet
      summary: Returns a pet.
      security: [{login: []}]
      parameters: [{name: id, in: path, required: true, description: The id., schema: {type: integer}}]
    delete: {operationId: deletePet, parameters: [{$ref: 'common.yaml#/id'}]}
components:
  securitySchemes:
    login: {type: http, scheme: bearer}
";

fn write_document() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pets.yaml");
    fs::write(&path, DOCUMENT).unwrap();
    (folder, path)
}

/// Runs `haft mcp from-openapi` with the document and `arguments`.
fn from_openapi(arguments: &[&str]) -> CommandOutput {
    let (_folder, path) = write_document();
    let command = ["mcp", "from-openapi", path.to_str().unwrap()];
    CommandOutput::run(haft(command.into_iter().chain(arguments.iter().copied())))
}

#[test]
fn tools_are_listed_with_warnings() {
    let listed = from_openapi(&["--list", "--base-url", "http://127.0.0.1:9"]);
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    expect![[r#"
        getPet
          Returns a pet.
            id: integer  The id.

    "#]]
    .assert_eq(&listed.stdout);
    assert!(listed.stderr.contains("tool \"deletePet\" of openapi:pets is quarantined"), "{}", listed.stderr);
    let listed = from_openapi(&["--list", "--json", "--base-url", "http://127.0.0.1:9", "--read-only"]);
    assert_eq!(listed.json_lines()[0]["name"], "getPet");
    assert_eq!(listed.stderr, "");
}

#[test]
fn invalid_usage_has_a_remedy() {
    from_openapi(&["--list"]).assert_failed(1, "set it with --base-url, or allow it with --allow-server");
    let base = ["--base-url", "http://127.0.0.1:9"];
    let with = |arguments: &[&str]| from_openapi(&[&base, arguments].concat());
    with(&["--credential", "login=${HAFT_TEST_UNSET}"])
        .assert_failed(2, "--credential: the variable HAFT_TEST_UNSET is not defined");
    with(&["--credential-env", "login=HAFT_TEST_UNSET"])
        .assert_failed(2, "--credential-env: the variable HAFT_TEST_UNSET is not defined");
    let unknown = with(&["--credential", "key=s3cret"]);
    unknown.assert_failed(1, "the document has no security scheme \"key\"; known: login");
    assert!(!unknown.stderr.contains("s3cret"));
    with(&["--include", "none"]).assert_failed(1, "none is selected");
    with(&["--list", "--http", "127.0.0.1:0"]).assert_failed(2, "--http");
    with(&["--http", "0.0.0.0:0"]).assert_failed(2, "--token-env");
    let missing = CommandOutput::run(haft(["mcp", "from-openapi", "/nonexistent.json"]));
    missing.assert_failed(1, "cannot read the document from /nonexistent.json");
}

/// An MCP client calls the operation over standard input and output. The credential comes from the
/// environment.
#[test]
fn operations_are_served_over_stdio() {
    call_over_stdio(&["--credential", "login=${PETS_TOKEN}"]);
    call_over_stdio(&["--credential-env", "login=PETS_TOKEN"]);
}

/// A client of the API has its own tools and its own credential. Faults in the file are reported
/// without its secrets.
#[test]
fn clients_have_their_own_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clients.json");
    let file = path.to_str().unwrap();
    let own = json!({"credentials": {"login": "${PETS_TOKEN}"}, "includeTools": ["getPet"]});
    fs::write(&path, json!({"ann": own, "ben": {}}).to_string()).unwrap();
    call_over_stdio(&["--credential", "login=other", "--clients", file, "--client", "ann"]);
    let fails = |clients: Value, code, expected| {
        fs::write(&path, clients.to_string()).unwrap();
        let output =
            from_openapi(&["--base-url", "http://127.0.0.1:9", "--clients", file, "--client", "ann"]);
        output.assert_failed(code, expected);
        assert!(!output.stderr.contains("s3cret"), "{}", output.stderr);
    };
    fails(json!([]), 2, "clients.json: the root must be an object of clients by id");
    fails(json!({"ben": {}}), 2, "unknown client \"ann\"; the configuration has: ben");
    fails(json!({"ann": {"key": "s3cret"}}), 2, "the client \"ann\": unknown key \"key\"");
    let unknown = json!({"ann": {"credentials": {"key": "s3cret"}}});
    fails(unknown, 1, "the document has no security scheme \"key\"; known: login");
    let undefined = json!({"ann": {"credentials": {"login": "${HAFT_TEST_UNSET}"}}});
    fails(undefined, 2, "\"login\" of \"credentials\": the variable HAFT_TEST_UNSET is not defined");
    fails(json!({"*": {"credentials": {"login": "s3cret"}}}), 2, "set them with --credential");
}

/// Calls the operation with the credential in `options`, and checks the request and the result.
fn call_over_stdio(options: &[&str]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/api", listener.local_addr().unwrap());
    let api = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while !request.ends_with("\r\n\r\n") {
            reader.read_line(&mut request).unwrap();
        }
        let body = r#"{"id": 7, "name": "Rex"}"#;
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        request
    });
    let (_folder, path) = write_document();
    let document = path.to_str().unwrap();
    let mut command = haft(["mcp", "from-openapi", document, "--base-url", &base_url]);
    command
        .args(options)
        .env("PETS_TOKEN", "t0ken")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "getPet", "arguments": {"id": 7}}}),
    ];
    let mut input = server.stdin.take().unwrap();
    for message in messages {
        writeln!(input, "{message}").unwrap();
    }
    let mut responses = BufReader::new(server.stdout.take().unwrap());
    let mut lines = [String::new(), String::new()];
    for line in &mut lines {
        responses.read_line(line).unwrap();
    }
    drop(input);
    let mut rest = String::new();
    responses.read_to_string(&mut rest).unwrap();
    assert!(server.wait().unwrap().success());
    let response: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(response["result"]["structuredContent"], json!({"id": 7, "name": "Rex"}));
    let request = api.join().unwrap().to_lowercase();
    assert!(request.starts_with("get /api/pets/7 http/1.1"), "{request}");
    assert!(request.contains("authorization: bearer t0ken"), "{request}");
}
