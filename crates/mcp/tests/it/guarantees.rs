//! Guarantees of a source about late responses, result schemas, secrets, hidden characters, access
//! tokens, resources and the order of calls.

use std::{
    fmt::{Debug, Write as _},
    fs,
    pin::pin,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use expect_test::expect;
use futures::future::join_all;
use haft_core::{
    ToolCall, ToolContext, ToolExt as _, ToolSource as _, Toolset,
    call::{FailureKind, Pending, PendingKind, ToolResponse},
    text::is_hidden,
    tool::{RunContext, ToolPolicy},
    tool_fn,
    toolset::ListContext,
};
use haft_mcp::{
    HttpServer, HttpServiceConfig, HttpTransport, McpConfig, McpSource, ServerConfig, ServerOptions,
    StdioServer,
    client_credentials::ClientCredentials,
    elicitation::{Elicitation, ElicitationResponse},
    testing::InProcessServer,
};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    task::{JoinSet, unconstrained},
    time::{Instant, sleep, timeout},
};
use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{self, DefaultGuard, NoSubscriber},
};

use crate::{
    authorization_server::{AuthorizationServer, MACHINE, serve_protected},
    child,
    elicitation::suspend,
    http_serving::{Probe, Served},
    processes::ServerProcesses,
    server,
    source::Reports,
    unique_marker,
    web::{Request, WebServer, read_request, write},
};

/// A text with a zero-width space, a bidirectional control and an escape sequence.
const HIDDEN: &str = "re\u{200b}ad\u{202e} a\u{1b}[31m file";
/// [`HIDDEN`] without hidden characters.
const VISIBLE: &str = "read a[31m file";
/// A secret.
const CANARY: &str = "canary-0123456789";
/// A variable of this process. Cargo sets it, and servers do not inherit it.
const PARENT_VARIABLE: &str = "CARGO_PKG_DESCRIPTION";
/// The number of requests that rmcp queues for a connection.
const QUEUE_LENGTH: usize = 1024;
const RESULT_PREFIX: &str = "descriptors: ";

/// A server over HTTP. A function returns its responses.
struct ScriptedServer {
    url: String,
    _tasks: JoinSet<()>,
}

impl ScriptedServer {
    /// Starts a server of the revision `version` with `tools`. For each further request, it sends
    /// the messages of `respond` as an event stream. The stream stays open if the last message is
    /// not a response.
    async fn start(
        version: &'static str,
        tools: Value,
        respond: impl Fn(&Request) -> Vec<Value> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let script = Arc::new(move |request: &Request| match request.method() {
            "server/discover" if version == "2026-07-28" => vec![result(
                request,
                json!({
                    "resultType": "complete", "supportedVersions": [version], "capabilities": {"tools": {}},
                    "ttlMs": 0, "cacheScope": "private",
                }),
            )],
            "server/discover" => vec![error(request, json!({"code": -32601, "message": "method not found"}))],
            "initialize" => vec![result(
                request,
                json!({
                    "protocolVersion": version, "capabilities": {"tools": {}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                }),
            )],
            "tools/list" => {
                vec![result(request, json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"}))]
            }
            _ => respond(request),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&script);
                connections.spawn(async move { serve_script(stream, &*script).await });
            }
        });
        Self { url, _tasks: tasks }
    }

    async fn connect(&self, options: ServerOptions) -> Toolset {
        let server = HttpServer::new(&self.url).with_options(options);
        Toolset::new().with_source(McpSource::connect("web", server).await.unwrap())
    }
}

async fn serve_script(stream: TcpStream, script: impl Fn(&Request) -> Vec<Value>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        let messages = script(&request);
        let Some(last) = messages.last() else {
            let status =
                if request.line.starts_with("GET") { "405 Method Not Allowed" } else { "202 Accepted" };
            write(stream.get_mut(), status, "", "").await;
            continue;
        };
        let events: String = messages.iter().map(|message| format!("data: {message}\n\n")).collect();
        if last["method"].is_null() {
            write(stream.get_mut(), "200 OK", "Content-Type: text/event-stream\r\n", &events).await;
        } else {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            stream.get_mut().write_all(format!("{head}{events}").as_bytes()).await.unwrap();
            // Nothing is read from the connection except its end.
            let _ = stream.get_ref().readable().await;
            return;
        }
    }
}

fn result(request: &Request, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result})
}

fn error(request: &Request, error: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error})
}

