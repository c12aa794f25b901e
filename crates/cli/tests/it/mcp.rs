use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use serde_json::{Value, json};

use crate::{CommandOutput, child, haft};

fn haft_mcp(arguments: &[&str], file: &Path) -> CommandOutput {
    let file = ["--mcp", file.to_str().unwrap()];
    let (action, rest) = arguments.split_first().unwrap();
    CommandOutput::run(haft(["mcp", *action].into_iter().chain(file).chain(rest.iter().copied())))
}

/// `haft mcp add` creates the configuration of the user, and shows the command before the first
/// start.
#[test]
fn servers_are_added_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new/mcp.json");
    let added =
        haft_mcp(&["add", "time", "--env", "KEY=${TOKEN:-none}", "--", "uvx", "mcp-server-time"], &file);
    assert_eq!(added.stdout, format!("added time to {}: uvx mcp-server-time\n", file.display()));
    let header = "Authorization=Bearer ${TOKEN:-none}";
    let added = haft_mcp(&["add", "web", "https://example.org/mcp?key=s3cret", "--header", header], &file);
    assert_eq!(added.stdout, format!("added web to {}: https://example.org\n", file.display()));
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let expected = json!({"mcpServers": {
        "time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"KEY": "${TOKEN:-none}"}},
        "web": {"url": "https://example.org/mcp?key=s3cret", "headers": {"Authorization": "Bearer ${TOKEN:-none}"}},
    }});
    assert_eq!(written, expected);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let listed = haft_mcp(&["list"], &file);
    assert_eq!(listed.stdout, "time: uvx mcp-server-time\nweb: https://example.org\n");
    haft_mcp(&["add", "time", "--", "x"], &file).assert_failed(1, "the server \"time\" exists");
    assert_eq!(haft_mcp(&["add", "time", "--replace", "--", "x"], &file).code, Some(0));
    assert_eq!(haft_mcp(&["remove", "web"], &file).code, Some(0));
    assert_eq!(haft_mcp(&["list"], &file).stdout, "time: x\n");
    haft_mcp(&["remove", "web"], &file).assert_failed(1, "no server \"web\"");
}

/// An editor on Windows writes a byte order mark, and line ends with a carriage return.
#[test]
fn file_of_a_windows_editor_is_read_and_changed() {
    let text =
        "\u{feff}{\r\n  \"mcpServers\": {\"first\": {\"command\": \"x\", \"env\": {\"A\": \"ü\"}}}\r\n}\r\n";
    let (_folder, file) = child::write_mcp_json(text);
    assert_eq!(haft_mcp(&["list"], &file).stdout, "first: x\n");
    assert_eq!(haft_mcp(&["add", "second", "--", "y"], &file).code, Some(0));
    assert_eq!(haft_mcp(&["list"], &file).stdout, "first: x\nsecond: y\n");
    assert!(fs::read_to_string(&file).unwrap().contains("\"A\": \"ü\""));
    assert_eq!(haft_mcp(&["remove", "first"], &file).code, Some(0));
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(&file, &utf16).unwrap();
    for arguments in [&["list"][..], &["add", "third", "--", "z"], &["remove", "first"]] {
        haft_mcp(arguments, &file).assert_failed(1, "UTF-16");
    }
    assert_eq!(fs::read(&file).unwrap(), utf16);
}

