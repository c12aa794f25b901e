//! HTTP servers of the tests. Each server writes its responses directly to a socket, so that it can
//! reproduce the faults of real servers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_mcp::HttpServer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::sleep,
};

/// A request that a server received.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The method and the path: `POST /mcp`.
    pub(crate) line: String,
    /// The headers, with names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Returns the JSON-RPC method. Empty for a request without a body.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
}

/// A running server. Dropping it closes its socket and its connections.
pub(crate) struct WebServer {
    pub(crate) url: String,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

/// The state that the connections of a server share.
struct State {
    mode: Mutex<&'static str>,
    requests: Mutex<Vec<Request>>,
    sessions: AtomicUsize,
    calls: AtomicUsize,
    /// The number of requests for the stream of the session.
    streams: AtomicUsize,
    /// The number of `tools/list` requests.
    lists: AtomicUsize,
    /// The event stream of the mode `sse`.
    events: Mutex<Option<mpsc::UnboundedSender<String>>>,
    open_connections: AtomicUsize,
    /// The number of connections that were accepted.
    connections: AtomicUsize,
}

impl State {
    fn mode(&self) -> &'static str {
        *self.mode.lock().unwrap()
    }
}

impl WebServer {
    /// Starts a server on a free port of the loopback interface. `mode` selects its behaviour.
    ///
    /// | mode | behaviour |
    /// |---|---|
    /// | `modern` | revision 2026-07-28 with JSON responses |
    /// | `modern_sse` | the same with event streams and a progress notification |
    /// | `legacy` | revision 2025-11-25 with sessions and event streams |
    /// | `legacy_stateless` | revision 2025-11-25 without sessions, with JSON responses |
    /// | `legacy_error` | 2025-11-25; `server/discover` has status 400 with a JSON-RPC error |
    /// | `legacy_not_found` | 2025-11-25; `server/discover` has status 404 |
    /// | `legacy_listed` | 2025-11-25; `server/discover` lists this revision |
    /// | `legacy_rejects` | 2025-11-25; `server/discover` has the error -32022 with it |
    /// | `dual` | `modern`, but `server/discover` lists both revisions |
    /// | `future` | `modern`, but `server/discover` lists revision 2030-01-01 |
    /// | `future_rejects` | `server/discover` has the error -32022 with revision 2030-01-01 |
    /// | `ignores_discover` | `legacy`, but never responds to `server/discover` |
    /// | `empty_discover` | `legacy`, but responds to `server/discover` with an empty result |
    /// | `expiring` | `modern`, but its list lives for 1.2 s, and then has another tool |
    /// | `tasks` | `modern`, but with a task for each call |
    /// | `changing` | `legacy`, but adds a tool after the first list, and notifies the client |
    /// | `long_event` | `changing`, but the first stream has an event of 2 MB and no notification |
    /// | `expires` | `legacy`, but forgets its first session before the first call |
    /// | `resumes` | `legacy`, but cuts the stream of a call, and resumes it by `Last-Event-ID` |
    /// | `cut` | `modern_sse`, but cuts the stream of a call before the result |
    /// | `cut_event` | `cut`, after an event with an id |
    /// | `unauthorized` | responds with 401 to every request |
    /// | `cut_json`, `not_text`, `deep`, `wrong_id` | responds to calls with such JSON |
    /// | `cut_json_event`, … | the same as an event |
    /// | `busy` | responds with 429 to calls |
    /// | `broken` | responds with 500 and HTML to calls |
    /// | `redirects` | redirects calls to another origin |
    /// | `see_other` | redirects calls with status 303, after it has processed them |
    /// | `html` | responds with 200 and HTML to calls |
    /// | `too_long` | responds with a body of 2 MB to calls |
    /// | `silent` | never responds to calls |
    /// | `sse` | revision 2024-11-05: HTTP with SSE |
    /// | `foreign_sse` | the same, with a URL for messages at another origin |
    /// | `inexact_sse` | `sse`, with a number that cannot be held exactly in the result of a call |
    /// | `late_sse` | `sse`, but responds to a call only when it receives the next one |
    pub(crate) async fn start(mode: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let state = Arc::new(State {
            mode: Mutex::new(mode),
            requests: Mutex::default(),
            sessions: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            lists: AtomicUsize::new(0),
            events: Mutex::default(),
            open_connections: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&state);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&state);
                state.connections.fetch_add(1, Ordering::Relaxed);
                connections.spawn(async move {
                    state.open_connections.fetch_add(1, Ordering::Relaxed);
                    serve_connection(stream, &state).await;
                    state.open_connections.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { url, state: shared, _tasks: tasks }
    }

    /// Changes the behaviour, like an update of the server.
    pub(crate) fn set_mode(&self, mode: &'static str) {
        *self.state.mode.lock().unwrap() = mode;
    }

    /// Returns the number of connections that clients have opened so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn config(&self) -> HttpServer {
        HttpServer::new(&self.url)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Returns the requests with the JSON-RPC method `method`.
    pub(crate) fn requests_of(&self, method: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.method() == method).collect()
    }

    /// Returns the number of open connections, after waiting for their end.
    pub(crate) async fn remaining_connections(&self) -> usize {
        for _ in 0..100 {
            if self.state.open_connections.load(Ordering::Relaxed) == 0 {
                return 0;
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.state.open_connections.load(Ordering::Relaxed)
    }
}

async fn serve_connection(stream: TcpStream, state: &State) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        state.requests.lock().unwrap().push(request.clone());
        let is_kept = respond(stream.get_mut(), &request, state).await;
        if !is_kept {
            return;
        }
    }
}

pub(crate) async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut lines = lines.into_iter();
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned())))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8(body).unwrap();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(text.into()) };
    Some(Request { line, headers, body })
}