/// A subscriber. It stores all fields of spans and events, of every crate and at every level. Each
/// event is a line, with its target first.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    /// Captures the events of the current thread until the returned guard is dropped. The second
    /// dispatcher prevents `tracing` from caching the interest of other threads in a callsite.
    fn capture() -> (Self, (DefaultGuard, Dispatch)) {
        let log = Self::default();
        let second = Dispatch::new(NoSubscriber::new());
        (log.clone(), (subscriber::set_default(log), second))
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn add(&self, start: &str, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(start.to_owned());
        record(&mut fields);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(&fields.0);
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, " {field}={value}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.add("\nspan", |fields| attributes.record(fields));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, record: &Record<'_>) {
        self.add("\nspan", |fields| record.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let target = event.metadata().target();
        self.add(&format!("\n{target}:"), |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Waits up to ten seconds until `condition` returns `true`.
async fn wait_until(condition: impl Fn() -> bool) {
    let reached = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), reached).await.unwrap();
}

/// Over HTTP with SSE, a timed-out call is cancelled on the server, and the next call gets its own
/// result and not the late one.
#[tokio::test(flavor = "multi_thread")]
async fn late_response_over_sse_is_ignored() {
    let server = WebServer::start("late_sse").await;
    let options = ServerOptions::default().with_idle_timeout(Duration::from_millis(500));
    let config = server.config().with_transport(HttpTransport::Sse).with_options(options);
    let tools = Toolset::new().with_source(McpSource::connect("web", config).await.unwrap());
    let failure = tools.call("add", json!({})).await.into_output().unwrap_err();
    assert_eq!(failure.kind, FailureKind::TimedOut, "{failure:?}");
    wait_until(|| !server.requests_of("notifications/cancelled").is_empty()).await;
    let cancelled = &server.requests_of("notifications/cancelled")[0];
    assert_eq!(cancelled.body["params"]["requestId"], server.requests_of("tools/call")[0].body["id"]);
    assert_eq!(tools.call("add", json!({})).await.model_text(), "in time");
    assert_eq!(server.requests_of("initialize").len(), 1, "the connection is kept");
}

/// A result without structured content for the output schema of its tool is an error.
#[tokio::test(flavor = "multi_thread")]
async fn structured_content_is_checked_with_the_output_schema() {
    let schema = json!({
        "type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"],
    });
    let tools = json!([{"name": "echo", "inputSchema": {"type": "object"}, "outputSchema": schema}]);
    let server = ScriptedServer::start("2026-07-28", tools, |request| {
        vec![result(request, request.body["params"]["arguments"].clone())]
    })
    .await;
    let tools = server.connect(ServerOptions::default()).await;
    let call = async |returned: Value| tools.call("echo", returned).await.into_output();
    let valid = call(json!({"content": [], "structuredContent": {"celsius": 20.5}})).await.unwrap();
    assert_eq!(valid.structured, Some(json!({"celsius": 20.5})));
    let mut messages = Vec::new();
    for returned in [
        json!({"content": [{"type": "text", "text": "20.5"}], "structuredContent": {"celsius": "warm"}}),
        json!({"content": [{"type": "text", "text": "20.5"}]}),
        json!({"isError": true, "content": [{"type": "text", "text": "no sensor"}]}),
    ] {
        let failure = call(returned).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Failed);
        messages.push(failure.message);
    }
    expect![[r#"
        the call did run, but its result does not fit the tool's output schema: /celsius: expected number, received string "warm"
        the call did run, but its result does not fit the tool's output schema: it has no structured content
        no sensor"#]]
    .assert_eq(&messages.join("\n"));
}

/// Asserts that `shown` and `log` do not contain [`CANARY`].
fn assert_no_canary(shown: &str, log: &Log) {
    let log = log.text();
    assert!(log.contains("haft_mcp"), "the events of this crate are captured: {log}");
    for text in [shown, &log] {
        let line = text.lines().find(|line| line.contains(CANARY));
        assert!(line.is_none(), "{line:?}");
    }
}

/// A header of the configuration is in no error, log or debug output if the server fails.
#[tokio::test]
async fn header_is_in_no_error_log_or_debug_output() {
    let (log, _guard) = Log::capture();
    let mut shown = String::new();
    let options = ServerOptions::default().with_idle_timeout(Duration::from_millis(300));
    for (transport, modes) in [
        (
            HttpTransport::Auto,
            &["unauthorized", "future", "busy", "broken", "redirects", "html", "silent", "cut"][..],
        ),
        (HttpTransport::Sse, &["unauthorized", "foreign_sse", "late_sse"]),
    ] {
        for &mode in modes {
            let server = WebServer::start(mode).await;
            let config = server.config().with_transport(transport).with_options(options.clone());
            let config = ServerConfig::from(config.with_bearer_token(CANARY).with_header("X-Key", CANARY));
            let connected = McpSource::connect("web", config.clone()).await;
            write!(shown, "{config:?}{connected:?}").unwrap();
            match connected {
                Err(error) => write!(shown, "{error}").unwrap(),
                Ok(source) => {
                    let result = Toolset::new().with_source(source).call("add", json!({})).await;
                    assert!(!result.is_success(), "{mode}");
                    write!(shown, "{result:?}").unwrap();
                }
            }
            let requests = server.requests();
            assert!(requests.iter().all(|request| request.header("x-key") == CANARY), "{mode}");
        }
    }
    assert_no_canary(&shown, &log);
}

/// A server does not get a variable of this process. A variable of its configuration is in no
/// error, log or debug output if the server does not start.
#[tokio::test]
async fn variable_is_in_no_error_log_or_debug_output() {
    let secret = std::env::var(PARENT_VARIABLE).unwrap();
    let (log, _guard) = Log::capture();
    // The server writes its environment to its standard error.
    let curious = StdioServer::new("sh").with_args(["-c", "env >&2; exit 3"]);
    let mut shown = McpSource::connect("sh", curious).await.unwrap_err().to_string();
    assert!(log.text().contains("PATH="), "{}", log.text());
    assert!(!log.text().contains(&secret) && !shown.contains(&secret), "{shown}");

    let entry = json!({"command": "sh", "args": ["-c", "exit 3", "${KEY}"], "env": {"KEY": "${KEY}"}});
    let text = json!({"mcpServers": {"sh": entry}}).to_string();
    let lookup = |name: &str| (name == "KEY").then(|| CANARY.to_owned());
    let config = McpConfig::from_json_with_variables(&text, lookup).unwrap();
    let source = config.start().remove(0);
    let error = source.wait_until_ready().await.unwrap_err();
    assert!(error.reason.contains("command: sh -c 'exit 3' ${KEY}"), "{error}");
    write!(shown, "{config:?}{source:?}{:?}{error}{error:?}", source.status()).unwrap();
    assert_no_canary(&shown, &log);
}

/// A server of haft with an authorization server. The tools `read` and `write` require the scopes
/// with these names.
struct Resource {
    issuer: AuthorizationServer,
    url: String,
    /// The number of requests that were rejected with status 403.
    forbidden: Arc<Mutex<u32>>,
    _server: Served,
}

impl Resource {
    async fn start() -> Self {
        let forbidden = Arc::new(Mutex::new(0));
        let count = Arc::clone(&forbidden);
        let config = HttpServiceConfig::default()
            .with_rejection_hook(move |request| *count.lock().unwrap() += u32::from(request.status == 403));
        let tool = |scope| Probe::with_policy(scope, ToolPolicy::default().with_required_scope(scope));
        let tools = Toolset::new().with_tools(["read", "write"].map(tool));
        let (issuer, url, server) = serve_protected(tools, config).await;
        Self { issuer, url, forbidden, _server: server }
    }

    /// Returns a configuration with the secret `secret` of the client.
    fn client(&self, secret: &str) -> HttpServer {
        HttpServer::new(&self.url).with_client_credentials(ClientCredentials::with_secret(MACHINE.0, secret))
    }

    fn requested_scopes(&self) -> Vec<String> {
        let requests = self.issuer.state.token_requests.lock().unwrap();
        requests.iter().map(|request| request["scope"].clone()).collect()
    }
}

/// The secret of an OAuth client is in no error, log or debug output if the authorization server
/// rejects it.
#[tokio::test]
async fn client_secret_is_in_no_error_log_or_debug_output() {
    let (log, _guard) = Log::capture();
    let resource = Resource::start().await;
    let mut shown = String::new();
    for method in ["client_secret_basic", "client_secret_post"] {
        *resource.issuer.state.metadata.lock().unwrap() =
            json!({"token_endpoint_auth_methods_supported": [method]});
        let config = resource.client(CANARY);
        let error = McpSource::connect("machine", config.clone()).await.unwrap_err();
        assert!(error.reason.contains("invalid_client"), "{error}");
        write!(shown, "{config:?}{:?}{error}{error:?}", config.client_credentials).unwrap();
    }
    let basic = STANDARD.encode(format!("{}:{CANARY}", MACHINE.0));
    assert!(!shown.contains(&basic) && !log.text().contains(&basic));
    assert_no_canary(&shown, &log);
}

/// Two concurrent calls that need a further scope share one further token.
#[tokio::test]
async fn concurrent_calls_share_a_token_with_a_further_scope() {
    let resource = Resource::start().await;
    let source = McpSource::connect("machine", resource.client(MACHINE.1)).await.unwrap();
    let tools = Toolset::new().with_source(source);
    let calls = join_all([tools.call("write", json!({})), tools.call("write", json!({}))]).await;
    for call in calls {
        assert!(call.model_text().contains(MACHINE.0), "{call:?}");
    }
    assert_eq!(*resource.forbidden.lock().unwrap(), 2, "both calls were sent with the first token");
    assert_eq!(resource.requested_scopes(), ["tools", "tools write"]);
}

/// Returns the state of a task with the members of `status`.
fn task(kind: &str, status: &Value) -> Value {
    let mut task = json!({
        "resultType": kind, "taskId": "task-1", "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "pollIntervalMs": 1,
    });
    task.as_object_mut().unwrap().extend(status.as_object().cloned().unwrap());
    task
}

/// Starts a server with hidden characters in its responses. It rejects a call with the argument
/// `rejects`, creates a task with the final status `ends`, and otherwise reports progress.
async fn start_hiding_server() -> ScriptedServer {
    let tools = json!([{"name": "hide", "inputSchema": {"type": "object"}}]);
    let end = Mutex::new(Value::Null);
    ScriptedServer::start("2026-07-28", tools, move |request| {
        let params = &request.body["params"];
        let arguments = &params["arguments"];
        let fault = json!({"code": -32000, "message": HIDDEN, "data": {HIDDEN: HIDDEN}});
        if request.method() == "tasks/get" {
            let status = json!({"status": *end.lock().unwrap(), "statusMessage": HIDDEN, "error": fault});
            return vec![result(request, task("complete", &status))];
        }
        if arguments["rejects"] == true {
            return vec![error(request, fault)];
        }
        if arguments["ends"].is_string() {
            *end.lock().unwrap() = arguments["ends"].clone();
            let status = json!({"status": "working", "statusMessage": HIDDEN});
            return vec![result(request, task("task", &status))];
        }
        let report =
            json!({"progressToken": params["_meta"]["progressToken"], "progress": 1, "message": HIDDEN});
        let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": report});
        vec![report, result(request, json!({"content": []}))]
    })
    .await
}

/// The errors of rejected calls and of failed and cancelled tasks, progress messages, and the log
/// of this crate have no hidden characters.
#[tokio::test]
async fn errors_and_reports_have_no_hidden_characters() {
    let (log, _guard) = Log::capture();
    let server = start_hiding_server().await;
    let tools = server.connect(ServerOptions::default()).await;
    let reports = Reports::default();
    let run = RunContext { progress: Some(Arc::new(reports.clone())), ..RunContext::default() };
    let cx = ToolContext::new(Arc::new(run), "call_1");
    let mut texts = Vec::new();
    for arguments in [json!({"rejects": true}), json!({"ends": "failed"}), json!({"ends": "cancelled"})] {
        texts.push(tools.call_with("hide", arguments, &cx).await.into_output().unwrap_err().message);
    }
    assert!(tools.call_with("hide", json!({}), &cx).await.is_success());
    let reports = reports.0.lock().unwrap().clone();
    // Each task reports a message, and the last call reports another one.
    assert_eq!(reports.len(), 3, "{reports:?}");
    texts.extend(reports.into_iter().map(|report| report.message.unwrap()));
    for text in texts {
        assert!(text.contains(VISIBLE) && !text.contains(is_hidden), "{text:?}");
    }
    let log = log.text();
    let hidden = log.lines().find(|line| line.starts_with("haft_mcp") && line.contains(is_hidden));
    assert!(hidden.is_none(), "{hidden:?}");
}

/// The message of an elicitation, and the titles and descriptions in its schema, have no hidden
/// characters.
#[tokio::test(flavor = "multi_thread")]
async fn elicitations_have_no_hidden_characters() {
    let tools = json!([{"name": "ask", "inputSchema": {"type": "object"}}]);
    let seat = json!({
        "type": "string", "title": HIDDEN, "description": HIDDEN, "oneOf": [{"const": "1A", "title": HIDDEN}],
    });
    let form = json!({"mode": "form", "message": HIDDEN, "requestedSchema": {
        "type": "object", "title": HIDDEN, "description": HIDDEN, "properties": {"seat": seat},
    }});
    let page =
        json!({"mode": "url", "message": HIDDEN, "url": "https://pay.example/1", "elicitationId": "1"});
    for (params, count) in [(form, 6), (page, 1)] {
        for version in ["2025-11-25", "2026-07-28"] {
            let params = params.clone();
            let server = ScriptedServer::start(version, tools.clone(), move |request| {
                let question =
                    json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params});
                let round = json!({"resultType": "input_required", "inputRequests": {"key": question}});
                match request.method() {
                    "tools/call" if version == "2025-11-25" => vec![question],
                    "tools/call" => vec![result(request, round)],
                    _ => vec![],
                }
            })
            .await;
            let check = |text: &str| {
                assert_eq!(text.matches(VISIBLE).count(), count, "{version}: {text}");
                assert!(!text.contains(is_hidden), "{version}: {text:?}");
            };
            let call = ToolCall::new("call_1", "ask", "{}");
            let pending = suspend(&server.connect(ServerOptions::default()).await, &call).await;
            let PendingKind::Input { message, schema } = &pending.kind else { panic!("{pending:?}") };
            check(&format!("{message}{}", Value::Object(schema.clone())));

            let asked: Arc<Mutex<Option<Elicitation>>> = Arc::default();
            let question = Arc::clone(&asked);
            let options = ServerOptions::default().with_elicitation_handler(move |elicitation| {
                *question.lock().unwrap() = Some(elicitation);
                async { ElicitationResponse::Decline }
            });
            let tools = server.connect(options).await;
            let mut calling = pin!(tools.call("ask", json!({})));
            tokio::select! {
                _ = &mut calling => {}
                () = wait_until(|| asked.lock().unwrap().is_some()) => {}
            }
            let asked = asked.lock().unwrap().clone().unwrap();
            check(&serde_json::to_string(&asked).unwrap());
        }
    }
}

