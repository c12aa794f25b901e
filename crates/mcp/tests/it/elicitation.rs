use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join;
use haft_core::{
    ToolCall, ToolContext, Toolset,
    call::{Decision, Pending, PendingKind, ToolResponse},
    pipeline::CallOutcome,
    tool,
};
use haft_mcp::{
    HttpServer, HttpServiceConfig, McpService, McpSource, ServerConfig, ServerOptions, StdioServer,
    elicitation::{Elicitation, ElicitationKind, ElicitationResponse},
    serve_http,
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rmcp::{
    RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientResult, ContentBlock, ElicitRequest,
        ElicitRequestParams, ElicitResult, ErrorData, InputRequest, InputRequests, InputRequiredResult,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
        ServerConfig as RmcpServerConfig, ServerRequest,
    },
    service::{PeerRequestOptions, RequestContext},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet, time::timeout};

use crate::server;

/// A server of another implementation. Its tools request input.
#[derive(Clone)]
pub(crate) struct ElicitingServer {
    version: ProtocolVersion,
}

impl ElicitingServer {
    fn new(version: &str) -> Self {
        let is_modern = version == "2026-07-28";
        Self {
            version: if is_modern { ProtocolVersion::V_2026_07_28 } else { ProtocolVersion::V_2025_11_25 },
        }
    }
}

/// Serves [`ElicitingServer`] over standard input and output. Runs in the child process.
pub(crate) fn child(version: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let service =
            ElicitingServer::new(version).serve((tokio::io::stdin(), tokio::io::stdout())).await.unwrap();
        service.waiting().await.unwrap();
    });
}

pub(crate) fn form() -> ElicitRequestParams {
    let schema = json!({"type": "object", "properties": {
        "seat": {"type": "string"}, "class": {"type": "string", "default": "economy"},
    }, "required": ["seat"]});
    params(json!({"mode": "form", "message": "Which seat?", "requestedSchema": schema}))
}

fn params(params: Value) -> ElicitRequestParams {
    serde_json::from_value(params).unwrap()
}

fn text(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text.into())]).into()
}

impl ServerHandler for ElicitingServer {
    fn get_info(&self) -> RmcpServerConfig {
        RmcpServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        vec![self.version.clone()].into()
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let names = ["book", "visit", "script", "two", "both", "withdrawn", "forever", "plain"];
        let tools = names.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
        Ok(serde_json::from_value(json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"})).unwrap())
    }

    /// Requests the input of the tool, and returns the response as text.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let page =
            |url: &str| params(json!({"mode": "url", "message": "Pay", "url": url, "elicitationId": "e1"}));
        let questions = match &*request.name {
            "book" => vec![form()],
            "visit" => vec![page("https://pay.example/1")],
            "script" => vec![page("javascript:alert(1)")],
            "two" | "both" => vec![form(), page("https://pay.example/2")],
            "withdrawn" => vec![form()],
            "forever" => vec![],
            _ => return Ok(text("plain")),
        };
        let send = async |question| {
            let request = ServerRequest::ElicitRequest(ElicitRequest::new(question));
            cx.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap()
        };
        if self.version == ProtocolVersion::V_2025_11_25 {
            if &*request.name == "withdrawn" {
                // The client has 100 ms to start its handler.
                let first = send(form()).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                first.cancel(None).await.unwrap();
            }
            if &*request.name == "both" {
                let (first, second) = (send(form()).await, send(page("https://pay.example/2")).await);
                let (first, second) = join(first.await_response(), second.await_response()).await;
                let answers = [first, second].map(|answer| match answer {
                    Ok(ClientResult::ElicitResult(answer)) => describe(&answer),
                    other => format!("{other:?}"),
                });
                return Ok(text(answers.join("; ")));
            }
            let mut answers = Vec::new();
            for question in questions {
                answers.push(match send(question).await.await_response().await {
                    Ok(ClientResult::ElicitResult(answer)) => describe(&answer),
                    other => format!("{other:?}"),
                });
            }
            return Ok(text(answers.join("; ")));
        }
        let responses = request.input_responses.filter(|_| request.request_state.as_deref() == Some("s 1"));
        if let (Some(mut responses), false) = (responses, questions.is_empty()) {
            let answers = responses
                .values_mut()
                .map(|answer| describe(&serde_json::from_value::<ElicitResult>(answer.take()).unwrap()));
            return Ok(text(answers.collect::<Vec<_>>().join("; ")));
        }
        let questions = questions.into_iter().enumerate().map(|(index, question)| {
            (format!("q{index}"), InputRequest::Elicitation(ElicitRequest::new(question)))
        });
        let questions = Some(questions.collect::<InputRequests>()).filter(|questions| !questions.is_empty());
        Ok(InputRequiredResult::new(questions, Some("s 1".to_owned())).into())
    }
}

fn describe(answer: &ElicitResult) -> String {
    let answer = serde_json::to_value(answer).unwrap();
    format!("{} {}", answer["action"].as_str().unwrap(), answer["content"])
}

/// A server of `rmcp` over HTTP that ends when it is dropped.
pub(crate) struct RmcpWebServer {
    pub(crate) url: String,
    _tasks: JoinSet<()>,
}

impl RmcpWebServer {
    pub(crate) async fn start(handler: impl ServerHandler + Clone) -> Self {
        let service = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(LocalSessionManager::default()),
            StreamableHttpServerConfig::default(),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                let respond = service_fn(move |request| {
                    let mut service = service.clone();
                    async move { tower_service::Service::call(&mut service, request).await }
                });
                connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), respond));
            }
        });
        Self { url, _tasks: tasks }
    }
}

const VERSIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// Calls `check` with tools of a server of each revision over each transport. `options` are the
/// options of the servers.
async fn with_each_server(options: impl Fn() -> ServerOptions, check: impl AsyncFn(Toolset, String)) {
    for version in VERSIONS {
        let web = RmcpWebServer::start(ElicitingServer::new(version)).await;
        let stdio: StdioServer = server(&format!("elicits={version}"));
        let servers = [
            ("stdio", ServerConfig::from(stdio.with_options(options()))),
            ("http", ServerConfig::from(HttpServer::new(&web.url).with_options(options()))),
        ];
        for (transport, config) in servers {
            let source = McpSource::connect("booking", config).await.unwrap();
            let check = check(Toolset::new().with_source(source), format!("{version} over {transport}"));
            timeout(Duration::from_secs(20), check).await.unwrap();
        }
    }
}

async fn handle(question: Elicitation) -> ElicitationResponse {
    match (&*question.message, question.kind) {
        ("Which seat?", ElicitationKind::Form { .. }) => ElicitationResponse::accept(json!({"seat": "12A"})),
        ("Pay", ElicitationKind::Url { url }) if url.starts_with("https://pay.example/") => {
            ElicitationResponse::accept(Value::Null)
        }
        _ => ElicitationResponse::Decline,
    }
}

