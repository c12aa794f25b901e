use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{ErrorKind, ErrorPlace, Fault, Gateway, ModelServer, Reply, Requirement};

/// Sends one request and returns the response. A stalled response ends after the timeout.
fn exchange(server: &ModelServer, request: &Value) -> String {
    let address = server.base_url().replace("http://", "").replace("/v1", "");
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let body = request.to_string();
    write!(client, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    let mut response = Vec::new();
    if let Err(error) = client.read_to_end(&mut response) {
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
    String::from_utf8(response).unwrap()
}

fn body_of(reply: Reply, is_streamed: bool) -> String {
    let server = ModelServer::start([reply]).unwrap();
    let response = exchange(&server, &json!({"stream": is_streamed}));
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn call_reply() -> Reply {
    Reply::calls([("call_1", "add", r#"{"x":1}"#)])
}

/// Checks the pieces of a streamed call.
#[track_caller]
fn check_pieces(fault: Fault, expected: Expect) {
    let body = body_of(call_reply().with_fault(fault), true);
    let events =
        body.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    let pieces = events.map(|event| event["choices"][0]["delta"]["tool_calls"][0].clone());
    let pieces = pieces.filter(|piece| !piece.is_null()).take(4).map(|piece| format!("{piece}\n"));
    expected.assert_eq(&pieces.collect::<String>());
}

#[test]
fn calls_are_streamed_in_pieces_with_faults() {
    check_pieces(
        Fault::NameInPieces,
        expect![[r#"
        {"function":{"name":"a"},"index":0,"id":"call_1","type":"function"}
        {"function":{"name":"dd"},"index":0}
        {"function":{"arguments":"{"},"index":0}
        {"function":{"arguments":"\""},"index":0}
    "#]],
    );
    check_pieces(
        Fault::NameBesideArguments,
        expect![[r#"
        {"function":{"name":"a","arguments":"{"},"index":0,"id":"call_1","type":"function"}
        {"function":{"name":"dd","arguments":"\""},"index":0}
        {"function":{"arguments":"x"},"index":0}
        {"function":{"arguments":"\""},"index":0}
    "#]],
    );
    check_pieces(
        Fault::NameRepeated,
        expect![[r#"
        {"function":{"name":"add"},"index":0,"id":"call_1","type":"function"}
        {"function":{"arguments":"{","name":"add"},"index":0,"id":"call_1","type":"function"}
        {"function":{"arguments":"\"","name":"add"},"index":0,"id":"call_1","type":"function"}
        {"function":{"arguments":"x","name":"add"},"index":0,"id":"call_1","type":"function"}
    "#]],
    );
    check_pieces(
        Fault::IndexMissing,
        expect![[r#"
        {"function":{"name":"add"},"id":"call_1","type":"function"}
        {"function":{"arguments":"{"}}
        {"function":{"arguments":"\""}}
        {"function":{"arguments":"x"}}
    "#]],
    );
    check_pieces(
        Fault::IndexDrifting,
        expect![[r#"
        {"function":{"name":"add"},"index":0,"id":"call_1","type":"function"}
        {"function":{"arguments":"{"},"index":1}
        {"function":{"arguments":"\""},"index":2}
        {"function":{"arguments":"x"},"index":3}
    "#]],
    );
    check_pieces(
        Fault::ArgumentsAsObject,
        expect![[r#"
        {"function":{"name":"add"},"index":0,"id":"call_1","type":"function"}
        {"function":{"arguments":{"x":1}},"index":0}
    "#]],
    );
    check_pieces(
        Fault::NameMissing,
        expect![[r#"
        {"function":{},"index":0,"id":"call_1","type":"function"}
        {"function":{"arguments":"{"},"index":0}
        {"function":{"arguments":"\""},"index":0}
        {"function":{"arguments":"x"},"index":0}
    "#]],
    );
}

#[test]
fn each_fault_changes_a_reply() {
    for fault in Fault::ALL {
        // Two calls with different ids and places show all faults.
        let reply = || Reply::calls([("call_1", "add", r#"{"x":1}"#), ("call_2", "add", "{}")]);
        let changes = |is_streamed| {
            let server = ModelServer::start([reply(), reply().with_fault(*fault)]).unwrap();
            let [plain, faulty] = [(); 2].map(|()| exchange(&server, &json!({"stream": is_streamed})));
            plain != faulty
        };
        // The bytes are the same, only their packets differ.
        assert!(changes(true) || *fault == Fault::SingleBytes, "{fault:?}");
        let is_unread = |fault| !Fault::is_readable(fault);
        assert!(changes(false) || !is_unread(*fault), "{fault:?}");
    }
}

#[test]
fn errors_have_a_place_and_a_wrapper() {
    let error = |place, gateway| Reply::error_at(ErrorKind::Quota, place, gateway);
    let server = ModelServer::start([
        Reply::error(ErrorKind::Quota),
        error(ErrorPlace::Reply, None),
        error(ErrorPlace::Stream, Some(Gateway::OpenRouter)),
    ])
    .unwrap();
    let whole = exchange(&server, &json!({}));
    assert!(whole.starts_with("HTTP/1.1 429 ") && whole.contains("retry-after: 0\r\n"), "{whole}");
    let reply = exchange(&server, &json!({}));
    assert!(reply.starts_with("HTTP/1.1 200 ") && reply.contains(ErrorKind::Quota.message()), "{reply}");
    let stream = exchange(&server, &json!({"stream": true}));
    let events: Vec<_> = stream.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert!(
        events[0].contains(r#""content":"The ""#) && events[1].contains(r#""raw":"{\"error\""#),
        "{stream}"
    );
}

#[test]
fn script_ends_with_an_error() {
    let server = ModelServer::start([]).unwrap();
    assert!(exchange(&server, &json!({})).starts_with("HTTP/1.1 500 "));
}

#[test]
fn requests_that_violate_a_requirement_are_rejected() {
    let schema = |parameters: Value| json!({"tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"x": parameters}}}}]});
    let messages = |messages: Value| json!({ "messages": messages });
    let call = json!({"role": "assistant", "tool_calls": [{"id": "abc-1"}]});
    let result = json!({"role": "tool", "tool_call_id": "abc-1"});
    let user = json!({"role": "user"});
    let system = json!({"role": "system"});
    let cases = [
        (Requirement::SystemMessageFirst, messages(json!([system, user])), messages(json!([user, system]))),
        (
            Requirement::CallIdsAtMost40,
            messages(json!([call])),
            messages(json!([{"role": "tool", "tool_call_id": "x".repeat(41)}])),
        ),
        (
            Requirement::CallIdsOf9,
            messages(json!([{"role": "tool", "tool_call_id": "abcdef123"}])),
            messages(json!([call])),
        ),
        (
            Requirement::PairedResults,
            messages(json!([call, result, user])),
            messages(json!([call, user, result])),
        ),
        (
            Requirement::PairedResults,
            messages(json!([call, result])),
            messages(json!([call, result, result])),
        ),
        (Requirement::PairedResults, messages(json!([user])), messages(json!([user, call]))),
        (
            Requirement::ToolsBesideCalls,
            json!({"messages": [call], "tools": [{}]}),
            messages(json!([call, result])),
        ),
        (
            Requirement::ArraysHaveItems,
            schema(json!({"type": "array", "items": {}})),
            schema(json!({"anyOf": [{"type": ["null", "array"]}]})),
        ),
        (Requirement::NoBooleanSchemas, schema(json!({})), schema(json!(true))),
        (
            Requirement::TypesInAlternatives,
            schema(json!({"anyOf": [{"type": "string"}]})),
            schema(json!({"type": "string", "anyOf": [{"type": "string"}]})),
        ),
        (Requirement::TypesInAlternatives, schema(json!({})), schema(json!({"anyOf": [{"minLength": 1}]}))),
    ];
    for (requirement, valid, invalid) in cases {
        assert_eq!(requirement.check(&valid), Ok(()), "{requirement:?}");
        let server = ModelServer::with_requirements([requirement], [Reply::text("Hi")]).unwrap();
        assert!(exchange(&server, &invalid).starts_with("HTTP/1.1 400 "), "{requirement:?}");
        assert!(exchange(&server, &valid).starts_with("HTTP/1.1 200 "), "{requirement:?}");
    }
}
