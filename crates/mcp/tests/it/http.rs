use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::join_all;
use haft_core::{
    ToolContext, ToolError, ToolSource as _, Toolset,
    call::FailureKind,
    tool::{Principal, RunContext},
    toolset::ListContext,
};
use haft_mcp::{HttpServer, HttpTransport, McpConfig, McpSource, ServerOptions};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::{source::Reports, web::WebServer};

async fn tools_of(server: &WebServer) -> Toolset {
    Toolset::new().with_source(McpSource::connect("web", server.config()).await.unwrap())
}

/// The same tool gives the same result over streamable HTTP in each revision, and the client
/// detects the revision.
#[tokio::test(flavor = "multi_thread")]
async fn revision_of_an_http_server_is_detected() {
    for mode in ["modern", "modern_sse", "legacy", "legacy_stateless"] {
        let server = WebServer::start(mode).await;
        let tools = tools_of(&server).await;
        assert_eq!(tools.names().await, ["add", "echo"], "{mode}");
        assert_eq!(tools.call("add", json!({"x": 17, "y": 25})).await.model_text(), "42", "{mode}");
        let call = server.requests_of("tools/call").pop().unwrap();
        let version = if mode.starts_with("modern") { "2026-07-28" } else { "2025-11-25" };
        assert_eq!(call.headers["mcp-protocol-version"], version, "{mode}");
        if version == "2026-07-28" {
            assert_eq!((&*call.headers["mcp-method"], &*call.headers["mcp-name"]), ("tools/call", "add"));
            assert!(call.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string());
        }
        assert_eq!(call.headers.contains_key("mcp-session-id"), mode == "legacy", "{mode}");
    }
}

/// The revision of a server is found from each response to `server/discover`. A server without a
/// common revision is an error that names its revisions.
#[tokio::test(flavor = "multi_thread")]
async fn each_response_to_discovery_is_handled() {
    for (mode, version) in [
        ("modern", "2026-07-28"),
        ("dual", "2026-07-28"),
        ("legacy_stateless", "2025-11-25"), // status 400 with a text
        ("legacy_error", "2025-11-25"),
        ("legacy_not_found", "2025-11-25"),
        ("legacy_listed", "2025-11-25"),
        ("legacy_rejects", "2025-11-25"),
    ] {
        let server = WebServer::start(mode).await;
        let tools = tools_of(&server).await;
        assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3", "{mode}");
        let call = server.requests_of("tools/call").pop().unwrap();
        assert_eq!(call.headers["mcp-protocol-version"], version, "{mode}");
    }
    for mode in ["future", "future_rejects"] {
        let server = WebServer::start(mode).await;
        let error = McpSource::connect("web", server.config()).await.unwrap_err().reason;
        assert!(error.contains("2030-01-01"), "{mode}: {error}");
    }
}

/// After an invalid response to `server/discover`, the client sends `initialize`.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_discovery_falls_back_to_initialize() {
    let server = WebServer::start("empty_discover").await;
    let tools = tools_of(&server).await;
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
    assert_eq!(server.requests_of("initialize").len(), 1);
}

/// A server that never responds to `server/discover` is contacted with `initialize`.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_discovery_falls_back_to_initialize() {
    let server = WebServer::start("ignores_discover").await;
    let options = ServerOptions::default().with_handshake_timeout(Duration::from_secs(3));
    let started = Instant::now();
    let source = McpSource::connect("web", server.config().with_options(options)).await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
    let tools = Toolset::new().with_source(source);
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
}

/// A server of revision 2024-11-05, with HTTP and SSE, is recognized, and a URL for messages at
/// another origin is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn server_of_the_first_revision_is_recognized() {
    for transport in [HttpTransport::Auto, HttpTransport::Sse] {
        let server = WebServer::start("sse").await;
        let source = McpSource::connect("web", server.config().with_transport(transport)).await.unwrap();
        let tools = Toolset::new().with_source(source);
        assert_eq!(tools.call("add", json!({})).await.model_text(), "42");
        drop(tools);
        assert_eq!(server.remaining_connections().await, 0);
    }
    let server = WebServer::start("foreign_sse").await;
    let sse = server.config().with_transport(HttpTransport::Sse);
    let error = McpSource::connect("web", sse).await.unwrap_err().reason;
    assert!(error.contains("another origin"), "{error}");
}