/// A handler responds to the elicitations of a server of each revision. Missing properties get
/// their defaults, and a URL with another scheme than HTTP is rejected. A call may have several
/// elicitations at a time.
#[tokio::test(flavor = "multi_thread")]
async fn handler_responds_to_elicitations() {
    let options = || ServerOptions::default().with_elicitation_handler(handle);
    with_each_server(options, async |tools, server| {
        let call = async |name| tools.call(name, json!({})).await.model_text().into_owned();
        let seat = r#"accept {"class":"economy","seat":"12A"}"#;
        assert_eq!(
            call("book").await.replace(r#"{"seat":"12A","class":"economy"}"#, &seat[7..]),
            seat,
            "{server}"
        );
        assert_eq!(call("visit").await, "accept null", "{server}");
        assert!(call("two").await.ends_with("; accept null"), "{server}");
        assert!(call("both").await.ends_with("; accept null"), "{server}");
        let script = call("script").await;
        assert!(script.contains("is not an HTTP URL"), "{server}: {script}");
        assert_eq!(call("plain").await, "plain");
    })
    .await;
}

/// The actions `decline` and `cancel` reach the server, and invalid input fails the call.
#[tokio::test(flavor = "multi_thread")]
async fn refused_elicitation_reaches_the_server() {
    for (response, expected) in [
        (ElicitationResponse::Decline, "decline null"),
        (ElicitationResponse::Cancel, "cancel null"),
        (ElicitationResponse::accept(json!({"seat": 12})), "invalid content for the elicitation"),
    ] {
        let options = || {
            let response = response.clone();
            ServerOptions::default().with_elicitation_handler(move |_| std::future::ready(response.clone()))
        };
        with_each_server(options, async |tools, server| {
            let text = tools.call("book", json!({})).await.model_text().into_owned();
            assert!(text.starts_with(expected), "{server}: {text}");
        })
        .await;
    }
}

pub(crate) async fn suspend(tools: &Toolset, call: &ToolCall) -> Pending {
    match tools.run_with(call, &ToolContext::default()).await {
        CallOutcome::Pending(pending) => pending.pending,
        CallOutcome::Finished(result) => panic!("{result:?}"),
    }
}

pub(crate) async fn resume(
    tools: &Toolset,
    call: &ToolCall,
    pending: Pending,
    decision: Decision,
) -> CallOutcome {
    // A suspended call is saved and loaded.
    let saved = serde_json::to_string(&pending).unwrap();
    let pending: Pending = serde_json::from_str(&saved).unwrap();
    let cx = ToolContext::default().with_resumed(pending.resume(decision).unwrap());
    tools.run_with(call, &cx).await
}

/// Without a handler, an elicitation suspends the call. The input resumes it, and a denial
/// declines.
#[tokio::test(flavor = "multi_thread")]
async fn elicitation_without_a_handler_suspends_the_call() {
    with_each_server(ServerOptions::default, async |tools, server| {
        let call = ToolCall::new("call_1", "book", "{}");
        let (pending, other) = join(suspend(&tools, &call), tools.call("plain", json!({}))).await;
        assert_eq!(other.model_text(), "plain");
        let PendingKind::Input { message, schema } = &pending.kind else { panic!("{pending:?}") };
        let expected = "mcp:booking requests input: Which seat?";
        assert_eq!((&**message, &schema["required"]), (expected, &json!(["seat"])), "{server}");
        assert!(pending.clone().resume(Decision::Input { value: json!({"seat": 1}) }).is_err());
        let seat = Decision::Input { value: json!({"seat": "12A"}) };
        let result = resume(&tools, &call, pending, seat).await.into_result();
        assert!(result.model_text().contains("12A"), "{server}: {result:?}");

        let pending = suspend(&tools, &call).await;
        let result = resume(&tools, &call, pending, Decision::denied("no")).await.into_result();
        assert_eq!(result.model_text(), "decline null", "{server}");

        // Two calls wait at the same time, and their answers are independent.
        let other = ToolCall::new("call_3", "book", "{}");
        let (first, second) = join(suspend(&tools, &call), suspend(&tools, &other)).await;
        let seat = |seat: &str| Decision::Input { value: json!({"seat": seat}) };
        let answers =
            join(resume(&tools, &other, second, seat("2C")), resume(&tools, &call, first, seat("1A")));
        let (second, first) = timeout(Duration::from_secs(5), answers).await.unwrap();
        let texts = [first, second].map(|it| it.into_result().model_text().into_owned());
        assert!(texts.concat().contains("1A") && texts.concat().contains("2C"), "{server}: {texts:?}");

        // The second elicitation of a call suspends it again.
        let call = ToolCall::new("call_2", "two", "{}");
        let pending = suspend(&tools, &call).await;
        let seat = Decision::Input { value: json!({"seat": "1B"}) };
        let CallOutcome::Pending(second) = resume(&tools, &call, pending, seat).await else {
            panic!("{server}")
        };
        let PendingKind::Input { message, .. } = &second.pending.kind else { panic!("{second:?}") };
        assert!(message.contains("https://pay.example/2"), "{message}");
        let opened = Decision::Input { value: json!(true) };
        let result = resume(&tools, &call, second.pending, opened).await.into_result();
        assert!(result.model_text().ends_with("; accept null"), "{server}: {result:?}");
    })
    .await;
}

/// An elicitation that the server cancels drops the future of the handler. The call may have
/// another one.
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_elicitation_drops_the_handler() {
    let count = Arc::new(AtomicUsize::new(0));
    let options = ServerOptions::default().with_elicitation_handler(move |elicitation| {
        let is_first = count.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_first {
                std::future::pending::<()>().await;
            }
            handle(elicitation).await
        }
    });
    let stdio = server("elicits=2025-11-25").with_options(options);
    let tools = Toolset::new().with_source(McpSource::connect("booking", stdio).await.unwrap());
    let result = timeout(Duration::from_secs(10), tools.call("withdrawn", json!({}))).await.unwrap();
    assert!(result.model_text().contains("12A"), "{result:?}");
}