/// The error and the log of a server that does not start quote its standard error without hidden
/// characters.
#[tokio::test]
async fn standard_error_has_no_hidden_characters() {
    let (log, _guard) = Log::capture();
    let script = r"printf 're\342\200\213ad\342\200\256 a\033[31m file\n' >&2; exit 3";
    let server = StdioServer::new("sh").with_args(["-c", script]);
    let error = McpSource::connect("broken", server).await.unwrap_err();
    assert!(error.reason.contains(&format!("standard error:\n{VISIBLE}\n")), "{error}");
    let log = log.text();
    assert!(log.contains(&format!("text={VISIBLE}")), "{log}");
    for text in [error.to_string(), log] {
        assert!(!text.contains(is_hidden), "{text:?}");
    }
}

/// Sources dropped with a call in progress, or with a suspended call, leave no process, no socket
/// and no other file descriptor. The descriptors of a process are counted, so the sources are in a
/// child process.
#[tokio::test]
async fn open_calls_leave_no_process_and_no_descriptor() {
    let marker = unique_marker();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(child::arguments(&format!("open_calls={marker}")));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let counts = text.lines().find_map(|line| line.strip_prefix(RESULT_PREFIX));
    let (before, after) = counts.unwrap_or_else(|| panic!("{text}{errors}")).split_once(' ').unwrap();
    assert!(after.parse::<usize>().unwrap() <= before.parse().unwrap(), "{before} {after}");
    assert_eq!(ServerProcesses::new(&marker).remaining().await, 0);
}