/// Over HTTP with SSE, a number that cannot be held exactly costs only the member that has it.
#[tokio::test(flavor = "multi_thread")]
async fn inexact_number_over_sse_costs_its_member() {
    let server = WebServer::start("inexact_sse").await;
    let config = server.config().with_transport(HttpTransport::Sse);
    let tools = Toolset::new().with_source(McpSource::connect("web", config).await.unwrap());
    let result = tools.call("add", json!({})).await;
    assert!(result.warnings[0].contains("/structuredContent"), "{result:?}");
    let output = result.into_output().unwrap();
    assert_eq!((output.text(), &output.structured), ("42".into(), &None));
}

/// Structured content is transferred unchanged over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn structured_content_is_unchanged() {
    for mode in ["modern", "legacy"] {
        let server = WebServer::start(mode).await;
        let tools = tools_of(&server).await;
        let echo = async |result: Value| tools.call("echo", result).await.into_output().unwrap().structured;
        let null = json!({"content": [], "structuredContent": null});
        assert_eq!(echo(null).await, Some(Value::Null), "{mode}");
        assert_eq!(echo(json!({"content": []})).await, None, "{mode}");
        let exact = json!({"content": [], "structuredContent": {"b": 1.0, "a": [1, null, "é"]}});
        assert_eq!(echo(exact.clone()).await.as_ref(), exact.get("structuredContent"), "{mode}");
        let unknown = json!({"content": [{"type": "hologram", "depth": 3}]});
        let text = tools.call("echo", unknown).await.model_text().into_owned();
        assert!(text.contains("hologram"), "{mode}: {text}");
    }
}

/// The headers of a configuration are sent with every request.
#[tokio::test(flavor = "multi_thread")]
async fn configured_headers_are_sent() {
    let server = WebServer::start("legacy").await;
    let text = json!({"servers": {"web": {"url": server.url, "headers": {"Authorization": "Bearer abc", "X-Team": "a"}}}});
    let source = McpConfig::from_json(&text.to_string()).unwrap().start().remove(0);
    source.wait_until_ready().await.unwrap();
    source.close().await;
    let requests = server.requests();
    assert!(requests.iter().any(|request| request.line == "DELETE /mcp"), "{requests:?}");
    for request in requests {
        assert_eq!((&*request.headers["authorization"], &*request.headers["x-team"]), ("Bearer abc", "a"));
    }
}

/// The headers of a call are sent with this call only, also if the server redirects.
#[tokio::test(flavor = "multi_thread")]
async fn call_headers_are_sent_with_their_call() {
    for mode in ["modern_sse", "legacy", "legacy_stateless"] {
        let server = WebServer::start(mode).await;
        let config = server.config().with_bearer_token("service").with_call_headers(|tool, cx| {
            let user = cx.principal().map(|principal| principal.id.clone());
            let tool = tool.to_owned();
            async move {
                let user = user.ok_or_else(|| ToolError::Denied("no user".to_owned()))?;
                let token = format!("Bearer token-{user}");
                Ok(BTreeMap::from([("Authorization".to_owned(), token), ("X-Tool".to_owned(), tool)]))
            }
        });
        let tools = Toolset::new().with_source(McpSource::connect("web", config).await.unwrap());
        let call = async |user: &str| {
            let principal = Principal { id: user.to_owned(), ..Principal::default() };
            let cx = ToolContext::default().with_principal(principal);
            tools.call_with("add", json!({"x": 1, "y": 2}), &cx).await.into_output()
        };
        let (ann, bob) = tokio::join!(call("ann"), call("bob"));
        assert_eq!((ann.unwrap().text(), bob.unwrap().text()), ("3".into(), "3".into()), "{mode}");
        let denied = tools.call("add", json!({})).await.into_output().unwrap_err();
        assert_eq!((denied.kind, &*denied.message), (FailureKind::Denied, "denied: no user"));
        let mut tokens: Vec<_> = server.requests_of("tools/call");
        tokens.sort_by_key(|request| request.header("authorization").to_owned());
        let tokens: Vec<_> =
            tokens.iter().map(|call| (call.header("authorization"), call.header("x-tool"))).collect();
        assert_eq!(tokens, [("Bearer token-ann", "add"), ("Bearer token-bob", "add")], "{mode}");
        let others = server.requests().into_iter().filter(|request| request.method() != "tools/call");
        for request in others {
            assert_eq!(request.header("authorization"), "Bearer service", "{mode}: {request:?}");
            assert_eq!(request.header("x-tool"), "", "{mode}: {request:?}");
        }
        server.set_mode("redirects");
        let error = call("ann").await.unwrap_err();
        assert!(!error.message.contains("token-ann"), "{}", error.message);
    }
}

