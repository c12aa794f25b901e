//! Responses of HTTP servers that differ from the specification.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Response},
    routing::any,
};
use expect_test::expect;
use haft_core::{ToolSource as _, Toolset, call::FailureKind, toolset::ListContext};
use haft_mcp::{HttpServer, McpSource, ServerOptions};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{sleep, timeout},
};

/// A server of revision 2025-11-25. Some of its responses are replaced.
pub(crate) struct OddServer {
    pub(crate) config: HttpServer,
    requests: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
    _tasks: JoinSet<()>,
}

impl OddServer {
    /// Starts a server. `respond` returns the response to a request with headers and a body, or
    /// `None` for the usual one.
    pub(crate) async fn start(
        respond: impl Fn(&HeaderMap, &Value) -> Option<Response<Body>> + Clone + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let options = ServerOptions::default().with_resource_tools().with_prompt_tools();
        let config = HttpServer::new(format!("http://{}/mcp", listener.local_addr().unwrap()));
        let config = config.with_options(options);
        let requests: Arc<Mutex<Vec<_>>> = Arc::default();
        let log = Arc::clone(&requests);
        let handler = async move |method: Method, headers: HeaderMap, body: Bytes| {
            if method != Method::POST {
                return reply(405, &[], "");
            }
            let message: Value = serde_json::from_slice(&body).unwrap();
            log.lock().unwrap().push((headers.clone(), message.clone()));
            respond(&headers, &message).unwrap_or_else(|| usual(&message))
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            axum::serve(listener, Router::new().route("/mcp", any(handler))).await.unwrap();
        });
        Self { config, requests, _tasks: tasks }
    }

    pub(crate) async fn tools(&self) -> Toolset {
        Toolset::new().with_source(McpSource::connect("odd", self.config.clone()).await.unwrap())
    }

    /// Returns the number of requests with `method`.
    fn count(&self, method: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|(_, body)| body["method"] == method).count()
    }
}

pub(crate) fn reply(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
    let builder = Response::builder().status(status);
    let builder = headers.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
    builder.body(body.into()).unwrap()
}

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

/// Returns the result of a server with the tool `look_up`.
fn result_of(message: &Value) -> Option<Value> {
    Some(match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "look_up", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "found"}]}),
        "ping" => json!({}),
        _ => return None,
    })
}

fn usual(message: &Value) -> Response<Body> {
    let Some(id) = message.get("id") else { return reply(202, &[], "") };
    let body = match result_of(message) {
        Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown method"}}),
    };
    reply(200, &[JSON], body.to_string())
}

/// The text of an error whose id is `id`. Absent for `None`.
fn error_with(id: Option<Value>) -> String {
    let mut body = json!({"jsonrpc": "2.0", "error": {"code": -32010, "message": "the licence has expired"}});
    if let Some(id) = id {
        body["id"] = id;
    }
    body.to_string()
}

/// An error in the response to a POST ends its request at once, whatever its id and its status are.
#[tokio::test(flavor = "multi_thread")]
async fn error_belongs_to_the_request_of_its_post() {
    let ids = [None, Some(Value::Null), Some(json!("server-error")), Some(json!(4711)), Some(json!([1]))];
    for is_stream in [false, true] {
        for status in [200, 400, 403, 404, 409, 429, 500, 503] {
            for id in ids.clone() {
                let body = error_with(id.clone());
                let server = OddServer::start(move |_, message| {
                    let events = format!("event: error\ndata: {body}\n\n");
                    (message["method"] == "tools/call").then(|| match is_stream && status == 200 {
                        true => reply(200, &[EVENTS], events),
                        false => reply(status, &[JSON], body.clone()),
                    })
                })
                .await;
                let tools = server.tools().await;
                let call = timeout(Duration::from_secs(5), tools.call("look_up", json!({})));
                let failure = call.await.unwrap().into_output().unwrap_err();
                let case = format!("{status}, id {id:?}, event stream: {is_stream}: {}", failure.message);
                assert_eq!(failure.kind, FailureKind::Failed, "{case}");
                assert!(failure.message.contains("the licence has expired"), "{case}");
                assert!(failure.message.contains("-32010"), "{case}");
                assert_eq!(server.count("tools/call"), 1, "{case}");
            }
        }
    }
}