/// Drops sources with open calls, and prints the number of file descriptors before and after. Runs
/// in the child process.
pub(crate) fn child(marker: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let round = async || {
            let streaming = start_streaming_server().await;
            drop_with_calls_in_progress(&streaming).await;
            drop_with_suspended_call(HttpServer::new(&streaming.url).into()).await;
            drop_with_suspended_call(server("elicits=2025-11-25").with_args([marker]).into()).await;
        };
        let count = || fs::read_dir("/proc/self/fd").unwrap().count();
        // The first round creates the descriptors of the runtime.
        round().await;
        let mut before = usize::MAX;
        while count() < before {
            before = count();
            sleep(Duration::from_millis(500)).await;
        }
        for _ in 0..3 {
            round().await;
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while count() > before && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        println!("\n{RESULT_PREFIX}{before} {}", count());
    });
}

/// Starts a server of revision 2025-11-25. A call to `add` reports progress and does not end, and a
/// call to `book` sends an elicitation.
async fn start_streaming_server() -> ScriptedServer {
    let tools = ["add", "book"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
    ScriptedServer::start("2025-11-25", json!(tools), move |request| {
        let params = &request.body["params"];
        let schema = json!({"type": "object", "properties": {"seat": {"type": "string"}}});
        let form = json!({"message": "Which seat?", "requestedSchema": schema});
        match (request.method(), params["name"].as_str()) {
            ("tools/call", Some("book")) => {
                vec![json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form})]
            }
            ("tools/call", _) => {
                let report = json!({"progressToken": params["_meta"]["progressToken"], "progress": 1});
                vec![json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": report})]
            }
            _ => vec![],
        }
    })
    .await
}

