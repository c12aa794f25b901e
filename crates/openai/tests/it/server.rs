//! A scripted model server on a raw socket. Unlike mock HTTP libraries, it can truncate a reply,
//! stall, and reset the connection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_core::{ChatModel, Message, model::ChatRequest};
use haft_openai::{ChatCompletions, ChatCompletionsBuilder, Responses, ResponsesBuilder};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
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
    /// Sends the bytes repeatedly until the client closes the connection, with the given pause
    /// after each write.
    Drip(&'static [u8], Duration),
    /// Sends the bytes repeatedly until a write blocks for 0.5 s, or until 64 MiB are sent. Reports
    /// the number of sent bytes through the channel.
    Flood(Vec<u8>, oneshot::Sender<usize>),
    /// Waits until the client closes the connection, and then sends a notification through the
    /// channel.
    Closed(oneshot::Sender<()>),
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
    /// Starts a server. It runs the first script of `scripts` on the first connection, the second
    /// script on the second connection, and so on.
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Vec<Step>>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // Limit the send buffer, so that the amount of sent data shows how much the client has
        // read.
        socket.set_send_buffer_size(64 << 10).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(64).unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let scripts: Vec<_> = scripts.into_iter().collect();
        let task = tokio::spawn(serve(listener, scripts, requests.clone()));
        Self { base_url, requests, task }
    }

    /// Starts a server that sends one reply per connection, in the order of `replies`.
    pub(crate) async fn with_replies(replies: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::start(replies.into_iter().map(|reply| vec![Step::Send(reply)])).await
    }

    pub(crate) fn builder(&self) -> ChatCompletionsBuilder {
        ChatCompletions::builder("test-model")
            .base_url(&self.base_url)
            .first_retry_wait(Duration::from_millis(1))
    }

    pub(crate) fn responses(&self) -> ResponsesBuilder {
        Responses::builder("test-model").base_url(&self.base_url).first_retry_wait(Duration::from_millis(1))
    }

    pub(crate) fn model(&self) -> impl ChatModel + use<> {
        self.builder().build().unwrap()
    }

    /// Returns the body of the request with the given index.
    pub(crate) fn body(&self, index: usize) -> Value {
        self.requests.lock().unwrap()[index].body.clone()
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
                Step::Drip(bytes, pause) => {
                    while socket.write_all(bytes).await.is_ok() {
                        tokio::time::sleep(pause).await;
                    }
                }
                Step::Flood(bytes, sender) => {
                    let _ = sender.send(flood(&mut socket, &bytes).await);
                }
                Step::Reset => {
                    socket.set_zero_linger().unwrap();
                    break;
                }
                Step::Closed(sender) => {
                    let _ = socket.read(&mut [0]).await;
                    let _ = sender.send(());
                    break;
                }
            }
        }
    }
    // Drop the listener, so that further connections are refused. Stalled connections stay open
    // until the server is dropped.
    drop(listener);
    std::future::pending::<()>().await;
    drop(open);
}

async fn flood(socket: &mut TcpStream, bytes: &[u8]) -> usize {
    let mut sent = 0;
    while sent < 64 << 20 {
        let mut rest = bytes;
        while let Ok(Ok(length)) = timeout(Duration::from_millis(500), socket.write(rest)).await {
            sent += length;
            rest = &rest[length..];
            if rest.is_empty() {
                break;
            }
        }
        if !rest.is_empty() {
            break;
        }
    }
    sent
}

/// Reads the next HTTP request from `socket`. Returns `None` if the client has closed the
/// connection.
pub(crate) async fn read_request(socket: &mut TcpStream) -> Option<Request> {
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

/// Returns the smallest valid Chat Completions reply.
pub(crate) fn minimal_reply() -> Vec<u8> {
    ok_reply(&json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}))
}

/// The head of a stream that ends when the connection is closed.
pub(crate) const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Returns a stream of the given chunks, without `[DONE]`.
pub(crate) fn chunks_reply<'a>(chunks: impl IntoIterator<Item = &'a Value>) -> Vec<u8> {
    let events = chunks.into_iter().map(|chunk| format!("data: {chunk}\n\n"));
    (STREAM.to_owned() + &events.collect::<String>()).into()
}

/// Returns a stream of the given chunks, followed by `[DONE]`.
pub(crate) fn stream_reply<'a>(list: impl IntoIterator<Item = &'a Value>) -> Vec<u8> {
    let mut bytes = chunks_reply(list);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    bytes
}

pub(crate) fn hello() -> ChatRequest {
    ChatRequest::new([Message::user("Hello")])
}