/// Lists, resources and prompts fail with the error of the server, too.
#[tokio::test(flavor = "multi_thread")]
async fn error_without_id_ends_each_kind_of_request() {
    for (method, tool, arguments) in [
        ("resources/list", "odd_list_resources", json!({})),
        ("resources/templates/list", "odd_list_resources", json!({"kind": "templates"})),
        ("resources/read", "odd_read_resource", json!({"uri": "file:///a"})),
        ("prompts/list", "odd_list_prompts", json!({})),
        ("prompts/get", "odd_get_prompt", json!({"name": "a"})),
    ] {
        let server = OddServer::start(move |_, message| {
            (message["method"] == method).then(|| reply(200, &[JSON], error_with(None)))
        })
        .await;
        let tools = server.tools().await;
        let call = timeout(Duration::from_secs(5), tools.call(tool, arguments));
        let failure = call.await.unwrap().into_output().unwrap_err();
        assert!(failure.message.contains("the licence has expired"), "{method}: {}", failure.message);
    }
    let server = OddServer::start(|_, message| {
        (message["method"] == "tools/list").then(|| reply(500, &[JSON], error_with(Some(Value::Null))))
    })
    .await;
    let connecting = timeout(Duration::from_secs(5), McpSource::connect("odd", server.config.clone()));
    let error = connecting.await.unwrap().unwrap_err().reason;
    assert!(error.contains("the licence has expired"), "{error}");
}

/// A result with the id of another request is not the result of the call.
#[tokio::test(flavor = "multi_thread")]
async fn result_with_another_id_is_not_used() {
    for is_stream in [false, true] {
        for id in [json!(4711), json!("other"), Value::Null] {
            let body = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "foreign"}]}});
            let server = OddServer::start(move |_, message| {
                (message["method"] == "tools/call").then(|| match is_stream {
                    true => reply(200, &[EVENTS], format!("data: {body}\n\n")),
                    false => reply(200, &[JSON], body.to_string()),
                })
            })
            .await;
            let tools = server.tools().await;
            let call = timeout(Duration::from_secs(5), tools.call("look_up", json!({})));
            let failure = call.await.unwrap().into_output().unwrap_err();
            let is_ended = matches!(failure.kind, FailureKind::Failed | FailureKind::Unconfirmed);
            assert!(is_ended && !failure.message.starts_with("foreign"), "{failure:?}");
        }
    }
}