/// Drops sources over HTTP with SSE and over streamable HTTP while a call is in progress. The call
/// fails.
async fn drop_with_calls_in_progress(streaming: &ScriptedServer) {
    for transport in [HttpTransport::Sse, HttpTransport::Streamable] {
        let sse = WebServer::start("late_sse").await;
        let url = if transport == HttpTransport::Sse { &sse.url } else { &streaming.url };
        let config = HttpServer::new(url).with_transport(transport);
        let source = McpSource::connect("open", config).await.unwrap();
        let add = Arc::clone(source.tools(&ListContext::default()).await.unwrap().get("add").unwrap());
        let reports = Reports::default();
        let run = RunContext { progress: Some(Arc::new(reports.clone())), ..RunContext::default() };
        let cx = ToolContext::new(Arc::new(run), "call_1");
        let call = tokio::spawn(async move { add.invoke_with(json!({}), &cx).await.into_result() });
        wait_until(|| !reports.0.lock().unwrap().is_empty() || !sse.requests_of("tools/call").is_empty())
            .await;
        drop(source);
        let result = timeout(Duration::from_secs(5), call).await.unwrap().unwrap();
        assert_eq!(result.failure().unwrap().kind, FailureKind::Unconfirmed, "{result:?}");
    }
}

/// Drops a source of `config` while a call is suspended.
async fn drop_with_suspended_call(config: ServerConfig) {
    let tools = Toolset::new().with_source(McpSource::connect("open", config).await.unwrap());
    drop(suspend(&tools, &ToolCall::new("call_1", "book", "{}")).await);
}

