//! The limits of the HTTP server.

use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_core::{Toolset, tool::Principal, tool_fn};
use haft_mcp::{
    HttpServiceConfig,
    authorization::{ProtectedResource, RejectedRequest},
};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::{Instant, sleep, timeout},
};

use crate::http_serving::{Probe, Served, probe_tools, serve};

fn config(change: impl FnOnce(&mut HttpServiceConfig)) -> HttpServiceConfig {
    let mut config = HttpServiceConfig::default();
    change(&mut config);
    config
}

fn status(response: &str) -> &str {
    response.get(9..12).unwrap_or(response)
}

fn retry_after(response: &str) -> u64 {
    let value = response.lines().find_map(|line| line.strip_prefix("retry-after: "));
    value.unwrap_or_else(|| panic!("{response}")).parse().unwrap()
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
}

/// Opens a session and returns the headers of its requests.
async fn open_session(server: &Served, head: &str) -> String {
    let opened = server.post(head, &initialize().to_string()).await.to_lowercase();
    let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    let head = format!("{head}Mcp-Session-Id: {}\r\n", session.unwrap_or_else(|| panic!("{opened}")));
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(status(&server.post(&head, &ready).await), "202");
    head
}

/// The requests of a client are limited, and those without a valid token count for the address.
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_client_are_limited() {
    let principal = |id: &str| Principal { id: id.to_owned(), ..Principal::default() };
    let config = HttpServiceConfig::default()
        .with_bearer_token("token-a", principal("ann"))
        .with_bearer_token("token-b", principal("ben"))
        .with_max_requests_per_minute(NonZeroU32::new(3).unwrap());
    let server = serve(Toolset::new(), config).await;
    let post = async |token: &str| {
        let head = format!("Host: {}\r\nAuthorization: Bearer {token}\r\n", server.address);
        server.post(&head, &initialize().to_string()).await
    };
    for (token, expected) in [("token-a", "200"), ("guess", "401")] {
        for _ in 0..3 {
            assert_eq!(status(&post(token).await), expected, "{token}");
        }
        let limited = post(token).await;
        assert_eq!(status(&limited), "429", "{limited}");
        assert!((1..=20).contains(&retry_after(&limited)), "{limited}");
    }
    assert_eq!(status(&post("token-b").await), "200");
}

/// Requests that are rejected before a call are reported, for example for an audit log.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_requests_are_reported() {
    let rejected: Arc<Mutex<Vec<_>>> = Arc::default();
    let log = Arc::clone(&rejected);
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let config = HttpServiceConfig::default()
        .with_bearer_token("token-a", ann)
        .with_max_requests_per_minute(NonZeroU32::new(2).unwrap())
        .with_rejection_hook(move |request| {
            let RejectedRequest { status, address, principal, .. } = request.clone();
            assert!(address.is_some_and(|address| address.is_loopback()));
            log.lock().unwrap().push((status, principal));
        });
    let server = serve(Toolset::new(), config).await;
    let head = format!("Host: {}\r\n", server.address);
    for head in [
        head.clone(),
        format!("{head}Authorization: Bearer token-a\r\n"),
        "Host: other.example.org\r\nAuthorization: Bearer token-a\r\n".to_owned(),
        format!("{head}Authorization: Bearer token-a\r\n"),
    ] {
        server.post(&head, &initialize().to_string()).await;
    }
    let ann = Some("ann".to_owned());
    assert_eq!(*rejected.lock().unwrap(), [(401, None), (403, ann.clone()), (429, ann)]);
}

/// The number of sessions is limited, also for concurrent requests. The end of a session permits
/// another one.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_limited() {
    let server = serve(Toolset::new(), config(|config| config.max_sessions = 5)).await;
    let head = format!("Host: {}\r\n", server.address);
    let first = open_session(&server, &head).await;
    let body = initialize().to_string();
    let flood = futures::future::join_all((0..20).map(|_| server.post(&head, &body))).await;
    let opened = flood.iter().filter(|response| status(response) == "200").count();
    assert!((1..=4).contains(&opened), "{opened}");
    let rejected = flood.iter().find(|response| status(response) == "503").unwrap();
    assert_eq!(retry_after(rejected), 60);
    // Concurrent requests may reject one another, but not beyond the maximum.
    for _ in opened..4 {
        assert_eq!(status(&server.post(&head, &body).await), "200");
    }
    assert_eq!(status(&server.post(&head, &body).await), "503");
    assert_eq!(status(&server.post(&head, "not JSON").await), "503");
    assert_eq!(status(&server.request("DELETE /mcp", &first, "").await), "204");
    assert_eq!(status(&server.post(&head, &body).await), "200");
}

