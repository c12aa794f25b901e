use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use haft_core::{
    Tool, ToolContext, ToolDefinition, ToolError, ToolName, Toolset,
    call::ToolResponse,
    tool::{Principal, Progress, ToolPolicy},
    toolset::ListContext,
};
use haft_mcp::{HttpServer, HttpServiceConfig, McpService, McpSource, serve_http};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::{Instant, timeout},
};

/// A server that ends when it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
}

pub(crate) async fn serve(tools: Toolset, config: HttpServiceConfig) -> Served {
    serve_at(TcpListener::bind("127.0.0.1:0").await.unwrap(), tools, config)
}

pub(crate) fn serve_at(listener: TcpListener, tools: Toolset, config: HttpServiceConfig) -> Served {
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async move { drop(stopped.await) };
    let task = tokio::spawn(serve_http(McpService::new(tools, config), listener, shutdown));
    Served { address, stop: Some(stop), task }
}

impl Served {
    pub(crate) fn client(&self) -> HttpServer {
        HttpServer::new(format!("http://{}/mcp", self.address))
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        self.task.await.unwrap().unwrap();
    }

    /// Sends a request with `headers` and `body`, and returns the response.
    pub(crate) async fn post(&self, headers: &str, body: &str) -> String {
        self.request("POST /mcp", headers, body).await
    }

    /// Sends a request such as `GET /mcp` with `headers` and `body`, and returns the response.
    pub(crate) async fn request(&self, line: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json";
        let head = format!("{line} HTTP/1.1\r\n{headers}{accept}\r\nConnection: close\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // The server may close the connection before it has read a body that is too long.
        let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut response)).await.unwrap();
        String::from_utf8(response).unwrap()
    }
}

/// A tool that returns the principal of the caller, or waits, or panics.
pub(crate) struct Probe {
    definition: ToolDefinition,
    dropped: Arc<Notify>,
}

impl Probe {
    pub(crate) fn new() -> (Self, Arc<Notify>) {
        let probe = Self::with_policy("probe", ToolPolicy::default());
        let dropped = Arc::clone(&probe.dropped);
        (probe, dropped)
    }

    pub(crate) fn with_policy(name: &str, policy: ToolPolicy) -> Self {
        let schema = json!({"type": "object", "properties": {"action": {"type": "string"}}});
        let schema = haft_core::Schema::for_arguments(schema).unwrap();
        let definition = ToolDefinition::new(ToolName::new(name).unwrap(), schema).with_policy(policy);
        Self { definition, dropped: Arc::new(Notify::new()) }
    }
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[async_trait]
impl Tool for Probe {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        match arguments["action"].as_str() {
            Some("wait") => {
                let _guard = NotifyOnDrop(Arc::clone(&self.dropped));
                cx.report_progress(Progress { progress: 1.0, ..Progress::default() });
                std::future::pending().await
            }
            Some("panic") => panic!("the probe panics"),
            _ => Ok(cx.principal().map_or("nobody", |principal| principal.id.as_str()).into()),
        }
    }
}

pub(crate) async fn probe_tools(client: HttpServer) -> Toolset {
    Toolset::new().with_source(McpSource::connect("probe", client).await.unwrap())
}

/// A toolset is served over streamable HTTP. A panic and invalid arguments are results, and an
/// unknown tool is a protocol error.
#[tokio::test(flavor = "multi_thread")]
async fn toolset_is_served_over_http() {
    let server = serve(Toolset::new().with_tool(Probe::new().0), HttpServiceConfig::default()).await;
    let tools = probe_tools(server.client()).await;
    assert_eq!(tools.names().await, ["probe"]);
    assert_eq!(tools.call("probe", json!({})).await.model_text(), "nobody");
    let panicked = tools.call("probe", json!({"action": "panic"})).await.into_output().unwrap_err();
    assert!(panicked.message.contains("panic"), "{}", panicked.message);
    assert_eq!(tools.call("probe", json!({})).await.model_text(), "nobody");
    let source = tools.list(&ListContext::default()).await;
    assert!(source.diagnostics().is_empty());
    drop(tools);
    server.stop().await;
}