/// Returns the number of running tasks in the runtime of the test. It includes the tasks of servers
/// in this process, which end when their connections are closed.
fn running_tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Sources over HTTP dropped with a call in progress, or with a suspended call, leave no task.
#[tokio::test]
async fn open_calls_over_http_leave_no_task() {
    let streaming = start_streaming_server().await;
    let before = running_tasks();
    drop_with_calls_in_progress(&streaming).await;
    drop_with_suspended_call(HttpServer::new(&streaming.url).into()).await;
    wait_until(|| running_tasks() <= before).await;
}

/// A suspended call leaves no task after its timeout, and its source stays usable.
#[tokio::test]
async fn expired_suspended_call_leaves_no_task() {
    let book = tool_fn("book", "Books a seat.", |_: Map<String, Value>| async {
        ToolResponse::Pending(Pending::new(PendingKind::input("Which seat?")))
    });
    let add = tool_fn("add", "Adds.", |_: Map<String, Value>| async { 42 });
    let options = ServerOptions::default().with_elicitation_timeout(Duration::from_millis(100));
    let own = InProcessServer::new(Toolset::new().with_tool(book).with_tool(add));
    let own = own.with_initialize().with_options(options);
    let tools = Toolset::new().with_source(McpSource::connect("own", own).await.unwrap());
    assert_eq!(tools.call("add", json!({})).await.model_text(), "42");
    let before = running_tasks();
    for _ in 0..3 {
        drop(suspend(&tools, &ToolCall::new("call_1", "book", "{}")).await);
    }
    assert!(running_tasks() > before, "the calls wait");
    wait_until(|| running_tasks() <= before).await;
    assert_eq!(tools.call("add", json!({})).await.model_text(), "42");
}

