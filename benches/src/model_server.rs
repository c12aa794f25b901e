use std::{
    io::{self, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

/// The number of replies in the sequence of a [`ModelServer`], one for each step of a run: nine
/// calls to `add`, and then an answer.
pub const REPLIES_PER_RUN: u32 = 10;

/// A server of the Chat Completions API that repeats a sequence of ten replies. Each of the first
/// nine replies contains a call to `add`, and the last reply is an answer.
///
/// The server runs on separate threads until the process ends. Callgrind does not count the
/// instructions of these threads.
#[derive(Debug)]
pub struct ModelServer(SocketAddr);

/// The HTTP responses with the replies of a run. Each reply exists as a complete response and as a
/// stream.
struct Script {
    whole: Vec<String>,
    streamed: Vec<String>,
    /// The number of HTTP requests received so far, which selects the next reply.
    requests: AtomicUsize,
}

impl ModelServer {
    /// Starts a server on the loopback interface.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let script = Arc::new(Script::new());
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let script = Arc::clone(&script);
                // An I/O error on a connection ends only the thread of that connection.
                thread::spawn(move || converse(&stream, &script));
            }
        });
        Ok(Self(address))
    }

    /// Returns the base URL of the API.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.0)
    }
}

/// Replies to the HTTP requests on `stream` until the connection is closed.
fn converse(mut stream: &TcpStream, script: &Script) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let is_streamed = read_request(&mut reader)?;
        stream.write_all(script.next(is_streamed).as_bytes())?;
    }
}

/// Reads an HTTP request. Returns `true` if its body contains `"stream":true`.
fn read_request(reader: &mut impl io::BufRead) -> io::Result<bool> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(number) = line.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mark = br#""stream":true"#;
    Ok(body.windows(mark.len()).any(|part| part == mark))
}

impl Script {
    fn new() -> Self {
        let (whole, streamed) =
            (0..REPLIES_PER_RUN).map(|step| (whole_reply(step), streamed_reply(step))).unzip();
        Self { whole, streamed, requests: AtomicUsize::new(0) }
    }

    /// Returns the response to the next HTTP request. The reply is streamed if `is_streamed` is
    /// `true`.
    fn next(&self, is_streamed: bool) -> &str {
        let replies = if is_streamed { &self.streamed } else { &self.whole };
        let step = self.requests.fetch_add(1, Ordering::Relaxed) % replies.len().max(1);
        replies.get(step).map_or("", String::as_str)
    }
}

fn is_last(step: u32) -> bool {
    step + 1 == REPLIES_PER_RUN
}

fn whole_reply(step: u32) -> String {
    let (message, finish_reason) = if is_last(step) {
        (json!({"role": "assistant", "content": "It is 45."}), "stop")
    } else {
        (json!({"role": "assistant", "content": null, "tool_calls": [call(step)]}), "tool_calls")
    };
    let body = json!({
        "id": format!("chatcmpl-{step}"), "object": "chat.completion", "created": 1_790_000_000, "model": "mock",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}],
        "usage": usage(),
    });
    reply("application/json", &body.to_string())
}

/// Returns the streamed reply of a step. It contains a tool call, with its arguments split
/// into pieces, or the answer, split into words.
fn streamed_reply(step: u32) -> String {
    let mut deltas = vec![json!({"role": "assistant", "content": null})];
    if is_last(step) {
        deltas.extend(["It ", "is ", "45", "."].map(|text| json!({"content": text})));
    } else {
        let mut begun = call(step);
        begun["index"] = json!(0);
        let arguments = begun["function"]["arguments"].take();
        begun["function"]["arguments"] = json!("");
        deltas.push(json!({"tool_calls": [begun]}));
        let arguments = arguments.as_str().unwrap_or_default().split_inclusive([':', ',']);
        deltas.extend(
            arguments.map(|text| json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]})),
        );
    }
    let finish_reason = if is_last(step) { "stop" } else { "tool_calls" };
    let mut events: Vec<_> = deltas.into_iter().map(|delta| chunk(step, &delta, None)).collect();
    events.push(chunk(step, &json!({}), Some(finish_reason)));
    let mut last = chunk(step, &json!({}), None);
    last["choices"] = json!([]);
    last["usage"] = usage();
    events.push(last);
    let lines: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    reply("text/event-stream", &(lines + "data: [DONE]\n\n"))
}

fn call(step: u32) -> Value {
    let arguments = json!({"x": step, "y": 45 - step}).to_string();
    json!({"id": format!("call_{step}"), "type": "function", "function": {"name": "add", "arguments": arguments}})
}

fn chunk(step: u32, delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": format!("chatcmpl-{step}"), "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "mock",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason}],
    })
}

fn usage() -> Value {
    json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})
}

fn reply(media_type: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