/// A resumed response stream has the headers of its call.
#[tokio::test(flavor = "multi_thread")]
async fn resumed_stream_has_call_headers() {
    let server = WebServer::start("resumes").await;
    let config = server.config().with_bearer_token("service").with_call_headers(|_tool, cx| {
        let token = format!("Bearer {}", cx.call_id());
        async move { Ok(BTreeMap::from([("Authorization".to_owned(), token)])) }
    });
    let tools = Toolset::new().with_source(McpSource::connect("web", config).await.unwrap());
    let cx = ToolContext::default().with_call_id("ann");
    assert_eq!(tools.call_with("add", json!({"x": 1, "y": 2}), &cx).await.model_text(), "resumed");
    let resumed = server.requests().into_iter().find(|request| request.headers.contains_key("last-event-id"));
    assert_eq!(resumed.unwrap().header("authorization"), "Bearer ann");
}

/// An invalid header fails its call, without its value in the error.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_call_header_is_reported() {
    let server = WebServer::start("modern").await;
    let config = server.config().with_call_headers(|_tool, _cx| async {
        Ok(BTreeMap::from([("X-Token".to_owned(), "secret\n".to_owned())]))
    });
    let tools = Toolset::new().with_source(McpSource::connect("web", config).await.unwrap());
    let error = tools.call("add", json!({})).await.into_output().unwrap_err();
    assert_eq!(error.message, "the value of the header \"X-Token\" is invalid");
    assert_eq!(server.requests_of("tools/call").len(), 0);
}

/// The metadata of a call, such as the trace context, is sent in `_meta`. It does not replace the
/// metadata of the protocol.
#[tokio::test(flavor = "multi_thread")]
async fn request_metadata_is_sent_in_meta() {
    const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for mode in ["modern", "legacy"] {
        let server = WebServer::start(mode).await;
        let text = json!({"mcpServers": {"web": {"url": server.url}}}).to_string();
        let config = McpConfig::from_json(&text).unwrap().with_request_metadata(|tool, cx| {
            let value = json!({
                "traceparent": TRACE, "com.example/call": format!("{tool} {}", cx.call_id()),
                "progressToken": "x", "io.modelcontextprotocol/protocolVersion": "x",
            });
            value.as_object().cloned().unwrap()
        });
        let source = config.start().remove(0);
        source.wait_until_ready().await.unwrap();
        let tools = Toolset::new().with_source(source);
        let cx = ToolContext::default().with_call_id("call_1");
        assert_eq!(tools.call_with("add", json!({"x": 1}), &cx).await.model_text(), "1", "{mode}");
        let meta = &server.requests_of("tools/call")[0].body["params"]["_meta"];
        assert_eq!(meta["traceparent"], TRACE, "{mode}");
        assert_eq!(meta["com.example/call"], "add call_1", "{mode}");
        assert!(meta["progressToken"].is_number(), "{mode}: {meta}");
        let version = if mode == "modern" { json!("2026-07-28") } else { Value::Null };
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], version, "{mode}");
        assert!(server.requests_of("tools/list")[0].body["params"]["_meta"]["traceparent"].is_null());
    }
}