/// Writes the response to `request`. Returns `false` if the connection must be closed.
async fn respond(stream: &mut TcpStream, request: &Request, state: &State) -> bool {
    let mode = state.mode();
    if mode.ends_with("sse") && mode != "modern_sse" {
        return respond_over_sse(stream, request, state).await;
    }
    let is_modern = !matches!(
        mode,
        "legacy"
            | "legacy_stateless"
            | "legacy_error"
            | "legacy_not_found"
            | "legacy_listed"
            | "legacy_rejects"
            | "ignores_discover"
            | "empty_discover"
            | "changing"
            | "long_event"
            | "expires"
            | "resumes"
    );
    let (id, method) = (&request.body["id"], request.method());
    let has_session = !mode.starts_with("legacy_") && !is_modern;
    if mode == "unauthorized" {
        let challenge = "WWW-Authenticate: Bearer resource_metadata=\"http://localhost/meta\"\r\n";
        return write(stream, "401 Unauthorized", challenge, "").await;
    }
    if request.line.starts_with("GET") {
        return match request.headers.get("last-event-id") {
            Some(last) if mode == "resumes" => {
                let event =
                    format!("id: {last}-2\ndata: {}\n\n", result(&json!(last_call(state)), "resumed"));
                write_stream(stream, &event).await
            }
            None if mode == "long_event" && state.streams.fetch_add(1, Ordering::Relaxed) == 0 => {
                let long = json!({"jsonrpc": "2.0", "method": "x".repeat(2 << 20)});
                write_stream(stream, &format!("id: 7\nretry: 10\ndata:\n\ndata: {long}\n\n")).await
            }
            _ if matches!(mode, "changing" | "long_event") => {
                // The notification follows the first list.
                while state.lists.load(Ordering::Relaxed) == 0 {
                    sleep(Duration::from_millis(5)).await;
                }
                let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                write_chunk(stream, &format!("data: {changed}\n\n")).await;
                let _ = stream.readable().await;
                false
            }
            _ => write(stream, "405 Method Not Allowed", "", "").await,
        };
    }
    if request.line.starts_with("DELETE") {
        return write(stream, "200 OK", "", "").await;
    }
    let session = state.sessions.load(Ordering::Relaxed);
    let is_expired = mode == "expires" && method == "tools/call" && session == 1;
    if has_session && !matches!(method, "initialize" | "server/discover") {
        let expected = format!("session-{session}");
        if request.header("mcp-session-id") != expected || is_expired {
            return write(stream, "404 Not Found", "", "").await;
        }
    }
    match method {
        "server/discover" if mode == "ignores_discover" => {
            sleep(Duration::from_secs(60)).await;
            false
        }
        "server/discover" if mode == "empty_discover" => {
            write_json(stream, &json!({"jsonrpc": "2.0", "id": id, "result": {}})).await
        }
        "server/discover" if mode == "legacy_not_found" => write(stream, "404 Not Found", "", "").await,
        "server/discover" if mode == "legacy_error" => {
            let error = json!({"code": -32600, "message": "not initialized"});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            write(stream, "400 Bad Request", "Content-Type: application/json\r\n", &body).await
        }
        "server/discover" if mode.ends_with("_rejects") => {
            let version = if mode == "legacy_rejects" { "2025-11-25" } else { "2030-01-01" };
            let data = json!({"supported": [version], "requested": "2026-07-28"});
            let error = json!({"code": -32022, "message": "unsupported version", "data": data});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            write(stream, "400 Bad Request", "Content-Type: application/json\r\n", &body).await
        }
        "server/discover" if is_modern || mode == "legacy_listed" => {
            let versions = match mode {
                "legacy_listed" => json!(["2025-11-25"]),
                "dual" => json!(["2025-11-25", "2026-07-28"]),
                "future" => json!(["2030-01-01"]),
                _ => json!(["2026-07-28"]),
            };
            let result = json!({
                "resultType": "complete", "supportedVersions": versions,
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "web", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
            });
            write_json(stream, &json!({"jsonrpc": "2.0", "id": id, "result": result})).await
        }
        "server/discover" => write(stream, "400 Bad Request", "", "no session").await,
        "initialize" if is_modern => write(stream, "400 Bad Request", "", "").await,
        "initialize" => {
            let result = json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "web", "version": "1"},
            });
            let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
            let session = state.sessions.fetch_add(1, Ordering::Relaxed) + 1;
            let header =
                if has_session { format!("Mcp-Session-Id: session-{session}\r\n") } else { String::new() };
            let headers = format!("Content-Type: application/json\r\n{header}");
            write(stream, "200 OK", &headers, &body).await
        }
        "tools/list" => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            let mut tools = vec![tool("add"), tool("echo")];
            let is_first = state.lists.fetch_add(1, Ordering::Relaxed) == 0;
            if !is_first && matches!(mode, "changing" | "expiring" | "long_event") {
                tools.push(tool("new"));
            }
            let ttl = if mode == "expiring" { 1200 } else { 0 };
            let result = json!({"tools": tools, "ttlMs": ttl, "cacheScope": "private"});
            write_json(stream, &json!({"jsonrpc": "2.0", "id": id, "result": result})).await
        }
        "tools/call" | "tasks/get" if mode == "tasks" => {
            let mut state = json!({
                "resultType": if method == "tools/call" { "task" } else { "complete" }, "taskId": "task-1",
                "status": "working", "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
                "ttlMs": null, "pollIntervalMs": 1,
            });
            if method == "tasks/get" {
                state["status"] = json!("completed");
                state["result"] = json!({"content": [{"type": "text", "text": "42"}]});
            }
            write_json(stream, &json!({"jsonrpc": "2.0", "id": id, "result": state})).await
        }
        "resources/read" => {
            let uri = &request.body["params"]["uri"];
            let contents = json!([{"uri": uri, "mimeType": "image/png", "blob": "AAEC"}]);
            let result = json!({"contents": contents, "ttlMs": 0, "cacheScope": "private"});
            write_json(stream, &json!({"jsonrpc": "2.0", "id": id, "result": result})).await
        }
        "tools/call" => {
            state.calls.store(usize::try_from(id.as_u64().unwrap_or_default()).unwrap(), Ordering::Relaxed);
            respond_to_call(stream, request, mode).await
        }
        _ => write(stream, "202 Accepted", "", "").await,
    }
}