/// A suspended call that waits too long is cancelled, and its later resumption fails.
#[tokio::test(flavor = "multi_thread")]
async fn suspended_call_is_cancelled_after_the_timeout() {
    let options = ServerOptions::default().with_elicitation_timeout(Duration::from_millis(50));
    let stdio = server("elicits=2025-11-25").with_options(options);
    let tools = Toolset::new().with_source(McpSource::connect("booking", stdio).await.unwrap());
    let call = ToolCall::new("call_1", "book", "{}");
    let pending = suspend(&tools, &call).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let seat = Decision::Input { value: json!({"seat": "12A"}) };
    let failure = resume(&tools, &call, pending, seat).await.into_result().into_output().unwrap_err();
    assert!(failure.message.contains("no longer waits for the input"), "{failure:?}");
    assert_eq!(tools.call("plain", json!({})).await.model_text(), "plain");
}

/// A server that requests input again and again fails the call.
#[tokio::test(flavor = "multi_thread")]
async fn rounds_of_input_are_limited() {
    let stdio = server("elicits=2026-07-28");
    let tools = Toolset::new().with_source(McpSource::connect("booking", stdio).await.unwrap());
    let result = timeout(Duration::from_secs(20), tools.call("forever", json!({}))).await.unwrap();
    assert!(result.model_text().contains("requests input more than 10 times"), "{result:?}");
}

/// Books a seat.
#[tool]
fn book(#[tool(context)] cx: &ToolContext) -> ToolResponse {
    match (cx.decision(), cx.continuation()) {
        (Some(Decision::Input { value }), Some(offer)) => format!("seat {value} of offer {offer}").into(),
        _ => {
            ToolResponse::Pending(Pending::new(PendingKind::input("Which seat?")).with_continuation(json!(7)))
        }
    }
}

/// Deletes a file.
#[tool(requires_approval)]
fn delete(path: String) -> String {
    format!("deleted {path}")
}

fn own_tools() -> Toolset {
    Toolset::new().with_tool(Book).with_tool(Delete)
}

/// Serves [`own_tools`] over standard input and output. Runs in the child process.
pub(crate) fn own_child() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(haft_mcp::serve_stdio(own_tools())).unwrap();
}

/// A served tool requests input and approvals from the user of the client.
#[tokio::test(flavor = "multi_thread")]
async fn served_tool_elicits_input() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = McpService::new(own_tools(), HttpServiceConfig::default());
    let serving = tokio::spawn(serve_http(service, listener, std::future::pending()));
    for is_http in [false, true] {
        for (is_permitted, deleted) in [(true, "deleted a.txt"), (false, "the user declined")] {
            let options = ServerOptions::default().with_elicitation_handler(move |question| async move {
                match question.message.as_str() {
                    "Which seat?" => ElicitationResponse::accept(json!({"value": "12A"})),
                    r#"Permit the call delete({"path":"a.txt"})?"# if is_permitted => {
                        ElicitationResponse::accept(json!({}))
                    }
                    _ => ElicitationResponse::Decline,
                }
            });
            let config = if is_http {
                ServerConfig::from(HttpServer::new(&url).with_options(options))
            } else {
                ServerConfig::from(server("own_elicits").with_options(options))
            };
            let tools = Toolset::new().with_source(McpSource::connect("own", config).await.unwrap());
            let booked = tools.call("book", json!({})).await;
            assert_eq!(booked.model_text(), "seat \"12A\" of offer 7", "http: {is_http}");
            let result = tools.call("delete", json!({"path": "a.txt"})).await;
            assert!(result.model_text().contains(deleted), "http: {is_http}: {result:?}");
        }
    }
    serving.abort();
}