/// The id of the request as a text or as a number with a fraction is the same id, and a result
/// after a foreign one is used.
#[tokio::test(flavor = "multi_thread")]
async fn other_forms_of_the_id_are_accepted() {
    for form in 0..3 {
        let server = OddServer::start(move |_, message| {
            (message["method"] == "tools/call").then(|| {
                let id = message["id"].as_i64().unwrap();
                let result = json!({"content": [{"type": "text", "text": "found"}]});
                let response = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
                match form {
                    0 => reply(200, &[JSON], response(json!(id.to_string())).to_string()),
                    1 => reply(200, &[JSON], format!(r#"{{"jsonrpc":"2.0","id":{id}.0,"result":{result}}}"#)),
                    _ => {
                        let events = [response(json!(4711)), response(json!(id))];
                        reply(200, &[EVENTS], events.map(|event| format!("data: {event}\n\n")).concat())
                    }
                }
            })
        })
        .await;
        assert_eq!(server.tools().await.call("look_up", json!({})).await.model_text(), "found", "{form}");
    }
}

/// A forgotten session is opened again once, and the call is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn forgotten_session_is_opened_again() {
    let forms: [(u16, bool, &str); 7] = [
        (404, false, ""),
        (404, true, r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#),
        (410, false, "gone"),
        (410, true, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"gone"}}"#),
        (400, true, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID"},"id":null}"#),
        (400, false, "Bad Request: invalid Mcp-Session-Id"),
        (400, true, r#"{"error": "unknown session"}"#),
    ];
    for (status, is_json, body) in forms {
        // Each session ends before its second call.
        let (sessions, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let server = OddServer::start(move |headers, message| {
            if message["method"] == "initialize" {
                let mut response = usual(message);
                calls.store(0, Ordering::Relaxed);
                let session = sessions.fetch_add(1, Ordering::Relaxed) + 1;
                response.headers_mut().insert("mcp-session-id", session.to_string().parse().unwrap());
                return Some(response);
            }
            let current = sessions.load(Ordering::Relaxed).to_string();
            let is_known = headers.get("mcp-session-id").is_some_and(|id| *id == *current);
            let is_call = message["method"] == "tools/call";
            let is_first = !is_call || calls.fetch_add(1, Ordering::Relaxed) == 0;
            let head = if is_json { JSON } else { ("content-type", "text/plain") };
            (message["method"] != "server/discover" && !(is_known && is_first))
                .then(|| reply(status, &[head], body))
        })
        .await;
        let tools = server.tools().await;
        for number in 0..3 {
            let text = tools.call("look_up", json!({})).await.model_text().into_owned();
            assert_eq!(text, "found", "{status} {body}: call {number}");
        }
        assert_eq!(server.count("initialize"), 3, "{status} {body}");
    }
}

/// An error about the call is its result, although the word session is in it. The call is not
/// repeated.
#[tokio::test(flavor = "multi_thread")]
async fn error_of_a_call_about_sessions_is_its_result() {
    let server = OddServer::start(|_, message| {
        let error = json!({"code": -32602, "message": "session 42 is already booked"});
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
        (message["method"] == "tools/call").then(|| reply(400, &[JSON], body.to_string()))
    })
    .await;
    let text = server.tools().await.call("look_up", json!({})).await.model_text().into_owned();
    assert!(text.contains("session 42 is already booked"), "{text}");
    assert_eq!((server.count("tools/call"), server.count("initialize")), (1, 1));
}

/// If a session cannot be opened again, the connection is: the server has another revision now.
#[tokio::test(flavor = "multi_thread")]
async fn server_with_another_revision_is_connected_again() {
    let is_updated = Arc::new(AtomicUsize::new(0));
    let state = Arc::clone(&is_updated);
    let server = OddServer::start(move |_, message| {
        let is_updated = state.load(Ordering::Relaxed) == 1;
        let result = match message["method"].as_str().unwrap() {
            "initialize" if !is_updated => {
                let mut response = usual(message);
                response.headers_mut().insert("mcp-session-id", "1".parse().unwrap());
                return Some(response);
            }
            _ if !is_updated => return None,
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "odd", "version": "2"}, "ttlMs": 60000, "cacheScope": "private",
            }),
            "tools/list" | "tools/call" if !message["params"]["_meta"].is_null() => {
                let mut result = result_of(message).unwrap();
                result["resultType"] = json!("complete");
                (result["ttlMs"], result["cacheScope"]) = (json!(60000), json!("private"));
                if message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() {
                    return Some(reply(404, &[], ""));
                }
                result
            }
            _ => return Some(reply(404, &[], "")),
        };
        Some(reply(
            200,
            &[JSON],
            json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
        ))
    })
    .await;
    let tools = server.tools().await;
    assert_eq!(tools.call("look_up", json!({})).await.model_text(), "found");
    is_updated.store(1, Ordering::Relaxed);
    let call = timeout(Duration::from_secs(10), tools.call("look_up", json!({}))).await;
    assert_eq!(call.unwrap().model_text(), "found");
}

/// Requests exclude compression. The error for a compressed response names the coding, and has no
/// binary text.
#[tokio::test(flavor = "multi_thread")]
async fn compressed_response_is_an_error_that_names_the_coding() {
    for (status, kind) in [(200, JSON), (200, EVENTS), (400, JSON), (403, ("content-type", "text/html"))] {
        for coding in ["gzip", "br", "zstd", "deflate"] {
            let server = OddServer::start(move |_, message| {
                let packed: &[u8] = b"\x1f\x8b\x08\x00\xff\xfe";
                (message["method"] == "tools/call")
                    .then(|| reply(status, &[kind, ("content-encoding", coding)], packed))
            })
            .await;
            let tools = server.tools().await;
            let failure = tools.call("look_up", json!({})).await.into_output().unwrap_err();
            assert!(failure.message.contains(coding), "{status} {kind:?}: {}", failure.message);
            assert!(!failure.message.contains(['\u{1f}', '\u{fffd}']), "{}", failure.message);
            for (headers, message) in server.requests.lock().unwrap().iter() {
                assert_eq!(headers["accept-encoding"], "identity", "{message}");
            }
        }
    }
}

/// A byte order mark at the beginning of a body is no content.
#[tokio::test(flavor = "multi_thread")]
async fn byte_order_mark_of_a_body_is_ignored() {
    for is_stream in [false, true] {
        let server = OddServer::start(move |_, message| {
            let result = result_of(message).filter(|_| message.get("id").is_some())?;
            let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            Some(match is_stream {
                true => reply(200, &[EVENTS], format!("\u{feff}data: {body}\n\n")),
                false => reply(200, &[JSON], format!("\u{feff}{body}")),
            })
        })
        .await;
        assert_eq!(server.tools().await.call("look_up", json!({})).await.model_text(), "found");
    }
}

/// JSON without a type, or as plain text, is read. Other content is an error that names its type.
#[tokio::test(flavor = "multi_thread")]
async fn message_without_the_right_type_is_read() {
    for (media_type, is_json) in
        [(None, true), (Some("text/plain; charset=utf-8"), true), (Some("text/plain"), false), (None, false)]
    {
        let headers: Vec<_> = media_type.map(|media_type| ("content-type", media_type)).into_iter().collect();
        let server = OddServer::start(move |_, message| {
            let result = result_of(message).filter(|_| message.get("id").is_some())?;
            let is_odd = message["method"] != "initialize" || is_json;
            let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
            is_odd.then(|| reply(200, &headers, if is_json { body } else { "please log in".to_owned() }))
        })
        .await;
        if is_json {
            assert_eq!(server.tools().await.call("look_up", json!({})).await.model_text(), "found");
            continue;
        }
        let error = McpSource::connect("odd", server.config.clone()).await.unwrap_err().reason;
        let expected = media_type.map_or("has no type", |_| "has the type text/plain");
        assert!(error.contains(expected), "{error}");
    }
}

/// A number that cannot be held exactly is never rounded. It costs the member that has it, with a
/// warning, and the call keeps the rest of its result.
#[tokio::test(flavor = "multi_thread")]
async fn inexact_number_costs_its_member() {
    for is_stream in [false, true] {
        for (number, is_exact) in [
            ("18446744073709551615", true),
            ("0.10000000000000001", true),
            ("123456789012345678901", false),
            ("0.1234567890123456789", false),
            ("1e400", false),
        ] {
            let texts = r#"{"type":"text","text":"found"}"#;
            for (result, expected) in [
                (format!(r#"{{"content":[{texts}],"structuredContent":{{"id":{number}}}}}"#), "found"),
                (format!(r#"{{"content":[{texts}],"_meta":{{"id":{number}}}}}"#), "found"),
                (format!(r#"{{"content":[{{"_meta":[{number}],"type":"text","text":"found"}}]}}"#), "found"),
                (format!(r#"{{"content":[],"structuredContent":{{"id":{number}}}}}"#), number),
            ] {
                let server = server_with_result(result.clone(), is_stream).await;
                let found = server.tools().await.call("look_up", json!({})).await;
                assert_eq!(found.warnings.is_empty(), is_exact, "{result}: {:?}", found.warnings);
                assert!(is_exact || found.warnings[0].contains(number), "{result}: {:?}", found.warnings);
                let output = found.into_output().unwrap();
                if !is_exact {
                    assert!(output.text().contains(expected), "{result}: {output:?}");
                    assert!(output.structured.is_none() && output.metadata.is_empty(), "{output:?}");
                }
            }
        }
    }
}

/// Without the structured content that its output schema requires, a call fails with the rest of
/// its result.
#[tokio::test(flavor = "multi_thread")]
async fn inexact_structured_content_fails_with_the_content() {
    let server = OddServer::start(|_, message| {
        let result = match message["method"].as_str()? {
            "tools/list" => {
                r#"{"tools":[{"name":"look_up","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}]}"#
            }
            "tools/call" => r#"{"content":[{"type":"text","text":"found"}],"structuredContent":{"x":1e400}}"#,
            _ => return None,
        };
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]);
        Some(reply(200, &[JSON], body))
    })
    .await;
    let failure = server.tools().await.call("look_up", json!({})).await.into_output().unwrap_err();
    expect![[r#"
        the call did run, but without structured content:
        found
        Warning: /structuredContent is not available as data, because the number 1e400 cannot be represented exactly"#]]
    .assert_eq(&failure.message);
}

/// Without its input requests, a call would wait forever.
#[tokio::test(flavor = "multi_thread")]
async fn inexact_number_in_an_input_request_is_refused() {
    let result = r#"{"resultType":"input_required","inputRequests":{"x":{"n":1e400}}}"#;
    let server = server_with_result(result.to_owned(), false).await;
    let failure = server.tools().await.call("look_up", json!({})).await.into_output().unwrap_err();
    assert!(failure.message.contains("1e400"), "{}", failure.message);
    assert!(failure.message.contains("the request did run"), "{}", failure.message);
}

/// Starts a server that responds to each call with the JSON text `result`.
async fn server_with_result(result: String, is_stream: bool) -> OddServer {
    OddServer::start(move |_, message| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]);
        (message["method"] == "tools/call").then(|| match is_stream {
            true => reply(200, &[EVENTS], format!("data: {body}\n\n")),
            false => reply(200, &[JSON], body),
        })
    })
    .await
}

/// An odd cursor ends the list and keeps its tools, each name once, with a diagnostic.
#[tokio::test(flavor = "multi_thread")]
async fn odd_cursor_ends_the_list() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    for (first, second, names, fault, requests) in [
        (json!(""), json!(""), &["first"][..], None, 1),
        (Value::Null, Value::Null, &["first"], None, 1),
        (json!("2"), Value::Null, &["first", "second"], None, 2),
        (json!("2"), json!("2"), &["first", "second"], Some("the cursor \"2\" is repeated"), 2),
        (json!(2), Value::Null, &["first"], Some("`nextCursor` is not a string"), 1),
        (
            json!("2"),
            json!("error"),
            &["first"],
            Some("page 2: cannot list the tools: too busy (code -32000)"),
            2,
        ),
        (json!("2"), json!("html"), &["first"], Some("page 2: "), 2),
        (json!("2"), json!("null"), &["first"], None, 2),
        (json!("2"), json!("endless"), &["first", "second"], Some("it has more than 3 pages"), 3),
    ] {
        let server = OddServer::start(move |_, message| {
            if message["method"] != "tools/list" {
                return None;
            }
            let page = match (&message["params"]["cursor"], second.as_str()) {
                (Value::Null, _) => json!({"tools": [tool("first")], "nextCursor": first}),
                (_, Some("error")) => {
                    let error = json!({"code": -32000, "message": "too busy"});
                    let body = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                    return Some(reply(200, &[JSON], body.to_string()));
                }
                (_, Some("html")) => return Some(reply(200, &[("content-type", "text/html")], "<p>")),
                (_, Some("null")) => json!({"tools": null}),
                (cursor, Some("endless")) => {
                    json!({"tools": [tool("second")], "nextCursor": format!("{}+", cursor.as_str().unwrap())})
                }
                _ => json!({"tools": [tool("first"), tool("second")], "nextCursor": second}),
            };
            let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": page});
            Some(reply(200, &[JSON], body.to_string()))
        })
        .await;
        let config = server.config.clone().with_options(ServerOptions::default().with_max_list_pages(3));
        let source = McpSource::connect("odd", config).await.unwrap();
        let list = source.tools(&ListContext::default()).await.unwrap();
        let listed: Vec<_> = list.tools().iter().map(|tool| tool.definition().name().to_string()).collect();
        let diagnostics: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
        if names.len() == 2 && fault.is_none() {
            // Without a fault, a repeated name is a fault of the tool.
            assert!(diagnostics[0].contains("an earlier tool has the same name"), "{diagnostics:?}");
        } else {
            let is_expected = fault.map_or(
                diagnostics.is_empty(),
                |fault| matches!(&diagnostics[..], [one] if one.contains(fault) && one.contains("mcp:odd")),
            );
            assert!(is_expected, "{fault:?}: {diagnostics:?}");
        }
        assert_eq!(listed, names);
        assert_eq!(server.count("tools/list"), requests);
    }
}

/// A list whose second page had no response in time is fetched again when it is used.
#[tokio::test(flavor = "multi_thread")]
async fn partial_list_is_fetched_again() {
    let pages = Arc::new(AtomicUsize::new(0));
    let server = OddServer::start(move |_, message| {
        if message["method"] != "tools/list" {
            return None;
        }
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let result = match message["params"]["cursor"].is_null() {
            true => json!({"tools": [tool("first")], "nextCursor": "2"}),
            // The response to the first request for the second page has no end.
            false if pages.fetch_add(1, Ordering::Relaxed) == 0 => {
                let endless = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
                return Some(reply(200, &[JSON], endless));
            }
            false => json!({"tools": [tool("second")]}),
        };
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        Some(reply(200, &[JSON], body.to_string()))
    })
    .await;
    let options = ServerOptions::default().with_list_timeout(Duration::from_secs(1));
    let source = McpSource::connect("odd", server.config.clone().with_options(options)).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    assert!(list.get("first").is_some() && list.get("second").is_none());
    assert!(list.diagnostics()[0].to_string().contains("page 2"), "{:?}", list.diagnostics());
    let completed = async {
        while source.tools(&ListContext::default()).await.unwrap().get("second").is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(20), completed).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    assert!(list.get("first").is_some() && list.diagnostics().is_empty(), "{:?}", list.diagnostics());
}

/// From revision 2026-07-28, an empty string is a cursor.
#[tokio::test(flavor = "multi_thread")]
async fn empty_cursor_of_the_later_revision_is_a_cursor() {
    for (second, diagnostics) in [(Value::Null, 0), (json!(""), 1)] {
        let server = OddServer::start(move |_, message| {
            let mut result = match message["method"].as_str()? {
                "server/discover" => json!({
                    "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "odd", "version": "1"},
                }),
                "tools/list" => {
                    let is_first = message["params"]["cursor"].is_null();
                    let name = if is_first { "first" } else { "second" };
                    let tools = json!([{"name": name, "inputSchema": {"type": "object"}}]);
                    json!({"tools": tools, "nextCursor": if is_first { json!("") } else { second.clone() }})
                }
                _ => return None,
            };
            (result["resultType"], result["ttlMs"]) = (json!("complete"), json!(60000));
            result["cacheScope"] = json!("private");
            let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            Some(reply(200, &[JSON], body.to_string()))
        })
        .await;
        let source = McpSource::connect("odd", server.config.clone()).await.unwrap();
        let list = source.tools(&ListContext::default()).await.unwrap();
        assert!(list.get("first").is_some() && list.get("second").is_some());
        assert_eq!(list.diagnostics().len(), diagnostics, "{:?}", list.diagnostics());
        assert_eq!(server.count("tools/list"), 2);
    }
}

/// A tool whose definition has a number that cannot be held exactly is withheld, alone.
#[tokio::test(flavor = "multi_thread")]
async fn inexact_number_in_a_definition_costs_its_tool() {
    let server = OddServer::start(|_, message| {
        let tools = r#"[{"name":"good","inputSchema":{"type":"object"}},
            {"name":"bad","inputSchema":{"type":"object","properties":{"x":{"maximum":1e400}}}}]"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":{tools}}}}}"#, message["id"]);
        (message["method"] == "tools/list").then(|| reply(200, &[JSON], body))
    })
    .await;
    let source = McpSource::connect("odd", server.config.clone()).await.unwrap();
    let list = source.tools(&ListContext::default()).await.unwrap();
    assert!(list.get("good").is_some() && list.get("bad").is_none());
    let diagnostic = list.diagnostics()[0].to_string();
    assert!(diagnostic.contains("\"bad\"") && diagnostic.contains("1e400"), "{diagnostic}");
}