/// A configuration with comments is not rewritten, because they would be lost.
#[test]
fn comments_are_not_lost() {
    let text = "{\n  // mine\n  \"servers\": {}\n}\n";
    let (_folder, file) = child::write_mcp_json(text);
    let failed = haft_mcp(&["add", "time", "--", "x"], &file);
    failed.assert_failed(1, "has comments");
    failed.assert_failed(1, r#"add this entry by hand: {"time":{"command":"x"}}"#);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn invalid_usage_is_reported() {
    let (_folder, file) = child::write_mcp_json("{}");
    for (arguments, message) in [
        (&["add", "a"][..], "haft mcp add time -- uvx mcp-server-time"),
        (&["add", "a", "http://localhost", "--", "x"], "not both"),
        (&["add", "a", "--header", "A=b", "--", "x"], "--header"),
        (&["add", "a", "http://localhost", "--env", "A=b"], "--env"),
        (&["add", "a", "--env", "A", "--", "x"], "NAME=VALUE"),
        (&["test", "none"], "no server"),
    ] {
        let (_folder, file) = match arguments {
            ["test", ..] => child::write_mcp_json(r#"{"mcpServers": {}}"#),
            _ => (tempfile::tempdir().unwrap(), file.clone()),
        };
        haft_mcp(arguments, &file).assert_failed(2, message);
    }
}

/// A file with the servers of another program is not changed, because a second object of servers
/// would hide the first.
#[test]
fn servers_of_other_programs_are_kept() {
    for root in ["context_servers", "mcp"] {
        let text = json!({ root: {"a": {"command": "x"}} }).to_string();
        let (_folder, file) = child::write_mcp_json(&text);
        let failed =
            haft_mcp(&["add", "b", "http://localhost/mcp", "--header", "Authorization=s3cret"], &file);
        failed.assert_failed(1, &format!("the servers are in \"{root}\""));
        assert!(!failed.stderr.contains("s3cret"), "{}", failed.stderr);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

/// A server for the network needs a token, or an explicit permission.
#[test]
fn network_server_needs_a_token() {
    let served = CommandOutput::run(haft(["mcp", "serve", "--no-mcp", "--http", "0.0.0.0:0"]));
    served.assert_failed(2, "--token-env");
}

/// The options of OAuth need one another, and an invalid URL is reported before a server starts.
#[test]
fn oauth_options_are_checked() {
    let serve = |options: &[&str]| {
        let base = ["mcp", "serve", "--no-mcp", "--http", "127.0.0.1:0"];
        CommandOutput::run(haft(base.into_iter().chain(options.iter().copied())))
    };
    let issuer = ["--oauth-issuer", "https://auth.example.org"];
    serve(&issuer).assert_failed(2, "--public-url");
    serve(&["--oauth-scope", "tools"]).assert_failed(2, "--oauth-issuer");
    let url = |url| [&issuer[..], &["--public-url", url]].concat();
    serve(&url("mcp.example.org")).assert_failed(2, "does not begin with http:// or https://");
    serve(&[&url("https://mcp.example.org/mcp")[..], &["--no-token"]].concat())
        .assert_failed(2, "cannot be used with");
}

/// `haft mcp serve --oauth-issuer` serves the metadata of the resource and challenges its clients.
#[test]
fn tools_are_served_to_clients_of_an_issuer() {
    let url = "https://mcp.example.org/mcp";
    let mut command = haft(["mcp", "serve", "--http", "127.0.0.1:0", "--no-mcp", "--public-url", url]);
    command.args(["--oauth-issuer", "https://auth.example.org", "--oauth-scope", "tools"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap().1.trim_end().trim_end_matches("/mcp").to_owned();
    let request = |line: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!("{line} HTTP/1.1\r\nHost: mcp.example.org\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    let metadata = request("GET /.well-known/oauth-protected-resource/mcp");
    assert!(metadata.starts_with("HTTP/1.1 200") && metadata.contains(url), "{metadata}");
    let challenged = request("POST /mcp");
    assert!(challenged.starts_with("HTTP/1.1 401"), "{challenged}");
    let expected = "resource_metadata=\"https://mcp.example.org/.well-known/oauth-protected-resource/mcp\", \
                    scope=\"tools\"";
    assert!(challenged.contains(expected), "{challenged}");
    server.kill().unwrap();
    server.wait().unwrap();
}

/// `haft mcp login` is for servers with a URL, and `haft mcp logout` needs no login.
#[test]
fn login_and_logout_name_the_server() {
    let (folder, file) = child::write_mcp_json(
        r#"{"servers": {"a": {"command": "x"}, "b": {"url": "http://127.0.0.1:9/mcp"}}}"#,
    );
    haft_mcp(&["login", "a"], &file).assert_failed(2, "a has a command");
    haft_mcp(&["login", "c"], &file).assert_failed(2, "the configured servers are a, b");
    haft_mcp(&["login", "b", "--no-browser"], &file).assert_failed(1, "cannot reach the server");
    let mut command = haft(["mcp", "logout", "b", "--mcp", file.to_str().unwrap()]);
    command.env("XDG_CONFIG_HOME", folder.path());
    assert_eq!(CommandOutput::run(command).stdout, "no tokens of b\n");
}

/// The login of a client without a user needs its id and a secret or a key. The error names the
/// option, and not the secret.
#[test]
fn client_login_needs_credentials() {
    let (folder, file) = child::write_mcp_json(r#"{"servers": {"b": {"url": "http://127.0.0.1:9/mcp"}}}"#);
    let key = folder.path().join("key.pem");
    fs::write(&key, "s3cret").unwrap();
    let login =
        |options: &[&str]| haft_mcp(&[&["login", "b", "--client-credentials"], options].concat(), &file);
    login(&[]).assert_failed(2, "--client-id");
    login(&["--client-id", "a"]).assert_failed(2, "--client-secret-env or --client-key");
    let unset = ["--client-id", "a", "--client-secret-env", "HAFT_NO_SUCH_VARIABLE"];
    login(&unset).assert_failed(2, "the variable HAFT_NO_SUCH_VARIABLE has no secret");
    let invalid = login(&["--client-id", "a", "--client-key", key.to_str().unwrap()]);
    invalid.assert_failed(2, "openssl pkcs8 -topk8");
    assert!(!invalid.stderr.contains("s3cret"), "{}", invalid.stderr);
}

/// `haft mcp test` starts the servers and reports each of them.
#[test]
fn servers_are_tested() {
    let (_folder, file) = child::write_weather_mcp_json();
    let tested = haft_mcp(&["test"], &file);
    assert_eq!(tested.code, Some(0), "{}", tested.stderr);
    assert!(tested.stdout.starts_with("weather: ready after "), "{}", tested.stdout);
    assert!(tested.stdout.ends_with("3 tools: weather, find, key\n"), "{}", tested.stdout);
    let (_folder, file) =
        child::write_mcp_json(r#"{"mcpServers": {"gone": {"command": "no-such-program"}}}"#);
    let tested = haft_mcp(&["test"], &file);
    assert_eq!(tested.code, Some(1));
    assert!(tested.stdout.contains("gone: failed: cannot start the server"), "{}", tested.stdout);
}

/// `haft mcp serve --http` serves the tools until an interrupt.
#[test]
fn tools_are_served_over_http() {
    let mut command = haft(["mcp", "serve", "--http", "127.0.0.1:0", "--no-mcp"]);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap().1.trim_end().trim_end_matches("/mcp").to_owned();
    assert!(line.starts_with("serving 2 tools at "), "{line}");
    let mut stream = TcpStream::connect(&address).unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let body = body.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("\"haft\""), "{response}");
    let stopped = Command::new("kill").args(["-INT", &server.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

/// A changed tool is withheld until `haft mcp accept` accepts it.
#[test]
fn changed_tool_is_accepted() {
    let (folder, file) = child::write_weather_mcp_json();
    let tools = || CommandOutput::run(haft(["tools", "--mcp", file.to_str().unwrap()]));
    assert!(tools().stdout.contains("weather"));
    let accepted = haft_mcp(&["accept", "weather"], &file);
    assert_eq!(accepted.stdout, "all tools of weather are accepted\n");
    let pins = folder.path().join("mcp.pins.json");
    let mut content: Value = serde_json::from_str(&fs::read_to_string(&pins).unwrap()).unwrap();
    content["servers"]["weather"]["accepted"]["weather"]["description"] = json!("Another text.");
    fs::write(&pins, content.to_string()).unwrap();
    let withheld = tools();
    assert!(withheld.stderr.contains("is withheld until its definition is accepted"), "{}", withheld.stderr);
    assert!(!withheld.stdout.contains("weather"), "{}", withheld.stdout);
    let refused = haft_mcp(&["accept", "weather"], &file);
    refused.assert_failed(2, "needs a terminal, or --yes");
    assert!(refused.stdout.contains("description: \"Another text.\" -> "), "{}", refused.stdout);
    let accepted = haft_mcp(&["accept", "weather", "--yes"], &file);
    assert!(accepted.stdout.ends_with("accepted 1 tools of weather\n"), "{}", accepted.stdout);
    assert!(tools().stdout.contains("weather"));
}

/// `haft mcp search` shows the exact command that adds a server.
#[test]
fn registry_is_searched() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let registry = format!("http://{}", listener.local_addr().unwrap());
    let package = json!({
        "registryType": "npm", "identifier": "@example/weather", "version": "1.2.0", "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "KEY", "description": "The key.", "isRequired": true, "isSecret": true}],
    });
    let server = json!({
        "name": "io.example/weather", "description": "Weather.\u{1b}[2J", "version": "1.2.0", "packages": [package],
    });
    let body = json!({"servers": [{"server": server}]}).to_string();
    let serving = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(&stream).lines();
        let request = lines.next().unwrap().unwrap();
        while !lines.next().unwrap().unwrap().is_empty() {}
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        (&stream).write_all(format!("{head}{body}").as_bytes()).unwrap();
        request
    });
    let found = CommandOutput::run(haft(["mcp", "search", "weather", "--registry", &registry]));
    assert!(serving.join().unwrap().starts_with("GET /v0.1/servers?search=weather&"));
    let expected = "io.example/weather 1.2.0\n  Weather.[2J\n  \
        haft mcp add weather --env 'KEY=${KEY}' -- npx -y @example/weather@1.2.0\n    KEY (secret): The key.\n";
    assert_eq!(found.stdout, expected, "{}", found.stderr);
    let failed = CommandOutput::run(haft(["mcp", "search", "weather", "--registry", &registry]));
    failed.assert_failed(1, "cannot reach the registry");
}

/// A server that does not know `server/discover`: it exits, and accepts `initialize` only.
const OLD_SERVER: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
        *server/discover*) exit 1 ;;
        *'"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}' ;;
        *tools/list*) result='{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}' ;;
        *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// The commands store the protocol revision of a server that is slow to detect in the cache folder
/// of the user.
#[test]
fn slow_detection_is_cached() {
    let text = json!({"mcpServers": {"old": {"command": "sh", "args": ["-c", OLD_SERVER]}}}).to_string();
    let (folder, file) = child::write_mcp_json(&text);
    let mut command = haft(["mcp", "test", "--mcp", file.to_str().unwrap()]);
    command.env("XDG_CACHE_HOME", folder.path());
    let tested = CommandOutput::run(command);
    assert!(tested.stdout.contains("1 tools: old"), "{} {}", tested.stdout, tested.stderr);
    let cache = fs::read_to_string(folder.path().join("haft/mcp-revisions.json")).unwrap();
    assert!(cache.contains("initialize") && !cache.contains("read"), "{cache}");
}