/// Responds in the modes `sse`, `foreign_sse`, `inexact_sse` and `late_sse`.
async fn respond_over_sse(stream: &mut TcpStream, request: &Request, state: &State) -> bool {
    let id = &request.body["id"];
    let send = |message: &Value| {
        let events = state.events.lock().unwrap();
        events.as_ref().unwrap().send(message.to_string()).unwrap();
    };
    let response = match (&*request.line, request.method()) {
        ("GET /mcp", _) => {
            let (sender, mut events) = mpsc::unbounded_channel();
            *state.events.lock().unwrap() = Some(sender);
            let origin = if state.mode() == "foreign_sse" { "http://localhost:1" } else { "" };
            let endpoint = format!("event: endpoint\ndata: {origin}/messages?session=1\n\n");
            let mut is_open = write_chunk(stream, &endpoint).await;
            while is_open {
                // Nothing is read from the connection except its end.
                let event = tokio::select! {
                    event = events.recv() => event,
                    _ = stream.readable() => None,
                };
                let Some(event) = event else { break };
                let event = format!("event: message\ndata: {event}\n\n");
                let chunk = format!("{:x}\r\n{event}\r\n", event.len());
                is_open = stream.write_all(chunk.as_bytes()).await.is_ok();
            }
            return false;
        }
        ("POST /messages?session=1", "initialize") => json!({"jsonrpc": "2.0", "id": id, "result": {
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        }}),
        ("POST /messages?session=1", "tools/list") => json!({"jsonrpc": "2.0", "id": id, "result": {
            "tools": [{"name": "add", "inputSchema": {"type": "object"}}],
        }}),
        ("POST /messages?session=1", "tools/call") if state.mode() == "late_sse" => {
            let call = usize::try_from(id.as_u64().unwrap()).unwrap();
            match state.calls.swap(call, Ordering::Relaxed) {
                0 => return write(stream, "202 Accepted", "", "Accepted").await,
                previous => send(&result(&json!(previous), "late")),
            }
            result(id, "in time")
        }
        ("POST /messages?session=1", "tools/call") if state.mode() == "inexact_sse" => {
            let result = r#"{"content":[{"type":"text","text":"42"}],"structuredContent":{"x":1e400}}"#;
            let events = state.events.lock().unwrap().clone().unwrap();
            events.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).unwrap();
            return write(stream, "202 Accepted", "", "Accepted").await;
        }
        ("POST /messages?session=1", "tools/call") => result(id, "42"),
        ("POST /messages?session=1", _) => return write(stream, "202 Accepted", "", "Accepted").await,
        _ => return write(stream, "405 Method Not Allowed", "", "").await,
    };
    send(&response);
    write(stream, "202 Accepted", "", "Accepted").await
}

