use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

/// A scripted model server on the loopback interface, with the Chat Completions API.
///
/// A reply is streamed if the HTTP request contains `stream: true`. Each chunk of the stream
/// contains one character of the text or of the arguments.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A scripted reply to one HTTP request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// A text answer.
    Text(&'static str),
    /// A reply with tool calls. Each call is a tuple of its id, the tool name, and the arguments as
    /// JSON text.
    Calls(Vec<(&'static str, &'static str, &'static str)>),
    /// An error response with this HTTP status code and body.
    Status(u16, &'static str),
    /// No response. The connection stays open until the client closes it.
    Silence,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    request_received: Condvar,
}

#[derive(Default)]
struct State {
    replies: Vec<Reply>,
    requests: Vec<Request>,
    is_closed: bool,
}

struct Request {
    head: String,
    body: Value,
}

impl ModelServer {
    /// Starts a server that sends `replies` in order. When all of them were sent, each HTTP request
    /// receives status 500.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub fn start(replies: impl IntoIterator<Item = Reply>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        shared.lock().replies = replies.into_iter().collect();
        let thread = thread::spawn({
            let shared = Arc::clone(&shared);
            move || serve(&listener, &shared)
        });
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Returns the base URL of the API.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the JSON bodies of the HTTP requests received so far.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.lock().requests.iter().map(|request| request.body.clone()).collect()
    }

    /// Returns the request line and the headers of each HTTP request received so far. Letters are
    /// in lower case.
    pub fn request_heads(&self) -> Vec<String> {
        self.shared.lock().requests.iter().map(|request| request.head.clone()).collect()
    }

    /// Blocks until the server has received an HTTP request. Returns immediately if it has already
    /// received one.
    pub fn wait_for_request(&self) {
        let state = self.shared.lock();
        drop(self.shared.request_received.wait_while(state, |state| state.requests.is_empty()));
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        // Open a connection, because the accept loop reads `is_closed` only after it has accepted a
        // connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records `request` and returns its reply: the first request receives the first reply of the
    /// script, and so on.
    fn answer(&self, request: Request) -> Reply {
        let mut state = self.lock();
        let reply = state.replies.get(state.requests.len()).cloned();
        state.requests.push(request);
        self.request_received.notify_all();
        reply.unwrap_or(Reply::Status(500, "the test has no reply for this request"))
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.lock().is_closed {
            return;
        }
        let shared = Arc::clone(shared);
        // An I/O error on a connection ends only the thread of that connection.
        thread::spawn(move || converse(&stream, &shared));
    }
}

fn converse(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let request = read_request(stream)?;
    let is_streamed = request.body["stream"] == true;
    match shared.answer(request) {
        Reply::Silence => io::copy(&mut stream, &mut io::sink()).map(drop),
        Reply::Status(status, body) => write_response(stream, status, "application/json", body),
        reply if is_streamed => write_response(stream, 200, "text/event-stream", &event_stream(&reply)),
        reply => write_response(stream, 200, "application/json", &completion_json(&reply).to_string()),
    }
}

fn read_request(stream: &TcpStream) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    head.make_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Request { head, body: serde_json::from_slice(&body)? })
}

fn write_response(mut stream: &TcpStream, status: u16, media_type: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Status\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn completion_json(reply: &Reply) -> Value {
    let (message, finish_reason) = match reply {
        Reply::Calls(calls) => {
            let calls: Vec<_> = calls
                .iter()
                .map(|(id, name, arguments)| {
                    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
                })
                .collect();
            (json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
        }
        other => (json!({ "role": "assistant", "content": text_of(other) }), "stop"),
    };
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
    })
}

fn text_of(reply: &Reply) -> &'static str {
    match reply {
        Reply::Text(text) => text,
        _ => "",
    }
}

fn event_stream(reply: &Reply) -> String {
    let mut deltas = vec![json!({ "role": "assistant" })];
    deltas.extend(text_of(reply).chars().map(|piece| json!({ "content": piece.to_string() })));
    let mut finish_reason = "stop";
    if let Reply::Calls(calls) = reply {
        finish_reason = "tool_calls";
        for (index, (id, name, arguments)) in calls.iter().enumerate() {
            let begin = json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": "" } });
            deltas.push(json!({ "tool_calls": [begin] }));
            deltas.extend(arguments.chars().map(|piece| {
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece.to_string() } }] })
            }));
        }
    }
    let mut events: Vec<_> = deltas.into_iter().map(|delta| chunk(&delta, None)).collect();
    events.push(chunk(&json!({}), Some(finish_reason)));
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    events.push(json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": [], "usage": usage }));
    let lines: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    lines + "data: [DONE]\n\n"
}

fn chunk(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }],
    })
}

impl std::fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelServer").field("address", &self.address).finish_non_exhaustive()
    }
}
