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

/// A server of the Chat Completions API, the Responses API, Anthropic's Messages API and Gemini's
/// `generateContent` that repeats a sequence of ten replies. Each of the first
/// nine replies contains a call to `add`, and the last reply is an answer.
///
/// The server runs on separate threads until the process ends. Callgrind does not count the
/// instructions of these threads.
#[derive(Debug)]
pub struct ModelServer(SocketAddr);

/// The HTTP responses with the replies of a run. Each reply exists as a complete response of each
/// API, and as a stream of the Chat Completions API.
struct Script {
    whole: [Vec<String>; 4],
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

    /// Returns the scheme, host and port: the base URL for clients of Anthropic and Gemini.
    pub fn origin(&self) -> String {
        format!("http://{}", self.0)
    }

    /// Returns the base URL of OpenAI's APIs.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.0)
    }
}

/// Replies to the HTTP requests on `stream` until the connection is closed.
fn converse(mut stream: &TcpStream, script: &Script) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    loop {
        let request = read_request(&mut reader)?;
        stream.write_all(script.next(&request).as_bytes())?;
    }
}

/// An HTTP request.
struct Request {
    /// The index of its API in [`Script::whole`].
    api: usize,
    /// `true` if its body contains `"stream":true`.
    is_streamed: bool,
}

/// The ends of the paths of the APIs.
const PATHS: [&str; 4] = ["/chat/completions", "/responses", "/messages", ":generatecontent"];

fn read_request(reader: &mut impl io::BufRead) -> io::Result<Request> {
    let (mut length, mut api) = (0, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        let path = line.split(' ').nth(1).unwrap_or_default();
        api = api.or(PATHS.iter().position(|end| path.ends_with(end)));
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
    let is_streamed = body.windows(mark.len()).any(|part| part == mark);
    Ok(Request { api: api.unwrap_or(0), is_streamed })
}

impl Script {
    fn new() -> Self {
        let bodies = [chat_body, responses_body, anthropic_body, gemini_body];
        let whole = bodies.map(|body| {
            (0..REPLIES_PER_RUN).map(|step| reply("application/json", &body(step).to_string())).collect()
        });
        let streamed = (0..REPLIES_PER_RUN).map(streamed_reply).collect();
        Self { whole, streamed, requests: AtomicUsize::new(0) }
    }

    /// Returns the response to `request`, the next HTTP request.
    fn next(&self, request: &Request) -> &str {
        let whole = self.whole.get(request.api).map_or(&[] as &[_], Vec::as_slice);
        let replies = if request.is_streamed { &self.streamed } else { whole };
        let step = self.requests.fetch_add(1, Ordering::Relaxed) % replies.len().max(1);
        replies.get(step).map_or("", String::as_str)
    }
}

fn is_last(step: u32) -> bool {
    step + 1 == REPLIES_PER_RUN
}

fn chat_body(step: u32) -> Value {
    let (message, finish_reason) = if is_last(step) {
        (json!({"role": "assistant", "content": "It is 45."}), "stop")
    } else {
        (json!({"role": "assistant", "content": null, "tool_calls": [call(step)]}), "tool_calls")
    };
    json!({
        "id": format!("chatcmpl-{step}"), "object": "chat.completion", "created": 1_790_000_000, "model": "mock",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}],
        "usage": usage(),
    })
}

fn responses_body(step: u32) -> Value {
    let item = if is_last(step) {
        let content = json!([{"type": "output_text", "text": "It is 45.", "annotations": []}]);
        json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content})
    } else {
        json!({
            "id": format!("fc_{step}"), "type": "function_call", "status": "completed",
            "call_id": format!("call_{step}"), "name": "add", "arguments": arguments(step).to_string(),
        })
    };
    json!({
        "id": format!("resp_{step}"), "object": "response", "created_at": 1_790_000_000, "model": "mock",
        "status": "completed", "error": null, "incomplete_details": null, "output": [item],
        "usage": {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120},
    })
}

fn anthropic_body(step: u32) -> Value {
    let (block, stop_reason) = if is_last(step) {
        (json!({"type": "text", "text": "It is 45."}), "end_turn")
    } else {
        let id = format!("toolu_{step}");
        (json!({"type": "tool_use", "id": id, "name": "add", "input": arguments(step)}), "tool_use")
    };
    json!({
        "id": format!("msg_{step}"), "type": "message", "role": "assistant", "model": "mock",
        "content": [block], "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 20},
    })
}

fn gemini_body(step: u32) -> Value {
    let part = if is_last(step) {
        json!({"text": "It is 45."})
    } else {
        let call = json!({"id": format!("call_{step}"), "name": "add", "args": arguments(step)});
        json!({"functionCall": call, "thoughtSignature": "c2lnbmF0dXJl"})
    };
    json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
        "modelVersion": "mock", "responseId": format!("r_{step}"),
    })
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
    let arguments = arguments(step).to_string();
    json!({"id": format!("call_{step}"), "type": "function", "function": {"name": "add", "arguments": arguments}})
}

fn arguments(step: u32) -> Value {
    json!({"x": step, "y": 45 - step})
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