/// The number of sessions of a client is limited, also for concurrent requests. The sessions of the
/// others are not affected.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_client_are_limited() {
    let ann = |id: &str| Principal { id: id.to_owned(), ..Principal::default() };
    let limited = HttpServiceConfig::default()
        .with_max_sessions_per_client(3)
        .with_bearer_token("token-of-ann", ann("ann"))
        .with_bearer_token("token-of-ben", ann("ben"));
    let server = serve(Toolset::new(), limited).await;
    let head = |id: &str| format!("Host: {}\r\nAuthorization: Bearer token-of-{id}\r\n", server.address);
    let first = open_session(&server, &head("ann")).await;
    let (ann, body) = (head("ann"), initialize().to_string());
    let flood = futures::future::join_all((0..10).map(|_| server.post(&ann, &body))).await;
    assert_eq!(flood.iter().filter(|response| status(response) == "200").count(), 2);
    let rejected = flood.iter().find(|response| status(response) == "429").unwrap();
    assert!(rejected.contains("too many sessions of this client"), "{rejected}");
    assert_eq!(retry_after(rejected), 60);
    assert_eq!(status(&server.post(&head("ben"), &body).await), "200");
    assert_eq!(status(&server.request("DELETE /mcp", &first, "").await), "204");
    assert_eq!(status(&server.post(&ann, &body).await), "200");
}

/// The calls in progress of a client are limited. The call of a session whose client has
/// disconnected continues and counts.
#[tokio::test(flavor = "multi_thread")]
async fn calls_in_progress_are_limited() {
    let limited = config(|config| config.max_concurrent_calls = 1);
    let (probe, dropped) = Probe::new();
    let server = serve(Toolset::new().with_tool(probe), limited).await;
    let head = open_session(&server, &format!("Host: {}\r\n", server.address)).await;
    let wait = json!({"action": "wait"});
    let call = json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "probe", "arguments": wait},
    });
    let call = call.to_string();
    let pending = timeout(Duration::from_millis(300), server.post(&head, &call)).await;
    assert!(pending.is_err(), "the call waits, and its client disconnects");
    let rejected = server.post(&head, &call.replace("\"id\":2", "\"id\":3")).await;
    assert!(rejected.contains("-32000") && rejected.contains("at most 1 per client"), "{rejected}");
    let tools = probe_tools(server.client()).await;
    let failure = tools.call("probe", json!({})).await.into_output().unwrap_err();
    assert!(failure.message.contains("too many calls in progress"), "{}", failure.message);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(status(&server.post(&head, &cancel.to_string()).await), "202");
    timeout(Duration::from_secs(2), dropped.notified()).await.unwrap();
    // The slot is freed after the call.
    let called = async {
        while tools.call("probe", json!({})).await.into_output().is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(2), called).await.unwrap();
}

/// Sends `text` over a new connection. Returns the response when the server closes the connection.
async fn send(server: &Served, text: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// A request whose body does not arrive in time is rejected.
#[tokio::test(start_paused = true)]
async fn slow_body_is_rejected() {
    let server = serve(Toolset::new(), HttpServiceConfig::default()).await;
    let started = Instant::now();
    let types = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {}\r\n{types}", server.address);
    let response = send(&server, &format!("{head}Content-Length: 100\r\n\r\n{{\"jsonrpc\"")).await;
    assert_eq!(status(&response), "408", "{response}");
    assert!(started.elapsed() >= Duration::from_secs(30), "{:?}", started.elapsed());
}

/// A connection is closed if the headers of a request do not arrive in time, also after an earlier
/// request.
#[tokio::test(start_paused = true)]
async fn slow_headers_close_the_connection() {
    let server = serve(Toolset::new(), HttpServiceConfig::default()).await;
    let request = format!("PUT /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    for (text, expected) in [("POST /mcp HTTP/1.1\r\nHost: loc", ""), ("", ""), (&request, "405")] {
        let started = Instant::now();
        let response = send(&server, text).await;
        assert!(response.is_empty() || status(&response) == expected, "{response}");
        let elapsed = started.elapsed();
        assert!(Duration::from_secs(30) <= elapsed && elapsed < Duration::from_secs(32), "{elapsed:?}");
    }
}

/// A client beyond the maximum number of connections waits.
#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited() {
    let server = serve(Toolset::new(), config(|config| config.listener.max_connections = 1)).await;
    let first = TcpStream::connect(server.address).await.unwrap();
    let head = format!("Host: {}\r\n", server.address);
    let second = timeout(Duration::from_millis(300), server.post(&head, "{}")).await;
    assert!(second.is_err(), "the second client waits");
    drop(first);
    let served = timeout(Duration::from_secs(5), server.post(&head, &initialize().to_string())).await;
    assert_eq!(status(&served.unwrap()), "200");
}

