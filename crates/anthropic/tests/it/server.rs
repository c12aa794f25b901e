//! A scripted server on a raw socket, which can cut, stall and divide a reply.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::TryStreamExt as _;
use haft_anthropic::{Messages, MessagesBuilder};
use haft_core::{
    ChatModel as _, Message, Schema, ToolDefinition, ToolName,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError},
    tool::DynamicTool,
    toolset::ToolList,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A step of a script. The server runs the steps in order after it has read a request, and then
/// closes the connection.
#[derive(Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Stops sending, but keeps the connection open.
    Stall,
}

pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Value,
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server that runs one script per connection.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let scripts: Vec<_> = scripts.into_iter().collect();
        let task = tokio::spawn(serve(listener, scripts, requests.clone()));
        Self { base_url, requests, task }
    }

    /// Starts a server that sends one reply per connection.
    pub(crate) async fn with_replies(replies: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::start(replies.into_iter().map(|reply| vec![Step::Send(reply)])).await
    }

    pub(crate) fn builder(&self, model: &str) -> MessagesBuilder {
        Messages::builder(model)
            .base_url(&self.base_url)
            .api_key("sk-ant-secret")
            .first_retry_wait(Duration::from_millis(1))
    }

    pub(crate) fn model(&self) -> Messages {
        self.builder("claude-opus-5-5").build().unwrap()
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
                // The write fails if the client has closed the connection.
                Step::Send(bytes) => drop(socket.write_all(&bytes).await),
                Step::Stall => {
                    open.push(socket);
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

async fn read_request(socket: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                let body = serde_json::from_str(body).unwrap_or_default();
                return Some(Request { head: head.to_owned(), body });
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
    reply("200 OK", "content-type: application/json\r\n", &body.to_string())
}

/// The head of a stream that ends when the connection is closed.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Returns a stream of `events`.
pub(crate) fn stream_reply<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<u8> {
    let events =
        events.into_iter().map(|event| format!("event: {}\ndata: {event}\n\n", text(&event["type"])));
    (STREAM.to_owned() + &events.collect::<String>()).into()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a whole reply with the content `blocks`.
pub(crate) fn message(blocks: Value, stop_reason: &str) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5-x", "content": blocks,
        "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 5},
    })
}

/// Returns the events of a stream for `message`, a whole reply. Texts arrive in pieces.
pub(crate) fn events_of(message: &Value) -> Vec<Value> {
    let mut start = message.clone();
    for (key, value) in [("content", json!([])), ("stop_reason", Value::Null), ("stop_details", Value::Null)]
    {
        start[key] = value;
    }
    if start["usage"].is_object() {
        start["usage"]["output_tokens"] = json!(1);
    }
    let mut events = vec![json!({"type": "message_start", "message": start}), json!({"type": "ping"})];
    for (index, block) in message["content"].as_array().unwrap().iter().enumerate() {
        let (start, deltas) = block_events(block);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({
        "stop_reason": message["stop_reason"], "stop_sequence": null, "stop_details": message["stop_details"],
    });
    events.push(json!({"type": "message_delta", "delta": delta, "usage": message["usage"]}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn block_events(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let pieces = |text: &str| {
        let middle = (text.len() / 2..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap();
        let (first, second) = text.split_at(middle);
        [first.to_owned(), second.to_owned()]
    };
    match text(&block["type"]) {
        "text" => {
            start["text"] = json!("");
            start.as_object_mut().unwrap().remove("citations");
            let texts = pieces(text(&block["text"])).map(|text| json!({"type": "text_delta", "text": text}));
            let citations = block["citations"].as_array().into_iter().flatten();
            let citations =
                citations.map(|citation| json!({"type": "citations_delta", "citation": citation}));
            (start, citations.chain(texts).collect())
        }
        "thinking" => {
            (start["thinking"], start["signature"]) = (json!(""), json!(""));
            let pieces = pieces(text(&block["thinking"]));
            let pieces = pieces.map(|text| json!({"type": "thinking_delta", "thinking": text}));
            let signature = json!({"type": "signature_delta", "signature": block["signature"]});
            (start, pieces.into_iter().chain([signature]).collect())
        }
        "tool_use" | "server_tool_use" => {
            start["input"] = json!({});
            let input = block["input"].to_string();
            let input = if input == "{}" { String::new() } else { input };
            let pieces = pieces(&input).map(|text| json!({"type": "input_json_delta", "partial_json": text}));
            (start, pieces.into())
        }
        _ => (start, Vec::new()),
    }
}

pub(crate) fn hello() -> ChatRequest {
    ChatRequest::new([Message::user("Hello")])
}

pub(crate) fn tool(name: &str, schema: Value) -> DynamicTool {
    let definition =
        ToolDefinition::new(ToolName::new(name).unwrap(), Schema::for_arguments(schema).unwrap());
    DynamicTool::new(definition.with_description("A tool."), |_, _| async {})
}

pub(crate) fn tools(names: impl IntoIterator<Item = String>) -> ToolList {
    let schema = json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]});
    ToolList::new("test", names.into_iter().map(|name| tool(&name, schema.clone())).collect::<Vec<_>>())
}

/// Sends `request` with the settings of `build`, and returns the body.
pub(crate) async fn sent(
    model: &str,
    build: impl Fn(MessagesBuilder) -> MessagesBuilder,
    request: &ChatRequest,
) -> Value {
    let reply = ok_reply(&message(json!([{"type": "text", "text": "Hi"}]), "end_turn"));
    let server = Server::with_replies([reply]).await;
    build(server.builder(model)).build().unwrap().chat(request).await.unwrap();
    server.take_requests().remove(0).body
}

/// Gets the reply for `body` whole and in a stream, checks that both are equal, and returns it with
/// the events.
pub(crate) async fn decode(body: &Value) -> Result<(ChatResponse, Vec<ChatEvent>), ModelError> {
    decode_for(body, &hello()).await
}

pub(crate) async fn decode_for(
    body: &Value,
    request: &ChatRequest,
) -> Result<(ChatResponse, Vec<ChatEvent>), ModelError> {
    let server = Server::with_replies([ok_reply(body), stream_reply(&events_of(body))]).await;
    let model = server.builder("claude-opus-5-5").max_retries(0).build().unwrap();
    let whole = model.chat(request).await;
    let events: Result<Vec<_>, _> = model.stream(request).try_collect().await;
    match (whole, events) {
        (Ok(whole), Ok(events)) => {
            let Some(ChatEvent::Finished(streamed)) = events.last() else { panic!("{events:?}") };
            assert_eq!(**streamed, whole);
            check_deltas(&events, &whole);
            Ok((whole, events))
        }
        (Err(whole), Err(streamed)) => {
            assert_eq!(whole.to_string(), streamed.to_string());
            Err(whole)
        }
        (whole, streamed) => panic!("{whole:?}\n{streamed:?}"),
    }
}

/// Checks that the deltas are the text and the reasoning of the reply.
pub(crate) fn check_deltas(events: &[ChatEvent], reply: &ChatResponse) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    for event in events {
        match event {
            ChatEvent::TextDelta { text: delta } => text.push_str(delta),
            ChatEvent::ReasoningDelta { text: delta } => reasoning.push_str(delta),
            _ => {}
        }
    }
    assert_eq!(text, reply.message.text());
    assert_eq!(reasoning, reply.message.reasoning.clone().unwrap_or_default());
}

pub(crate) fn pretty<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap()
}