/// Calls waiting for space in the queue of a connection are sent in the order of their arrival.
#[tokio::test]
async fn queued_calls_are_sent_in_order() {
    let source = McpSource::connect("faulty", server("legacy")).await.unwrap();
    let tools = Toolset::new().with_source(source);
    let position = tools.get("position").await.unwrap();
    let mut calls: Vec<_> = (0..QUEUE_LENGTH + 10).map(|_| Box::pin(position.invoke(json!({})))).collect();
    // All calls arrive before the first one is sent.
    let arrival = async {
        for call in &mut calls {
            assert!(futures::poll!(call).is_pending());
        }
    };
    unconstrained(arrival).await;
    let results = timeout(Duration::from_secs(30), join_all(calls)).await.unwrap();
    let positions: Vec<usize> = results.iter().map(|it| it.model_text().parse().unwrap()).collect();
    assert!(positions.is_sorted(), "{positions:?}");
}

/// A model reads no hidden characters in the error of a result, of a task or of an elicitation.
#[tokio::test]
async fn no_error_has_hidden_characters() {
    let form = json!({"message": "Seat?", "requestedSchema": {"type": HIDDEN}});
    let question = json!({"method": "elicitation/create", "params": form});
    let fault = json!({"code": -32000, "message": HIDDEN});
    let working = json!({"status": "working"});
    let mut shown = Vec::new();
    for (returned, polled) in [
        (json!({"isError": true, "structuredContent": {"reason": HIDDEN}}), Value::Null),
        (json!({"resultType": "input_required", "inputRequests": {"key": question}}), Value::Null),
        (task("task", &working), fault),
        (task("task", &working), task("complete", &json!({"status": HIDDEN}))),
    ] {
        let tools = json!([{"name": "hide", "inputSchema": {"type": "object"}}]);
        let server = ScriptedServer::start("2026-07-28", tools, move |request| {
            vec![match request.method() {
                "tasks/get" if polled["code"].is_number() => error(request, polled.clone()),
                "tasks/get" => result(request, polled.clone()),
                _ => result(request, returned.clone()),
            }]
        })
        .await;
        let tools = server.connect(ServerOptions::default()).await;
        shown.push(tools.call("hide", json!({})).await.into_output().unwrap_err().message);
    }
    shown.retain(|text| text.contains(is_hidden));
    assert!(shown.is_empty(), "{shown:#?}");
}

