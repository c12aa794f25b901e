//! The header `Accept` of the clients of an HTTP server.

use std::time::Duration;

use haft_core::Toolset;
use haft_mcp::HttpServiceConfig;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::http_serving::{Probe, Served, serve};

/// Sends a request with only these `headers`. Returns the head and the body of the response.
async fn send(server: &Served, line: &str, headers: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!("{line} /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let reading = timeout(Duration::from_secs(10), stream.read_to_end(&mut response));
    let _ = reading.await.unwrap();
    let response = String::from_utf8(response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

fn accept(value: Option<&str>) -> String {
    let accept = value.map(|value| format!("Accept: {value}\r\n")).unwrap_or_default();
    format!("{accept}Content-Type: application/json\r\n")
}

fn initialize() -> String {
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

fn discover() -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}).to_string()
}

/// Reads the message in `body`, which may be an event stream in chunks.
fn message(body: &str) -> Value {
    let line = body.lines().find(|line| line.contains("\"jsonrpc\"")).unwrap_or_else(|| panic!("{body}"));
    serde_json::from_str(line.trim_start_matches("data: ")).unwrap()
}

/// A client accepts what its header covers, in both revisions. A client that accepts only JSON gets
/// JSON.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_accept_count() {
    let server = serve(Toolset::new().with_tool(Probe::new().0), HttpServiceConfig::default()).await;
    for (value, expected) in [
        (Some("application/json, text/event-stream"), "text/event-stream"),
        (Some("*/*"), "text/event-stream"),
        (None, "text/event-stream"),
        (Some("application/*, text/*;q=0.5"), "text/event-stream"),
        (Some("APPLICATION/JSON, Text/Event-Stream"), "text/event-stream"),
        (Some("application/json"), "application/json"),
        (Some("*/*, text/event-stream;q=0"), "application/json"),
        (Some("text/html"), "406"),
        (Some("text/event-stream"), "406"),
        (Some("*/*, application/json;q=0"), "406"),
    ] {
        let headers = accept(value);
        let (head, body) = send(&server, "POST", &headers, &initialize()).await;
        let versioned =
            format!("{headers}Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: server/discover\r\n");
        let (modern, modern_body) = send(&server, "POST", &versioned, &discover()).await;
        if expected == "406" {
            for head in [head, modern] {
                assert!(
                    head.starts_with("http/1.1 406") && head.contains("content-type: text/plain"),
                    "{head}"
                );
            }
            continue;
        }
        assert!(head.contains(&format!("content-type: {expected}")), "{value:?}: {head}");
        assert_eq!(message(&body)["result"]["protocolVersion"], "2025-06-18", "{value:?}");
        assert!(modern.starts_with("http/1.1 200"), "{value:?}: {modern}\n{modern_body}");
        assert!(message(&modern_body)["result"]["supportedVersions"].is_array(), "{value:?}: {modern_body}");
        assert!(expected == "text/event-stream" || !modern.contains("text/event-stream"), "{modern}");
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        let headers = format!("{headers}Mcp-Session-Id: {session}\r\n");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        assert!(send(&server, "POST", &headers, &ready).await.0.starts_with("http/1.1 202"));
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "probe", "arguments": {}}});
        let (head, body) = send(&server, "POST", &headers, &call.to_string()).await;
        assert!(head.contains(&format!("content-type: {expected}")), "{value:?}: {head}");
        assert_eq!(message(&body)["result"]["content"][0]["text"], "nobody", "{value:?}: {body}");
    }
}

/// A GET must accept an event stream. Each error response has a content type.
#[tokio::test(flavor = "multi_thread")]
async fn error_response_has_a_content_type() {
    let server = serve(Toolset::new(), HttpServiceConfig::default()).await;
    for (line, headers, body, status) in [
        ("GET", "Accept: application/json\r\n", "", "406"),
        ("GET", "", "", "4"),
        ("GET", "Accept: text/*\r\nMcp-Session-Id: x\r\n", "", "404"),
        ("PUT", "", "", "405"),
        ("DELETE", "", "", "4"),
        ("POST", "Content-Type: text/plain\r\n", "{}", "415"),
        ("POST", "Content-Type: application/json\r\n", "{", "4"),
        (
            "POST",
            "Content-Type: application/json\r\nMcp-Session-Id: x\r\n",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            "404",
        ),
    ] {
        let (head, _) = send(&server, line, headers, body).await;
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{line} {headers}: {head}");
        assert!(head.contains("content-type: "), "{line} {headers}: {head}");
    }
}

/// A byte order mark before a message is no content, and a number that cannot be held exactly is
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn message_of_a_client_is_read_exactly() {
    let server = serve(Toolset::new(), HttpServiceConfig::default()).await;
    let (head, body) = send(&server, "POST", &accept(None), &format!("\u{feff}{}", initialize())).await;
    assert!(head.starts_with("http/1.1 200"), "{head}\n{body}");
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"probe","arguments":{"x":123456789012345678901}}}"#;
    let (head, body) = send(&server, "POST", &accept(None), call).await;
    assert!(head.starts_with("http/1.1 400"), "{head}");
    let error = message(&body);
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(-32602)));
    assert!(body.contains("123456789012345678901"), "{body}");
}
