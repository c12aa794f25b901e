use haft_core::{ToolContext, Toolset, tool::Principal, toolset::ListContext};
use haft_mcp::{
    HttpServer, HttpServiceConfig, McpServer, McpSource, ToolFilter,
    gateway::{GatewayClient, GatewayConfig, TraceContext},
    testing::InProcessServer,
};
use serde_json::{Value, json};

use crate::{
    http_serving::{Served, serve},
    server,
    web::WebServer,
};

async fn names(tools: &Toolset) -> Vec<String> {
    let list = tools.list(&ListContext::default()).await;
    list.tools().iter().map(|tool| tool.definition().name().to_string()).collect()
}

/// A session without a source. It sends requests for tools that are not listed, too.
struct Session<'a> {
    served: &'a Served,
    headers: String,
}

impl<'a> Session<'a> {
    async fn open(served: &'a Served, token: &str) -> Self {
        let headers = format!("Host: localhost\r\nAuthorization: Bearer {token}\r\n");
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let opened = served.post(&headers, &body.to_string()).await.to_lowercase();
        let id = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        let headers = format!("{headers}Mcp-Session-Id: {id}\r\n");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        served.post(&headers, &ready).await;
        Self { served, headers }
    }

    async fn call(&mut self, tool: &str) -> String {
        let params = json!({"name": tool, "arguments": {"x": 2, "y": 3}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        self.served.post(&self.headers, &body.to_string()).await
    }
}

/// Each client of a gateway sees and calls its own tools only. A call passes through both servers.
#[tokio::test(flavor = "multi_thread")]
async fn client_of_a_gateway_has_its_own_tools() {
    let client = |pattern, token| GatewayClient::new(ToolFilter::allow([pattern])).with_token(token);
    let config = GatewayConfig::default()
        .with_client("ann", client("first_*", "token-of-ann"))
        .with_client("ben", client("second_*", "token-of-ben"));
    let first = McpSource::connect("first", server("modern")).await.unwrap();
    let second = McpSource::connect("second", server("legacy")).await.unwrap();
    let tools = config.toolset([("first", first), ("second", second)]).unwrap();
    let served = serve(tools, config.http_config(HttpServiceConfig::default())).await;

    for (token, own, foreign) in
        [("token-of-ann", "first_add", "second_add"), ("token-of-ben", "second_add", "first_add")]
    {
        let source = McpSource::connect("gateway", served.client().with_bearer_token(token)).await.unwrap();
        let tools = Toolset::new().with_source(source);
        let names = names(&tools).await;
        assert!(names.iter().any(|name| name == own) && !names.iter().any(|name| name == foreign));
        let sum = tools.call(own, json!({"x": 2, "y": 3})).await;
        assert_eq!(sum.model_text(), "5");
        let mut session = Session::open(&served, token).await;
        assert!(session.call(own).await.contains(r#""text":"5""#));
        let rejected = session.call(foreign).await;
        assert!(rejected.contains("-32602") && rejected.contains("unknown tool"), "{rejected}");
    }
    assert!(McpSource::connect("gateway", served.client()).await.is_err());
    served.stop().await;
}

/// A gateway passes the trace context of its client on to its servers.
#[tokio::test(flavor = "multi_thread")]
async fn trace_context_is_passed_on() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for mode in ["modern", "legacy"] {
        let inner = WebServer::start(mode).await;
        let web = McpSource::connect("web", HttpServer::new(&inner.url)).await.unwrap();
        let tools = GatewayConfig::default().toolset([("web", web)]).unwrap();
        let gateway = InProcessServer::new(McpServer::new(tools));
        let source = McpSource::connect("gateway", gateway).await.unwrap();
        let tools = Toolset::new().with_source(source);
        let trace = TraceContext::new(PARENT).unwrap().with_tracestate("a=1");
        let cx = ToolContext::default().with_state(trace);
        assert_eq!(tools.call_with("web_add", json!({"x": 1}), &cx).await.model_text(), "1", "{mode}");
        let meta = &inner.requests_of("tools/call")[0].body["params"]["_meta"];
        assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&json!(PARENT), &json!("a=1")), "{mode}");
    }
}

/// The principal of a server applies to a client over standard input and output.
#[tokio::test]
async fn principal_of_a_server_selects_the_rules() {
    let config =
        GatewayConfig::default().with_client("ann", GatewayClient::new(ToolFilter::allow(["files_add"])));
    let files = McpSource::connect("files", server("modern")).await.unwrap();
    let tools = config.toolset([("files", files)]).unwrap();
    let principal = Principal { id: "ann".to_owned(), ..Principal::default() };
    let server = InProcessServer::new(McpServer::new(tools).with_principal(principal));
    let source = McpSource::connect("gateway", server).await.unwrap();
    assert_eq!(names(&Toolset::new().with_source(source)).await, ["files_add"]);
}

/// A failed result passes a gateway as it is.
#[tokio::test(flavor = "multi_thread")]
async fn failed_result_is_passed_on() {
    for failed in [
        json!({
            "content": [
                {"type": "text", "text": "the quota is used up"},
                {"type": "image", "data": "iVBO", "mimeType": "image/png", "annotations": {"priority": 0.5}},
                {"type": "text", "text": "try later"},
                {"type": "resource_link", "uri": "file:///log", "name": "log"},
            ],
            "structuredContent": {"code": "QUOTA", "retryAfter": 30}, "_meta": {"example.org/trace": "t-1"},
            "isError": true,
        }),
        json!({"content": [], "structuredContent": {"code": 7}, "isError": true}),
        json!({"content": [], "structuredContent": [1], "isError": true}),
        json!({"content": [], "isError": true}),
    ] {
        let inner = WebServer::start("modern").await;
        let web = McpSource::connect("web", HttpServer::new(&inner.url)).await.unwrap();
        let served = serve(
            GatewayConfig::default().toolset([("web", web)]).unwrap(),
            HttpServiceConfig::default().with_bearer_token("t", Principal::default()),
        )
        .await;
        let session = Session::open(&served, "t").await;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "web_echo", "arguments": failed}});
        let response = served.post(&session.headers, &body.to_string()).await;
        let line =
            response.lines().find(|line| line.contains("\"result\"")).unwrap_or_else(|| panic!("{response}"));
        let result: Value = serde_json::from_str(line.trim_start_matches("data: ")).unwrap();
        let result = &result["result"];
        assert_eq!(result["isError"], true);
        let (structured, meta) = (&failed["structuredContent"], &failed["_meta"]);
        match structured.is_array() {
            true => assert_eq!(result["structuredContent"], json!({"result": structured})),
            false => assert_eq!(&result["structuredContent"], structured),
        }
        assert_eq!(&result["_meta"], meta, "{result}");
        if failed["content"] != json!([]) {
            assert_eq!(result["content"], failed["content"]);
        }
    }
}

/// The structured content of a failure is a member of its own for programs.
#[tokio::test(flavor = "multi_thread")]
async fn failure_has_its_structured_content() {
    let inner = WebServer::start("legacy").await;
    let tools =
        Toolset::new().with_source(McpSource::connect("web", HttpServer::new(&inner.url)).await.unwrap());
    let failed = json!({
        "content": [{"type": "text", "text": "the quota is used up"}],
        "structuredContent": {"retryAfter": 30}, "isError": true,
    });
    let result = tools.call("echo", failed).await.to_json();
    let expected = json!({
        "success": false, "result": null, "error": "the quota is used up\n{\"retryAfter\":30}", "warning": null,
        "structured": {"retryAfter": 30},
    });
    assert_eq!(result, expected);
}