/// The error and the log of a server that rejects the handshake have no hidden characters.
#[tokio::test]
async fn rejected_handshake_has_no_hidden_characters() {
    let (log, _guard) = Log::capture();
    let fault =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no\u202e licence\u001b[31m"}}"#;
    let script = format!("while read -r line; do printf '%s\\n' '{fault}'; done");
    let stdio = StdioServer::new("sh").with_args(["-c", &script]);
    let rejected = McpSource::connect("broken", stdio).await.unwrap_err().to_string();
    assert!(rejected.contains("licence"), "{rejected}");
    let text = log.text();
    let logged = text.lines().find(|line| line.starts_with("haft") && line.contains(is_hidden));
    assert!(!rejected.contains(is_hidden) && logged.is_none(), "{rejected:?} {logged:?}");
}

/// A line on the standard output of a server that is no message, and the cause of a failed call,
/// are logged without hidden characters.
#[tokio::test]
async fn log_has_no_hidden_characters() {
    let (log, _guard) = Log::capture();
    let stray = StdioServer::new("sh").with_args(["-c", r"printf 'a\342\200\256b\033[31m\n'; exit 3"]);
    McpSource::connect("broken", stray).await.unwrap_err();
    let server = start_hiding_server().await;
    let tools = server.connect(ServerOptions::default()).await;
    tools.call("hide", json!({"rejects": true})).await.into_output().unwrap_err();
    let text = log.text();
    let hidden: Vec<_> =
        text.lines().filter(|line| line.starts_with("haft") && line.contains(is_hidden)).collect();
    assert!(hidden.is_empty(), "{hidden:#?}");
}

/// The diagnostic of an invalid tool has no hidden characters.
#[tokio::test]
async fn diagnostics_have_no_hidden_characters() {
    let tools =
        json!([{"name": HIDDEN, "inputSchema": HIDDEN}, {"name": "a", "inputSchema": {"type": HIDDEN}}]);
    let server = ScriptedServer::start("2026-07-28", tools, |_| vec![]).await;
    let list = server.connect(ServerOptions::default()).await.list(&ListContext::default()).await;
    let mut shown: Vec<_> = list.diagnostics().iter().map(ToString::to_string).collect();
    assert_eq!(shown.len(), 2);
    shown.retain(|text| text.contains(is_hidden));
    assert!(shown.is_empty(), "{shown:#?}");
}

/// A source over standard input and output that is dropped with a suspended call leaves no task.
#[tokio::test]
async fn suspended_call_over_stdio_leaves_no_task() {
    let before = running_tasks();
    drop_with_suspended_call(server("elicits=2025-11-25").into()).await;
    wait_until(|| running_tasks() <= before).await;
}

/// A closed source releases its tools, its connection and the functions in its options.
#[tokio::test]
async fn closed_source_releases_its_options() {
    let add = tool_fn("add", "Adds.", |_: Map<String, Value>| async { 42 });
    let captured = Arc::new(());
    let owned = Arc::clone(&captured);
    let options = ServerOptions::default().with_request_metadata(move |_, _| {
        let _owned = &owned;
        Map::new()
    });
    let own = InProcessServer::new(Toolset::new().with_tool(add)).with_options(options);
    McpSource::connect("own", own).await.unwrap().close().await;
    wait_until(|| Arc::strong_count(&captured) == 1).await;
}

/// Two concurrent calls that need different further scopes succeed.
#[tokio::test]
async fn concurrent_calls_get_different_scopes() {
    let resource = Resource::start().await;
    let source = McpSource::connect("machine", resource.client(MACHINE.1)).await.unwrap();
    let tools = Toolset::new().with_source(source);
    for call in join_all([tools.call("read", json!({})), tools.call("write", json!({}))]).await {
        assert!(call.model_text().contains(MACHINE.0), "{call:?}");
    }
}

/// Calls, and the cancellation of a dropped call, are written in the order in which they were made,
/// also in a multi-threaded runtime.
#[tokio::test(flavor = "multi_thread")]
async fn cancellation_is_written_after_its_call() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    let StdioServer { command, args, .. } = server("legacy");
    let script = format!("tee {} | {command} {}", input.display(), args.join(" "));
    let recorded = StdioServer::new("sh").with_args(["-c", &script]);
    let tools = Toolset::new().with_source(McpSource::connect("recorded", recorded).await.unwrap());
    let position = tools.get("position").await.unwrap();
    for _ in 0..3000 {
        let _ = futures::poll!(Box::pin(position.invoke(json!({}))));
        tokio::task::yield_now().await;
    }
    tools.call("add", json!({"x": 1, "y": 2})).await;
    let text = fs::read_to_string(&input).unwrap();
    let messages: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut sent = Vec::new();
    for message in messages {
        if message["method"] == "notifications/cancelled" {
            let id = &message["params"]["requestId"];
            assert!(sent.contains(id), "the call {id} is cancelled before it is sent");
        }
        sent.push(message["id"].clone());
    }
}

/// A server that repeats the credentials of a request in an error response discloses them neither
/// in the error nor in the log.
#[tokio::test]
async fn repeated_credentials_are_redacted() {
    let (log, _guard) = Log::capture();
    for status in
        ["200 OK", "400 Bad Request", "401 Unauthorized", "403 Forbidden", "500 Internal Server Error"]
    {
        for form in ["text", "JSON", "events", "invalid events"] {
            let content_type = match form {
                "text" => "text/plain",
                "JSON" => "application/json",
                _ => "text/event-stream",
            };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let _server = tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read_request(&mut stream).await else { continue };
                    let text =
                        format!("invalid: {} {}", request.header("authorization"), request.header("x-key"));
                    let fault = json!({"code": -32600, "message": text, "data": [text]});
                    let message = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": fault});
                    // PHP escapes slashes in JSON.
                    let message = message.to_string().replace('/', "\\/");
                    let body = match form {
                        "text" => text,
                        "JSON" => message,
                        "events" => format!("data: {message}\n\n"),
                        _ => format!("data: {}\n\n", json!({ "error": text })),
                    };
                    let headers = format!("Content-Type: {content_type}\r\nConnection: close\r\n");
                    write(stream.get_mut(), status, &headers, &body).await;
                }
            });
            let [token, key] = ["token", "key"].map(|end| format!("{CANARY}/{end}"));
            let config = HttpServer::new(url).with_bearer_token(&token).with_header("X-Key", &key);
            let config =
                config.with_options(ServerOptions::default().with_handshake_timeout(Duration::from_secs(2)));
            let error = McpSource::connect("echo", config).await.unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(CANARY), "{status} {form}: {shown}");
            if form == "text" && status.starts_with("401") {
                assert!(shown.contains("haft mcp login"), "{shown}");
            }
        }
    }
    assert_no_canary("", &log);
}