/// After `notifications/tools/list_changed` over HTTP, the tools are listed again.
#[tokio::test(flavor = "multi_thread")]
async fn changed_list_is_fetched_again() {
    let server = WebServer::start("changing").await;
    let tools = tools_of(&server).await;
    let changed = async {
        while tools.get("new").await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), changed).await.unwrap();
    assert_eq!(server.requests_of("tools/list").len(), 2);
}

/// After an event that is too long, the stream of the session is opened again, without the id that
/// would request the same event. Later notifications arrive.
#[tokio::test(flavor = "multi_thread")]
async fn stream_is_reopened_after_a_long_event() {
    let server = WebServer::start("long_event").await;
    let options = ServerOptions::default().with_max_message_bytes(1 << 20);
    let source = McpSource::connect("web", server.config().with_options(options)).await.unwrap();
    let tools = Toolset::new().with_source(source);
    let changed = async {
        while tools.get("new").await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), changed).await.unwrap();
    let streams: Vec<_> = server.requests().into_iter().filter(|it| it.line.starts_with("GET")).collect();
    let ids: Vec<_> = streams.iter().map(|request| request.header("last-event-id")).collect();
    assert_eq!(ids, ["", ""]);
}

/// Without a subscription, a used tool list is fetched again after its time to live, and not
/// before.
#[tokio::test(flavor = "multi_thread")]
async fn expired_list_is_fetched_again() {
    let server = WebServer::start("expiring").await;
    let started = Instant::now();
    let tools = tools_of(&server).await;
    let changed = async {
        while tools.get("new").await.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), changed).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(1200), "{:?}", started.elapsed());
    assert_eq!(server.requests_of("tools/list").len(), 2);
}

/// A session that the server has forgotten is opened again, and the call is repeated, because the
/// server has not processed it.
#[tokio::test(flavor = "multi_thread")]
async fn expired_session_is_opened_again() {
    let server = WebServer::start("expires").await;
    let tools = tools_of(&server).await;
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "3");
    assert_eq!(server.requests_of("initialize").len(), 2);
    assert_eq!(tools.call("add", json!({"x": 2, "y": 2})).await.model_text(), "4");
    assert_eq!(server.requests_of("initialize").len(), 2);
}

/// A response stream with event ids is resumed, and the call is not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn cut_stream_is_resumed() {
    let server = WebServer::start("resumes").await;
    let tools = tools_of(&server).await;
    assert_eq!(tools.call("add", json!({"x": 1, "y": 2})).await.model_text(), "resumed");
    assert_eq!(server.requests_of("tools/call").len(), 1);
    let resumed = server.requests().into_iter().find(|request| request.headers.contains_key("last-event-id"));
    assert_eq!(resumed.unwrap().headers["last-event-id"], "1");
}

/// After a cut without event ids, or in revision 2026-07-28, the call is unconfirmed and neither
/// resumed nor repeated.
#[tokio::test(flavor = "multi_thread")]
async fn cut_stream_fails_its_call() {
    for mode in ["cut", "cut_event"] {
        let server = WebServer::start(mode).await;
        let tools = tools_of(&server).await;
        let outcome = timeout(Duration::from_secs(10), tools.call("add", json!({}))).await.unwrap();
        let failure = outcome.into_output().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unconfirmed, "{failure:?}");
        assert_eq!(server.requests_of("tools/call").len(), 1);
        assert!(server.requests().iter().all(|request| !request.headers.contains_key("last-event-id")));
    }
}

