use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{Registry, RegistryError, parse_server};

/// Checks the entries of a server with `detail`, and the reasons for unsupported ones.
fn check(detail: &Value, expected: &Expect) {
    let mut server = json!({"name": "io.example/demo", "description": "A demo.", "version": "1.0.2"});
    server.as_object_mut().unwrap().extend(detail.as_object().unwrap().clone());
    let server = parse_server(json!({ "server": server })).unwrap();
    let mut lines: Vec<_> = server
        .installations
        .iter()
        .map(|it| {
            let names: Vec<_> = it.variables.iter().map(|variable| variable.name.as_str()).collect();
            format!("{}: {} {names:?}\n", it.kind, Value::Object(it.entry.clone()))
        })
        .collect();
    lines.extend(server.unsupported.iter().map(|reason| format!("unsupported: {reason}\n")));
    expected.assert_eq(&lines.concat());
}

fn package(kind: &str, identifier: &str, more: &Value) -> Value {
    let mut package = json!({
        "registryType": kind, "identifier": identifier, "version": "1.0.2", "transport": {"type": "stdio"},
    });
    package.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "packages": [package] })
}

#[test]
fn packages_become_commands() {
    let arguments = json!({
        "packageArguments": [
            {"type": "positional", "valueHint": "target_dir", "isRequired": true},
            {"type": "named", "name": "--mode", "default": "local"},
            {"type": "named", "name": "--port", "isRequired": true, "default": "80"},
            {"type": "named", "name": "--fast", "isRequired": true, "value": "{level}",
             "variables": {"level": {"default": "2"}}},
        ],
        "environmentVariables": [
            {"name": "API_KEY", "description": "The key.", "isRequired": true, "isSecret": true},
            {"name": "LOG_LEVEL", "default": "info"},
        ],
    });
    check(
        &package("npm", "@example/demo", &arguments),
        &expect![[r#"
        npm: {"command":"npx","args":["-y","@example/demo@1.0.2","${TARGET_DIR}","--port=80","--fast=2"],"env":{"API_KEY":"${API_KEY}"}} ["API_KEY", "TARGET_DIR"]
    "#]],
    );
    check(
        &package("pypi", "demo", &json!({})),
        &expect![[r#"
        pypi: {"command":"uvx","args":["demo@1.0.2"]} []
    "#]],
    );
    check(
        &package("pypi", "demo", &json!({"registryBaseUrl": "https://pypi.example.org"})),
        &expect![[r#"
        pypi: {"command":"uvx","args":["--default-index=https://pypi.example.org","demo@1.0.2"]} []
    "#]],
    );
    let mount = json!({"runtimeArguments": [{
        "type": "named", "name": "--mount", "value": "type=bind,src={source},dst=/data", "isRequired": true,
        "variables": {"source": {"isRequired": true}},
    }], "environmentVariables": [{"name": "TOKEN", "isRequired": true, "isSecret": true}]});
    check(
        &package("oci", "docker.io/example/demo", &mount),
        &expect![[r#"
        oci: {"command":"docker","args":["run","-i","--rm","-e","TOKEN","--mount=type=bind,src=${SOURCE},dst=/data","docker.io/example/demo:1.0.2"],"env":{"TOKEN":"${TOKEN}"}} ["TOKEN", "SOURCE"]
    "#]],
    );
    check(
        &package("oci", "docker.io/example/demo:2.0", &json!({})),
        &expect![[r#"
        oci: {"command":"docker","args":["run","-i","--rm","docker.io/example/demo:2.0"]} []
    "#]],
    );
    let start = json!({"packageArguments": [{"type": "positional", "value": "start"}]});
    check(
        &package("nuget", "Example.Demo", &start),
        &expect![[r#"
        nuget: {"command":"dnx","args":["Example.Demo@1.0.2","--yes","--","start"]} []
    "#]],
    );
}

#[test]
fn remote_servers_become_urls() {
    let remotes = json!({"remotes": [
        {"type": "streamable-http", "url": "https://{tenant}.example.org/mcp",
         "variables": {"tenant": {"isRequired": true}}},
        {"type": "sse", "url": "https://example.org/sse", "headers": [
            {"name": "Authorization", "value": "Bearer {api_key}", "isRequired": true,
             "variables": {"api_key": {"isRequired": true, "isSecret": true, "default": "leaked"}}},
            {"name": "X-Region", "default": "eu"},
        ]},
        {"type": "streamable-http", "url": "javascript:alert(1)"},
    ]});
    check(
        &remotes,
        &expect![[r#"
            remote: {"url":"https://${DEMO_TENANT}.example.org/mcp"} ["DEMO_TENANT"]
            remote: {"url":"https://example.org/sse","type":"sse","headers":{"Authorization":"Bearer ${DEMO_API_KEY}"}} ["DEMO_API_KEY"]
            unsupported: the URL of the remote server does not begin with http:// or https://
        "#]],
    );
}

/// An entry of a registry cannot read environment variables, and its command is as displayed.
#[test]
fn entry_of_an_attacker_is_harmless() {
    let arguments = json!({"packageArguments": [
        {"type": "positional", "value": "${HOME}$${HOME}${env:A}{env:B}"},
        {"type": "positional", "value": "{{a}OPENAI_API_KEY}", "variables": {"a": {"value": "env:"}}},
        {"type": "positional", "value": "a\u{202e}b\u{1b}[2J\nc"},
        {"type": "named", "name": "--x${SECRET}", "value": "1"},
    ]});
    check(
        &package("npm", "demo", &arguments),
        &expect![[r#"
        npm: {"command":"npx","args":["-y","demo@1.0.2","{HOME}{HOME}{A}{B}","{OPENAI_API_KEY}","ab[2J\nc","--x{SECRET}=1"]} []
    "#]],
    );
    check(
        &package("npm", "--registry=http://evil.example", &json!({})),
        &expect![[r#"
        unsupported: the identifier "--registry=http://evil.example" of the npm package is invalid
    "#]],
    );
    check(
        &package("mcpb", "https://example.org/a.mcpb", &json!({})),
        &expect![[r#"
        unsupported: the package "https://example.org/a.mcpb" has the unsupported type "mcpb"
    "#]],
    );
    check(
        &package("npm", "demo", &json!({"transport": {"type": "sse"}})),
        &expect![[r#"
        unsupported: the npm package "demo" uses the transport "sse"
    "#]],
    );
}

/// Serves `bodies` to one request each, and returns the request lines.
async fn serve(listener: &TcpListener, bodies: &[String]) -> Vec<String> {
    let mut requests = Vec::new();
    for body in bodies {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        // The client may close the connection before the end of a body that is too long.
        let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        requests.push(String::from_utf8(request).unwrap().lines().next().unwrap().to_owned());
    }
    requests
}

fn page(names: &[&str], next: Option<&str>) -> String {
    let server = |name: &&str| {
        json!({
            "server": {"name": name, "description": "", "version": "1"},
            "_meta": {"io.modelcontextprotocol.registry/official": {
                "status": if *name == "gone" { "deleted" } else { "active" },
            }},
        })
    };
    let servers: Vec<_> = names.iter().map(server).chain([json!({"server": 1})]).collect();
    json!({"servers": servers, "metadata": {"nextCursor": next}}).to_string()
}

#[tokio::test]
async fn all_pages_are_searched() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Registry::new(format!("http://{}/", listener.local_addr().unwrap()));
    let bodies = [page(&["a", "gone"], Some("a&b")), page(&["b", "c"], None)];
    let (found, requests) = tokio::join!(registry.search("x y", 50), serve(&listener, &bodies));
    let names: Vec<_> = found.unwrap().into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(
        requests,
        [
            "GET /v0.1/servers?search=x+y&version=latest&limit=50 HTTP/1.1",
            "GET /v0.1/servers?search=x+y&version=latest&limit=50&cursor=a%26b HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn faults_of_a_registry_are_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Registry::new(format!("http://{}", listener.local_addr().unwrap()));
    for (body, fault) in [("[]".to_owned(), "invalid length"), (" ".repeat(9 << 20), "exceeds 8388608 bytes")]
    {
        let bodies = [body];
        let (found, _) = tokio::join!(registry.search("x", 1), serve(&listener, &bodies));
        assert!(matches!(&found, Err(RegistryError::InvalidResponse(it)) if it.contains(fault)), "{found:?}");
    }
    drop(listener);
    // The listener is closed.
    assert!(matches!(registry.search("x", 1).await, Err(RegistryError::Request(_))));
    let invalid = Registry::new("file:///etc").search("x", 1).await;
    assert!(matches!(invalid, Err(RegistryError::InvalidUrl(_))), "{invalid:?}");
}
