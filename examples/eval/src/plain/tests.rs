use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    thread,
};

use haft_core::toolset::ListContext;
use serde_json::{Value, json};

use super::PlainLoop;
use crate::tools;

/// Starts a server that replies with `messages` in order. Returns its base URL and its thread,
/// whose result contains the bodies of the received requests.
fn server(messages: Vec<Value>) -> (String, thread::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = thread::spawn(move || messages.iter().map(|message| answer(&listener, message)).collect());
    (url, serving)
}

fn answer(listener: &TcpListener, message: &Value) -> Value {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5});
    let reply = json!({"choices": [{"message": message}], "usage": usage}).to_string();
    let length = reply.len();
    write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{reply}")
        .unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn calls(name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": function}]})
}

#[tokio::test]
async fn calls_are_executed_unchecked() {
    let (url, serving) = server(vec![
        calls("add", r#"{"a": "17", "b": 25}"#),
        calls("add", r#"{"a": 17, "b": 25}"#),
        json!({"role": "assistant", "content": "It is 42."}),
    ]);
    let plain = PlainLoop::new(&url, &tools::all().list(&ListContext::default()).await);
    let record = plain.run("What is 17 plus 25?").await;
    assert_eq!(record.answer.as_deref(), Ok("It is 42."));
    assert_eq!(record.calls.len(), 2);
    assert_eq!(record.usage.requests, 3);

    let requests = serving.join().unwrap();
    assert_eq!(requests[0]["tools"].as_array().unwrap().len(), 3);
    let results: Vec<_> =
        [1, 2].map(|at| requests[at]["messages"].as_array().unwrap().last().unwrap()).into();
    assert_eq!(results[0]["content"], "a must be a number");
    assert_eq!(results[1]["content"], "42");
}

#[tokio::test]
async fn empty_reply_is_an_empty_answer() {
    let (url, serving) = server(vec![Value::Null]);
    let plain = PlainLoop::new(&url, &tools::all().list(&ListContext::default()).await);
    let record = plain.run("What is 17 plus 25?").await;
    serving.join().unwrap();
    assert_eq!(record.answer.as_deref(), Ok(""));
    assert!(record.calls.is_empty());
}