/// Over HTTP, an invalid response fails only its call, and the connection is usable afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn faulty_responses_fail_their_call() {
    for (mode, kind, reason) in [
        ("busy", FailureKind::Failed, "HTTP 429; retry after 7"),
        ("broken", FailureKind::Unconfirmed, "the connection to mcp:web was lost"),
        ("redirects", FailureKind::Failed, "the server redirects to another origin"),
        ("see_other", FailureKind::Failed, "HTTP 303"),
        ("html", FailureKind::Failed, "text/html"),
        ("too_long", FailureKind::Failed, "exceeded the maximum size of 1048576 bytes"),
        ("silent", FailureKind::TimedOut, "timed out after 300 ms"),
        ("cut_json", FailureKind::Failed, "invalid response"),
        ("not_text", FailureKind::Failed, "invalid response"),
        ("deep", FailureKind::Failed, "invalid response"),
        ("wrong_id", FailureKind::Failed, "the result has the id 999 of another request"),
        ("cut_json_event", FailureKind::Unconfirmed, "the connection to mcp:web was lost"),
        ("not_text_event", FailureKind::Unconfirmed, "the connection to mcp:web was lost"),
        ("deep_event", FailureKind::Unconfirmed, "the connection to mcp:web was lost"),
        ("wrong_id_event", FailureKind::Unconfirmed, "the connection to mcp:web was lost"),
    ] {
        let server = WebServer::start(mode).await;
        let options = ServerOptions::default().with_max_message_bytes(1 << 20);
        let options = options.with_idle_timeout(Duration::from_millis(300));
        let source = McpSource::connect("web", server.config().with_options(options)).await.unwrap();
        let tools = Toolset::new().with_source(source);
        let outcome = timeout(Duration::from_secs(10), tools.call("add", json!({}))).await.unwrap();
        let failure = outcome.into_output().unwrap_err();
        assert_eq!(failure.kind, kind, "{mode}: {}", failure.message);
        assert!(failure.message.contains(reason), "{mode}: {}", failure.message);
        assert_eq!(tools.names().await, ["add", "echo"], "{mode}");
        assert_eq!(server.requests_of("tools/call").len(), 1, "{mode}");
    }
}

/// The error for a server that cannot be reached, and for one that requires authorization, names
/// the server.
#[tokio::test(flavor = "multi_thread")]
async fn failed_handshake_names_the_server() {
    let server = WebServer::start("unauthorized").await;
    let error = McpSource::connect("web", server.config()).await.unwrap_err().reason;
    let origin = server.url.trim_end_matches("/mcp").to_owned();
    let expected = format!(
        "the handshake failed: the server requires authorization (HTTP 401)\nserver: {origin}\n\
         remedy: log in with `haft mcp login`, or set the header `Authorization` of the server"
    );
    assert_eq!(error, expected);
    drop(server);
    // The path of a URL may be a secret.
    let unreachable = HttpServer::new(format!("{origin}/secret"));
    let error = McpSource::connect("web", unreachable).await.unwrap_err().reason;
    assert!(error.contains("refused") && !error.contains("secret"), "{error}");
    assert!(
        error.ends_with(&format!("\nserver: {origin}\nremedy: start the server, or correct its URL")),
        "{error}"
    );
}

/// Progress is reported in order to the call that it belongs to, also with many calls at once.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_reported_in_order() {
    for mode in ["modern_sse", "legacy"] {
        let server = WebServer::start(mode).await;
        let tools = tools_of(&server).await;
        let call = async || {
            let reports = Reports::default();
            let run = RunContext { progress: Some(Arc::new(reports.clone())), ..RunContext::default() };
            let cx = ToolContext::new(Arc::new(run), "call_1");
            tools.call_with("add", json!({"x": 1}), &cx).await;
            let steps: Vec<_> = reports.0.lock().unwrap().iter().map(|report| report.progress).collect();
            assert_eq!(steps, [1.0, 2.0, 3.0], "{mode}");
        };
        join_all((0..100).map(|_| call())).await;
    }
}

/// After the end of a source over HTTP, no connection is left.
#[tokio::test(flavor = "multi_thread")]
async fn closed_source_leaves_no_connection() {
    for mode in ["modern_sse", "legacy"] {
        let server = WebServer::start(mode).await;
        let source = McpSource::connect("web", server.config()).await.unwrap();
        let list = source.tools(&ListContext::default()).await.unwrap();
        assert!(list.get("add").is_some());
        source.close().await;
        assert_eq!(server.remaining_connections().await, 0, "{mode}");
    }
}