async fn respond_to_call(stream: &mut TcpStream, request: &Request, mode: &str) -> bool {
    let id = &request.body["id"];
    let arguments = &request.body["params"]["arguments"];
    let response = match request.body["params"]["name"].as_str() {
        Some("add") => {
            let sum =
                arguments["x"].as_i64().unwrap_or_default() + arguments["y"].as_i64().unwrap_or_default();
            result(id, &sum.to_string())
        }
        _ => json!({"jsonrpc": "2.0", "id": id, "result": arguments}),
    };
    let html = "Content-Type: text/html\r\n";
    if let Some(body) = faulty_body(mode.trim_end_matches("_event"), id) {
        let (media_type, body) = match mode.ends_with("_event") {
            true => ("text/event-stream", [b"data: ", &*body, b"\n\n"].concat()),
            false => ("application/json", body),
        };
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n");
        return stream.write_all(&[head.as_bytes(), &body].concat()).await.is_ok();
    }
    match mode {
        "busy" => write(stream, "429 Too Many Requests", "Retry-After: 7\r\n", "").await,
        "broken" => write(stream, "500 Internal Server Error", html, "<h1>Oops</h1>").await,
        "see_other" => write(stream, "303 See Other", "Location: /mcp\r\n", "").await,
        "redirects" => {
            write(stream, "307 Temporary Redirect", "Location: http://localhost:1/mcp\r\n", "").await
        }
        "html" => write(stream, "200 OK", html, "<h1>Welcome</h1>").await,
        "too_long" => write_json(stream, &result(id, &"x".repeat(2 << 20))).await,
        "silent" => {
            sleep(Duration::from_secs(60)).await;
            false
        }
        "cut" | "cut_event" | "resumes" => {
            let event = "id: 1\nretry: 10\ndata:\n\n";
            let event = if mode == "cut" { ": begins\n\n" } else { event };
            write_chunk(stream, event).await;
            false
        }
        "modern_sse" | "legacy" | "expires" | "ignores_discover" => {
            let token = &request.body["params"]["_meta"]["progressToken"];
            let mut events = String::new();
            for step in 1..=3 {
                let params = json!({"progressToken": token, "progress": step, "total": 3});
                let report = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                events += &format!("data: {report}\n\n");
            }
            write_stream(stream, &format!("{events}data: {response}\n\n")).await
        }
        _ => write_json(stream, &response).await,
    }
}

fn last_call(state: &State) -> usize {
    state.calls.load(Ordering::Relaxed)
}

fn result(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

/// Returns the response of `mode` to the request `id`, if it is an invalid response.
fn faulty_body(mode: &str, id: &Value) -> Option<Vec<u8>> {
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
    match mode {
        "cut_json" => Some(start.into_bytes()),
        "not_text" => Some([start.as_bytes(), b"\xff\xfe\"}]}}"].concat()),
        "deep" => {
            let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
            Some(
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"_meta":{deep}}}}}"#)
                    .into_bytes(),
            )
        }
        "wrong_id" => Some(result(&json!(999), "wrong").to_string().into_bytes()),
        _ => None,
    }
}

async fn write_json(stream: &mut TcpStream, body: &Value) -> bool {
    write(stream, "200 OK", "Content-Type: application/json\r\n", &body.to_string()).await
}

/// Writes a complete event stream.
async fn write_stream(stream: &mut TcpStream, events: &str) -> bool {
    write_chunk(stream, events).await && stream.write_all(b"0\r\n\r\n").await.is_ok()
}

/// Writes the beginning of an event stream.
async fn write_chunk(stream: &mut TcpStream, events: &str) -> bool {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let text = format!("{head}{:x}\r\n{events}\r\n", events.len());
    stream.write_all(text.as_bytes()).await.is_ok()
}

pub(crate) async fn write(stream: &mut TcpStream, status: &str, headers: &str, body: &str) -> bool {
    let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.is_ok()
}
