use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{CommandOutput, child, haft};

/// Adds `rules` to the configuration at `file`, and returns a configuration beside it with the
/// gateway as its only server.
fn write_gateway(file: &Path, rules: &Value, arguments: &[&str]) -> std::path::PathBuf {
    let mut config: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    config["gateway"] = rules.clone();
    fs::write(file, config.to_string()).unwrap();
    let fixed = ["mcp", "gateway", "--mcp", file.to_str().unwrap()];
    let arguments: Vec<_> = fixed.iter().chain(arguments).collect();
    let outer = file.with_file_name("outer.json");
    let gateway = json!({"command": env!("CARGO_BIN_EXE_haft"), "args": arguments});
    fs::write(&outer, json!({"mcpServers": {"gateway": gateway}}).to_string()).unwrap();
    outer
}

/// `haft mcp gateway` applies the rules of the configuration, and writes a record of each call.
#[test]
fn gateway_applies_rules_and_records_calls() {
    let (folder, file) = child::write_weather_mcp_json();
    let rules = json!({
        "renameTools": {"weather_weather": "forecast"},
        "clients": {"ann": {"includeTools": ["forecast"]}, "*": {"includeTools": []}},
    });
    let audit = folder.path().join("audit.jsonl");
    let arguments = ["--client", "ann", "--audit", audit.to_str().unwrap()];
    let outer = write_gateway(&file, &rules, &arguments);
    let outer = outer.to_str().unwrap();

    let listed = CommandOutput::run(haft(["tools", "--mcp", outer, "--json"]));
    assert!(listed.stdout.contains("\"forecast\""), "{}", listed.stderr);
    assert!(!listed.stdout.contains("weather_key"), "{}", listed.stdout);
    let called = CommandOutput::run(haft(["call", "forecast", r#"{"city": "Oslo"}"#, "--mcp", outer]));
    assert!(called.stdout.contains("It rains in Oslo."), "{}", called.stderr);

    let records = fs::read_to_string(&audit).unwrap();
    let record: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    assert_eq!(record["tool"], "forecast");
    assert_eq!(record["principal"]["id"], "ann");
    assert_eq!(record["arguments"], json!({"city": "Oslo"}));
    assert_eq!(record["outcome"]["type"], "done");
    assert_eq!(fs::metadata(&audit).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A server that does not respond delays neither the tools of the others nor the handshake with the
/// client.
#[test]
fn hung_server_does_not_delay_the_gateway() {
    let (_folder, file) = child::write_weather_mcp_json();
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    config["mcpServers"]["hung"] = json!({"command": "sleep", "args": ["600"]});
    fs::write(&file, config.to_string()).unwrap();
    let outer = write_gateway(&file, &json!({}), &[]);
    let listed = CommandOutput::run(haft(["tools", "--mcp", outer.to_str().unwrap(), "--json"]));
    assert!(listed.stdout.contains("\"weather_weather\""), "{}", listed.stderr);
}

/// A request without the token is a line of the audit log.
#[test]
fn rejected_request_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit.jsonl");
    let mut command =
        haft(["mcp", "serve", "--no-mcp", "--http", "127.0.0.1:0", "--token-env", "TEST_TOKEN"]);
    command.arg("--audit").arg(&audit).env("TEST_TOKEN", "secret").stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.rsplit_once("http://").unwrap().1.trim().trim_end_matches("/mcp").to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head =
        format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(response.starts_with("HTTP/1.1 401"), "{response}");
    let entry: Value = serde_json::from_str(fs::read_to_string(&audit).unwrap().trim()).unwrap();
    assert_eq!((&entry["rejected"], &entry["address"]), (&json!(401), &json!("127.0.0.1")));
}

/// A fault in the rules ends the command, because a gateway without them would permit too much.
#[test]
fn faults_in_the_rules_are_reported() {
    let (_folder, file) = child::write_mcp_json(r#"{"servers": {}, "gateway": {"exclude": ["x"]}}"#);
    let file = file.to_str().unwrap();
    let failed = CommandOutput::run(haft(["mcp", "gateway", "--mcp", file]));
    failed.assert_failed(1, "unknown key \"exclude\" in \"gateway\"");
    let (_folder, file) = child::write_mcp_json(r#"{"servers": {}, "gateway": {"clients": {"ann": {}}}}"#);
    let failed =
        CommandOutput::run(haft(["mcp", "gateway", "--mcp", file.to_str().unwrap(), "--client", "ben"]));
    failed.assert_failed(2, "unknown client \"ben\"");
}
