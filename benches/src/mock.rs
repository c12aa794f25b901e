//! A model server on the loopback interface. In each run, its first [`CALL_STEPS`] replies contain
//! tool calls, and the last reply is an answer.

use std::{io, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// The number of replies with tool calls in a run. The reply after them is the answer.
pub const CALL_STEPS: u64 = 10;

/// The delay before each reply.
pub const LATENCY: Duration = Duration::from_millis(50);

/// Starts a model server and prints its port to standard output. The function returns only if an
/// error occurs.
///
/// # Errors
///
/// Returns an error if no port is available, or if a connection cannot be accepted.
pub async fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        // An I/O error on a connection ends only that connection.
        tokio::spawn(serve_connection(stream));
    }
}

async fn serve_connection(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let head = line.to_ascii_lowercase();
            if let Some(value) = head.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let reply = reply(&serde_json::from_slice(&body)?);
        sleep(LATENCY).await;
        let (kind, reply) = reply;
        let length = reply.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + &reply).as_bytes()).await?;
        stream.flush().await?;
    }
}

/// Returns the media type and the body of the reply to a model request.
///
/// The body contains two tool calls, or the answer after the last step. Each call has two
/// arguments: the number of the run, which is the text of the question, and the number of the step.
fn reply(request: &Value) -> (&'static str, String) {
    let messages = request["messages"].as_array().map_or(&[] as &[_], Vec::as_slice);
    let of = |role: &'static str| messages.iter().filter(move |message| message["role"] == role);
    let run: u64 = of("user").find_map(|it| it["content"].as_str()?.parse().ok()).unwrap_or(0);
    let step = of("assistant").count() as u64;
    let (delta, finish_reason) = if step < CALL_STEPS {
        let arguments = json!({"x": run, "y": step}).to_string();
        let call = |index: u64, name: &str| {
            let function = json!({"name": name, "arguments": arguments});
            json!({"index": index, "id": format!("call_{step}_{index}"), "type": "function", "function": function})
        };
        (json!({"tool_calls": [call(0, "add"), call(1, "multiply")]}), "tool_calls")
    } else {
        (json!({"content": format!("{run} is done.")}), "stop")
    };
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    if request["stream"] != true {
        let mut message = delta;
        message["role"] = json!("assistant");
        let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason});
        let body = json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "mock", "choices": [choice], "usage": usage});
        return ("application/json", body.to_string());
    }
    let chunk = |choices: Value, usage: Value| json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "mock", "choices": choices, "usage": usage});
    let events = [
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish_reason}]), Value::Null),
        chunk(json!([]), usage),
    ];
    let lines: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    ("text/event-stream", lines + "data: [DONE]\n\n")
}
