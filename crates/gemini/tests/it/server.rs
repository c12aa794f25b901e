//! A scripted model server on a raw socket. Unlike mock HTTP libraries, it can truncate a reply,
//! stall, and reset the connection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel, Message, Schema, ToolDefinition, ToolName,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError},
    tool::DynamicTool,
    toolset::ToolList,
};
use haft_gemini::{Api, Gemini, GeminiBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A step of a [`Server`]'s script. The server runs the steps in order after it has read a request.
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Waits for the given time without sending anything.
    Pause(Duration),
    /// Stops sending, but keeps the connection open. The rest of the script is skipped.
    Stall,
    /// Resets the connection (TCP RST), like a crashing process.
    Reset,
}

pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
    pub(crate) text: String,
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server. It runs the first script of `scripts` on the first connection, the second
    /// script on the second connection, and so on.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let scripts: Vec<_> = scripts.into_iter().collect();
        let task = tokio::spawn(serve(listener, scripts, requests.clone()));
        Self { base_url, requests, task }
    }

    /// Starts a server that sends one reply per connection, in the order of `replies`.
    pub(crate) async fn with_replies(replies: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::start(replies.into_iter().map(|reply| vec![Step::Send(reply)])).await
    }

    /// Returns a builder for a Gemini 3 model at this server.
    pub(crate) fn builder(&self, api: Api) -> GeminiBuilder {
        self.named(api, "gemini-3-flash")
    }

    pub(crate) fn named(&self, api: Api, name: &str) -> GeminiBuilder {
        Gemini::builder(name)
            .api(api)
            .base_url(&self.base_url)
            .api_key("test-key-1234")
            .first_retry_wait(Duration::from_millis(1))
    }

    pub(crate) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, scripts: Vec<Vec<Step>>, requests: Arc<Mutex<Vec<Request>>>) {
    let mut open = Vec::new();
    for script in scripts {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = read_request(&mut socket).await.expect("the client closed before its request ended");
        requests.lock().unwrap().push(request);
        for step in script {
            match step {
                Step::Send(bytes) => {
                    // The write fails if the client has already closed the connection. The error is
                    // ignored, because a test that needs the reply fails without it.
                    let _ = socket.write_all(&bytes).await;
                }
                Step::Pause(time) => tokio::time::sleep(time).await,
                Step::Stall => {
                    open.push(socket);
                    break;
                }
                Step::Reset => {
                    socket.set_zero_linger().unwrap();
                    break;
                }
            }
        }
    }
    // Further connections are refused. Stalled connections stay open until the server is dropped.
    drop(listener);
    std::future::pending::<()>().await;
    drop(open);
}

/// Reads the next HTTP request from `socket`. Returns `None` if the client has closed the
/// connection.
async fn read_request(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                let json = serde_json::from_str(body).unwrap();
                return Some(Request { head: head.to_owned(), body: json, text: body.to_owned() });
            }
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value.trim()))
}

/// Returns an HTTP response with `content-length` and `connection: close`.
pub(crate) fn reply(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}")
        .into()
}

pub(crate) fn ok_reply(body: &Value) -> Vec<u8> {
    reply("200 OK", "content-type: application/json\r\n", &serde_json::to_string_pretty(body).unwrap())
}

/// The head of a stream that ends when the connection is closed.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Returns a stream of the given events.
pub(crate) fn stream_reply<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<u8> {
    (STREAM.to_owned() + &events_text(events)).into()
}

/// Returns the given events as server-sent events, with CRLF as Google sends them.
pub(crate) fn events_text<'a>(events: impl IntoIterator<Item = &'a Value>) -> String {
    events.into_iter().map(|event| format!("data: {event}\r\n\r\n")).collect()
}

/// Returns a reply of `generateContent` with `parts` and the finish reason `STOP`.
pub(crate) fn content(parts: Value) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        "modelVersion": "gemini-3-flash-001",
        "responseId": "r1",
    })
}

/// Returns a completed interaction with `steps`.
pub(crate) fn interaction(steps: Value) -> Value {
    let usage = json!({"total_input_tokens": 3, "total_output_tokens": 2, "total_tokens": 5});
    json!({"id": "r1", "status": "completed", "model": "gemini-3-flash-001", "steps": steps, "usage": usage})
}

/// Returns the smallest valid reply of `api`, with the text `Hi`.
pub(crate) fn minimal_reply(api: Api) -> Vec<u8> {
    ok_reply(&match api {
        Api::GenerateContent => content(json!([{"text": "Hi"}])),
        _ => interaction(json!([{"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}])),
    })
}

pub(crate) fn hello() -> ChatRequest {
    ChatRequest::new([Message::user("Hello")])
}

pub(crate) fn tool(name: &str, schema: Value) -> DynamicTool {
    let definition =
        ToolDefinition::new(ToolName::new(name).unwrap(), Schema::for_arguments(schema).unwrap());
    DynamicTool::new(definition.with_description(format!("Runs {name}.")), |_, _| async { "ok" })
}

/// Returns the tools `add`, with two parameters, and `3d_ping`, without parameters.
pub(crate) fn tools() -> ToolList {
    let number = json!({"type": "integer"});
    let add = json!({"properties": {"x": number, "y": number}, "required": ["x", "y"]});
    ToolList::new("test", [tool("add", add), tool("3d_ping", json!({}))])
}

/// Sends `request` to a server that replies with `body`, a JSON body, and returns the reply.
pub(crate) async fn chat_with(api: Api, body: &Value) -> Result<ChatResponse, ModelError> {
    let server = Server::with_replies([ok_reply(body)]).await;
    server.builder(api).max_retries(0).build().unwrap().chat(&hello()).await
}

/// Streams the reply of a server that sends `bytes`. Returns the events, and the error at the end.
pub(crate) async fn stream_bytes(api: Api, bytes: Vec<u8>) -> (Vec<ChatEvent>, Option<ModelError>) {
    let server = Server::with_replies([bytes]).await;
    let model = server.builder(api).max_retries(0).build().unwrap();
    let request = hello();
    let mut stream = model.stream(&request);
    let mut events = Vec::new();
    loop {
        match stream.try_next().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => return (events, Some(error)),
        }
    }
}

/// Streams `events` and returns the events of the reply.
pub(crate) async fn stream_with(api: Api, events: &[Value]) -> Vec<ChatEvent> {
    let (events, error) = stream_bytes(api, stream_reply(events)).await;
    assert!(error.is_none(), "{error:?}");
    events
}

/// Returns the complete reply in the last event.
pub(crate) fn finished(events: &[ChatEvent]) -> &ChatResponse {
    let Some(ChatEvent::Finished(response)) = events.last() else { panic!("{events:?}") };
    response
}

/// Sends `request` to a model that `configure` builds, and returns its body.
pub(crate) async fn body_of(
    api: Api,
    request: &ChatRequest,
    configure: impl FnOnce(GeminiBuilder) -> GeminiBuilder,
) -> Value {
    let server = Server::with_replies([minimal_reply(api)]).await;
    configure(server.builder(api)).build().unwrap().chat(request).await.unwrap();
    server.take_requests().remove(0).body
}