/// One address cannot use all connections. The others are served, and the end of a connection
/// permits another one.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_an_address_are_limited() {
    let limited = HttpServiceConfig::default().with_max_connections(4).with_max_connections_per_address(2);
    let server = serve(Toolset::new(), limited).await;
    let connect = async |from: &str| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(server.address).await.unwrap()
    };
    let mut slow = vec![connect("127.0.0.2").await, connect("127.0.0.2").await];
    for _ in 0..20 {
        let mut closed = connect("127.0.0.2").await;
        let read = timeout(Duration::from_secs(5), closed.read(&mut [0])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    let head = format!("Host: {}\r\n", server.address);
    assert_eq!(status(&server.post(&head, &initialize().to_string()).await), "200");
    slow.pop();
    let request = format!("PUT /mcp HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let served = async {
        loop {
            let mut stream = connect("127.0.0.2").await;
            // The server may not have seen the end of the earlier connection.
            if stream.write_all(request.as_bytes()).await.is_ok()
                && stream.read(&mut [0; 16]).await.is_ok_and(|length| length > 0)
            {
                return;
            }
        }
    };
    timeout(Duration::from_secs(5), served).await.unwrap();
}

/// A rejected request closes its connection, and counts on every path.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_request_closes_its_connection() {
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let config = HttpServiceConfig::default()
        .with_bearer_token("token-a", ann)
        .with_max_requests_per_minute(NonZeroU32::new(4).unwrap());
    let server = serve(Toolset::new(), config).await;
    for (line, expected) in [
        ("GET /mcp", "401"),
        ("POST /mcp/", "401"),
        ("GET /", "404"),
        ("GET /x/mcp", "404"),
        ("GET /y", "429"),
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n", server.address);
        let response = timeout(Duration::from_secs(5), send(&server, &request)).await.unwrap();
        assert_eq!(status(&response), expected, "{line}: {response}");
    }
}

/// The metadata of a protected resource counts as well.
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_metadata_are_limited() {
    let resource = ProtectedResource::new("http://localhost/mcp").unwrap();
    let resource = resource.with_issuer("http://127.0.0.1:1").unwrap();
    let config = HttpServiceConfig::default()
        .with_protected_resource(resource)
        .with_max_requests_per_minute(NonZeroU32::new(2).unwrap());
    let server = serve(Toolset::new(), config).await;
    for expected in ["200", "200", "429"] {
        let line = "GET /.well-known/oauth-protected-resource/mcp";
        assert_eq!(status(&server.request(line, "Host: localhost\r\n", "").await), expected);
    }
}

/// A client that does not read its response does not keep the connection.
#[tokio::test(start_paused = true)]
async fn unread_response_closes_the_connection() {
    const DESCRIPTION_BYTES: usize = 1 << 20;
    let tools = (0..32).fold(Toolset::new(), |tools, number| {
        let name = format!("tool{number}");
        let description = "x".repeat(DESCRIPTION_BYTES);
        tools.with_tool(tool_fn(&name, &description, |_: Map<String, Value>| async { 1 }))
    });
    let server = serve(tools, HttpServiceConfig::default()).await;
    let head = open_session(&server, &format!("Host: {}\r\n", server.address)).await;
    let types = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let request = format!("POST /mcp HTTP/1.1\r\n{head}{types}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    // The first bytes prove that the response has begun.
    stream.read_exact(&mut [0; 16]).await.unwrap();
    sleep(Duration::from_secs(40)).await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.len() < 32 * DESCRIPTION_BYTES, "the whole response was sent: {}", rest.len());
}