/// A client of an earlier revision gets a session, and later requests need its id, until the client
/// ends the session. The Python SDK logs a warning for another status than 200 and 204 at that end.
#[tokio::test(flavor = "multi_thread")]
async fn earlier_revision_has_sessions() {
    let server = serve(Toolset::new().with_tool(Probe::new().0), HttpServiceConfig::default()).await;
    let host = format!("Host: {}\r\n", server.address);
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    let response = server.post(&host, &body).await;
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("2025-06-18"), "{response}");
    let lower = response.to_lowercase();
    let session = lower.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let headers = format!("{host}Mcp-Session-Id: {session}\r\n");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert!(server.post(&headers, &ready).await.starts_with("HTTP/1.1 202"));
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    assert!(server.post(&headers, &list).await.contains("\"probe\""));
    let foreign = format!("{host}Mcp-Session-Id: other\r\n");
    assert!(server.post(&foreign, &list).await.starts_with("HTTP/1.1 404"));
    assert!(server.request("DELETE /mcp", &headers, "").await.starts_with("HTTP/1.1 204"));
    assert!(server.post(&headers, &list).await.starts_with("HTTP/1.1 404"));
}

/// An unknown `Host`, a foreign `Origin` and a body that is too long are rejected.
#[tokio::test(flavor = "multi_thread")]
async fn host_origin_and_length_are_checked() {
    let config = HttpServiceConfig::default().with_allowed_origins(["https://app.example.org:443"]);
    let server = serve(Toolset::new(), config.with_max_body_bytes(1000)).await;
    let status = async |headers: &str, body: &str| server.post(headers, body).await[9..12].to_owned();
    let host = format!("Host: {}\r\n", server.address);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let ping = ping.to_string();
    assert_eq!(status(&host, &ping).await, "200");
    assert_eq!(status("Host: evil.example:80\r\n", &ping).await, "403");
    for (origin, expected) in [
        ("https://evil.example", "403"),
        ("null", "403"),
        ("http://localhost:5173", "200"),
        ("https://app.example.org", "200"),
        ("http://app.example.org", "403"),
    ] {
        let headers = format!("{host}Origin: {origin}\r\n");
        assert_eq!(status(&headers, &ping).await, expected, "{origin}");
    }
    assert_eq!(status(&host, &format!("{ping}{}", " ".repeat(1000))).await, "413");
}

/// A request with ambiguous headers is rejected: a proxy may have checked another line.
#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_headers_are_rejected() {
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let server = serve(Toolset::new(), HttpServiceConfig::default().with_bearer_token("token-a", ann)).await;
    let token = "Authorization: Bearer token-a\r\n";
    let host = format!("Host: {}\r\n", server.address);
    let origin = "Origin: http://localhost:1\r\n";
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (headers, is_rejected) in [
        (format!("{host}{token}{origin}"), false),
        (format!("{host}Host: evil.example\r\n{token}"), true),
        (format!("Host: evil.example\r\n{host}{token}"), true),
        (format!("{host}host: {}\r\n{token}", server.address), true),
        (format!("{host}{token}{origin}Origin: http://evil.example\r\n"), true),
        (format!("{host}{token}Authorization: Bearer other\r\n"), true),
    ] {
        let response = server.post(&headers, body).await;
        assert_eq!(response.contains("the headers are ambiguous"), is_rejected, "{headers}: {response}");
    }
    let headers = format!("{host}{token}");
    for (target, is_rejected) in
        [(format!("http://{}/mcp", server.address), false), ("http://evil.example/mcp".to_owned(), true)]
    {
        let response = server.request(&format!("POST {target}"), &headers, body).await;
        assert_eq!(response.contains("the headers are ambiguous"), is_rejected, "{target}: {response}");
    }
}

/// Without a permitted token, a request is rejected. The principal of the token makes the call.
#[tokio::test(flavor = "multi_thread")]
async fn bearer_token_is_required() {
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let config = HttpServiceConfig::default().with_bearer_token("s3cret", ann);
    let server = serve(Toolset::new().with_tool(Probe::new().0), config).await;
    let rejected = server.post(&format!("Host: {}\r\n", server.address), "{}").await;
    assert!(
        rejected.starts_with("HTTP/1.1 401") && rejected.contains("www-authenticate: Bearer"),
        "{rejected}"
    );
    let error = McpSource::connect("probe", server.client().with_bearer_token("other")).await.unwrap_err();
    assert!(error.reason.contains("requires authorization"), "{}", error.reason);
    let tools = probe_tools(server.client().with_bearer_token("s3cret")).await;
    assert_eq!(tools.call("probe", json!({})).await.model_text(), "ann");
}

/// A session can be used only by the principal that opened it.
#[tokio::test(flavor = "multi_thread")]
async fn session_belongs_to_its_principal() {
    let principal = |id: &str| Principal { id: id.to_owned(), ..Principal::default() };
    let config = HttpServiceConfig::default().with_bearer_token("token-a", principal("ann"));
    let server = serve(Toolset::new(), config.with_bearer_token("token-b", principal("ben"))).await;
    let headers = |token: &str| format!("Host: {}\r\nAuthorization: Bearer {token}\r\n", server.address);
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let opened = server.post(&headers("token-a"), &body.to_string()).await.to_lowercase();
    let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    for (token, status) in [("token-b", "404"), ("token-a", "202")] {
        let headers = format!("{}Mcp-Session-Id: {session}\r\n", headers(token));
        assert_eq!(&server.post(&headers, &ready).await[9..12], status, "{token}");
    }
}

/// After [`McpService::close`], requests are rejected.
#[tokio::test(flavor = "multi_thread")]
async fn closed_service_rejects_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = McpService::new(Toolset::new(), HttpServiceConfig::default());
    service.close();
    let task = tokio::spawn(serve_http(service, listener, std::future::pending()));
    let server = Served { address, stop: None, task };
    let response = server.post(&format!("Host: {address}\r\n"), "{}").await;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    server.task.abort();
}

/// A client that drops its call, or disconnects, cancels the call.
#[tokio::test(flavor = "multi_thread")]
async fn disconnect_cancels_the_call() {
    let (probe, dropped) = Probe::new();
    let server = serve(Toolset::new().with_tool(probe), HttpServiceConfig::default()).await;
    let tools = probe_tools(server.client()).await;
    let call = timeout(Duration::from_millis(300), tools.call("probe", json!({"action": "wait"}))).await;
    assert!(call.is_err());
    timeout(Duration::from_secs(2), dropped.notified()).await.unwrap();
}

/// After the end of the server, no call is left, and the end takes a bounded time.
#[tokio::test(flavor = "multi_thread")]
async fn shutdown_cancels_calls_after_a_grace_period() {
    let (probe, dropped) = Probe::new();
    let server = serve(Toolset::new().with_tool(probe), HttpServiceConfig::default()).await;
    let tools = probe_tools(server.client()).await;
    let call = tokio::spawn(async move { tools.call("probe", json!({"action": "wait"})).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let started = Instant::now();
    server.stop().await;
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
    timeout(Duration::from_secs(2), dropped.notified()).await.unwrap();
    let failed = timeout(Duration::from_secs(5), call).await.unwrap().unwrap();
    assert!(failed.into_output().is_err());
}

/// The service is a route of an `axum` router, beside other routes.
#[tokio::test(flavor = "multi_thread")]
async fn service_is_a_route_of_axum() {
    let service = McpService::new(Toolset::new().with_tool(Probe::new().0), HttpServiceConfig::default());
    let router = axum::Router::new()
        .route_service("/tools/mcp", service)
        .route("/health", axum::routing::get(async || "healthy"));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let url = format!("http://{address}/tools/mcp");
    let source = McpSource::connect("routed", HttpServer::new(url)).await.unwrap();
    assert_eq!(Toolset::new().with_source(source).names().await, ["probe"]);
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.ends_with("healthy"), "{response}");
    server.abort();
}
