//! Tests of streamed Chat Completions replies.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use haft_core::{
    ChatModel, ToolCall,
    limits::{ARGUMENT_BYTES, REPLY_CALLS},
    model::{ChatEvent, ChatResponse, FinishReason, ModelError},
    usage::Usage,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use crate::server::{STREAM, Server, Step, chunks_reply, hello, ok_reply, reply, stream_reply};

pub(crate) async fn stream_events(model: &impl ChatModel) -> Result<Vec<ChatEvent>, ModelError> {
    model.stream(&hello()).try_collect().await
}

pub(crate) async fn streamed_response(bytes: Vec<u8>) -> Result<ChatResponse, ModelError> {
    let server = Server::with_replies([bytes]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    match stream_events(&model).await?.pop() {
        Some(ChatEvent::Finished(response)) => Ok(*response),
        other => panic!("the last event is {other:?}"),
    }
}

pub(crate) fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(crate) fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

pub(crate) fn call_delta(calls: Value) -> Value {
    delta(json!({"tool_calls": calls}))
}

pub(crate) async fn calls(deltas: &[Value]) -> Vec<ToolCall> {
    let end = finish("tool_calls");
    streamed_response(stream_reply(deltas.iter().chain([&end]))).await.unwrap().message.tool_calls
}

pub(crate) fn add(id: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, "add", arguments)
}

#[tokio::test]
async fn stream_emits_deltas_and_the_whole_reply() {
    let server = Server::with_replies([stream_reply(&[
        json!({"id": "c1", "model": "m1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"content": "Let me "})),
        delta(json!({"content": "add."})),
        call_delta(json!([{"index": 0, "id": "a", "type": "function", "function": {"name": "add", "arguments": ""}}])),
        call_delta(json!([{"index": 0, "function": {"arguments": "{\"x\""}}])),
        call_delta(json!([{"index": 0, "function": {"arguments": ":1}"}}])),
        finish("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}),
    ])])
    .await;
    let mut events = stream_events(&server.model()).await.unwrap();
    let Some(ChatEvent::Finished(reply)) = events.pop() else { panic!("{events:?}") };
    assert_eq!(
        events,
        [
            ChatEvent::ReasoningDelta { text: "hm".into() },
            ChatEvent::TextDelta { text: "Let me ".into() },
            ChatEvent::TextDelta { text: "add.".into() },
            ChatEvent::ToolCallStarted { index: 0, id: "a".into(), name: "add".into() },
            ChatEvent::ToolCallDelta { index: 0, arguments: "{\"x\"".into() },
            ChatEvent::ToolCallDelta { index: 0, arguments: ":1}".into() },
        ]
    );
    assert_eq!(reply.message.text(), "Let me add.");
    assert_eq!(reply.message.reasoning.as_deref(), Some("hm"));
    assert_eq!(reply.message.tool_calls, [add("a", r#"{"x":1}"#)]);
    assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    assert_eq!(reply.usage, Usage::one_request(7, 5));
    assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("c1"), Some("m1")));
    let request = server.take_requests().remove(0).body;
    assert_eq!(request["stream"], true);
    assert_eq!(request["stream_options"], json!({"include_usage": true}));
}

/// Arguments in a delta are accepted as an object, as null or as `""`.
#[tokio::test]
async fn arguments_become_json_text() {
    for (sent, expected) in [(json!({"x": 1}), r#"{"x":1}"#), (json!(null), "{}"), (json!(""), "{}")] {
        let piece =
            call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": sent}}]));
        assert_eq!(calls(&[piece]).await, [add("a", expected)]);
    }
}

/// A generated call id is the same in all events of the call.
#[tokio::test]
async fn generated_id_is_stable() {
    let piece = call_delta(json!([{"index": 0, "function": {"name": "add", "arguments": "{}"}}]));
    let server = Server::with_replies([stream_reply(&[piece, finish("tool_calls")])]).await;
    let events = stream_events(&server.model()).await.unwrap();
    let Some(ChatEvent::ToolCallStarted { id, .. }) = events.first() else { panic!("{events:?}") };
    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
    assert!(!id.is_empty());
    assert_eq!(&reply.message.tool_calls[0].id, id);
}

/// A stream that contains only a finish reason is treated as an empty reply and retried.
#[tokio::test]
async fn empty_stream_is_retried() {
    let server = Server::with_replies([
        stream_reply(&[finish("stop")]),
        stream_reply(&[delta(json!({"content": "Hi"})), finish("stop")]),
    ])
    .await;
    let events = stream_events(&server.model()).await.unwrap();
    assert_eq!(events.len(), 2, "{events:?}");
}

#[tokio::test]
async fn calls_without_index_are_separate() {
    let by_id = [
        call_delta(json!([{"id": "a", "function": {"name": "add", "arguments": "{\"x\""}}])),
        call_delta(json!([{"function": {"arguments": ":1}"}}])),
        call_delta(json!([{"id": "b", "function": {"name": "add", "arguments": ""}}])),
        call_delta(json!([{"function": {"arguments": "{\"x\":2}"}}])),
    ];
    assert_eq!(calls(&by_id).await, [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)]);

    let at_once = call_delta(json!([
        {"function": {"name": "add", "arguments": "{\"x\":1}"}},
        {"function": {"name": "add", "arguments": "{\"x\":2}"}},
    ]));
    let arguments: Vec<_> = calls(&[at_once]).await.into_iter().map(|call| call.arguments).collect();
    assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":2}"#]);
}

/// A piece that repeats the id and the name of a call continues this call, with and without
/// `index`.
#[tokio::test]
async fn repeated_id_does_not_begin_a_call() {
    let pieces = [("a", "{\"x\""), ("a", ":1}"), ("b", "{\"x\":"), ("b", "2}"), ("b", "")];
    let piece = |(id, arguments): &(&str, &str)| json!({"id": id, "function": {"name": "add", "arguments": arguments}});
    let bare: Vec<_> = pieces.iter().map(|it| call_delta(json!([piece(it)]))).collect();
    let indexed = pieces.iter().map(|it| {
        let mut piece = piece(it);
        piece["index"] = json!(u8::from(it.0 == "b"));
        call_delta(json!([piece]))
    });
    let expected = [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)];
    assert_eq!(calls(&bare).await, expected);
    assert_eq!(calls(&indexed.collect::<Vec<_>>()).await, expected);
}

/// `index` only identifies a call. It may begin at 1, and the pieces of two calls may be
/// interleaved.
#[tokio::test]
async fn index_is_only_an_identifier() {
    let pieces = [
        call_delta(json!([{"index": 1, "id": "a", "function": {"name": "add", "arguments": "{\"x\""}}])),
        call_delta(json!([{"index": 2, "id": "b", "function": {"name": "add", "arguments": "{\"x\""}}])),
        call_delta(
            json!([{"index": 1, "function": {"arguments": ":1}"}}, {"index": 2, "function": {"arguments": ":2}"}}]),
        ),
    ];
    assert_eq!(calls(&pieces).await, [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)]);
}

/// Calls with the same index are separated by their ids, because Gemini's OpenAI-compatible
/// endpoint sends every call with index 0.
#[tokio::test]
async fn calls_with_the_same_index_are_separated_by_id() {
    let piece = |id, x| json!({"index": 0, "id": id, "function": {"name": "add", "arguments": format!("{{\"x\":{x}}}")}});
    let pieces = [call_delta(json!([piece("a", 1)])), call_delta(json!([piece("b", 2)]))];
    assert_eq!(calls(&pieces).await, [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)]);
}

/// Complete JSON cannot be continued, so the next piece must begin a new call.
#[tokio::test]
async fn calls_with_the_same_index_and_no_id_are_separated_by_complete_arguments() {
    let piece = |x| json!({"index": 0, "function": {"name": "add", "arguments": format!("{{\"x\":{x}}}")}});
    let arguments = |calls: Vec<ToolCall>| calls.into_iter().map(|call| call.arguments).collect::<Vec<_>>();
    let pieces = [call_delta(json!([piece(1)])), call_delta(json!([piece(2)]))];
    assert_eq!(arguments(calls(&pieces).await), [r#"{"x":1}"#, r#"{"x":2}"#]);
    let at_once = call_delta(json!([piece(1), piece(2)]));
    assert_eq!(arguments(calls(&[at_once]).await), [r#"{"x":1}"#, r#"{"x":2}"#]);
}

/// Calls are separate even if a server gives all of them the same id.
#[tokio::test]
async fn calls_with_the_same_id_are_separated_by_complete_arguments() {
    let piece = |id: &str, name: &str, arguments: &str| json!({"id": id, "function": {"name": name, "arguments": arguments}});
    for id in ["null", "0", "call_0", "add"] {
        let (one, two) = (piece(id, "add", "{\"x\":1}"), piece(id, "add", "{\"x\":2}"));
        let numbered = |mut piece: Value| {
            piece["index"] = json!(0);
            piece
        };
        for pieces in [
            vec![call_delta(json!([one, two]))],
            vec![call_delta(json!([one])), call_delta(json!([two]))],
            vec![call_delta(json!([numbered(one.clone())])), call_delta(json!([numbered(two.clone())]))],
            // Each piece repeats the id and the name.
            vec![
                call_delta(json!([piece(id, "add", "{\"x\"")])),
                call_delta(json!([piece(id, "add", ":1}")])),
                call_delta(json!([two])),
            ],
        ] {
            let calls = calls(&pieces).await;
            let arguments: Vec<_> = calls.iter().map(|call| call.arguments.as_str()).collect();
            assert_eq!(arguments, [r#"{"x":1}"#, r#"{"x":2}"#], "{pieces:?}");
            assert_ne!(calls[0].id, calls[1].id);
        }
        let other = call_delta(json!([piece(id, "now", "{}"), piece(id, "add", "{\"x\":1}")]));
        let names: Vec<_> =
            calls(&[other]).await.into_iter().map(|call| (call.name, call.arguments)).collect();
        assert_eq!(names, [("now".into(), "{}".into()), ("add".into(), r#"{"x":1}"#.into())]);
    }
}

/// A call is returned only once if the server repeats the whole call.
#[tokio::test]
async fn repeated_call_is_ignored() {
    let whole = json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":1}"}});
    let half = |arguments: &str| {
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": arguments}}]))
    };
    let whole = call_delta(json!([whole]));
    assert_eq!(calls(&[whole.clone(), whole.clone()]).await, [add("a", r#"{"x":1}"#)]);
    assert_eq!(calls(&[half("{\"x\""), half(":1}"), half("\n"), whole]).await, [add("a", "{\"x\":1}\n")]);
}

/// Preliminary arguments `{}` are replaced by later arguments, because LiteLLM sends `{}` before
/// the actual arguments.
#[tokio::test]
async fn placeholder_arguments_are_replaced() {
    let begun = |arguments: &str| {
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": arguments}}]))
    };
    let more = |arguments: &str| call_delta(json!([{"index": 0, "function": {"arguments": arguments}}]));
    for pieces in [
        vec![begun("{}"), more("{\"x\""), more(":1}")],
        vec![begun("{}"), begun("{\"x\":1}")],
        vec![begun("{}"), more(""), more("{\"x\":1}")],
    ] {
        let server = Server::with_replies([stream_reply(pieces.iter().chain([&finish("tool_calls")]))]).await;
        let mut events = stream_events(&server.model()).await.unwrap();
        let Some(ChatEvent::Finished(reply)) = events.pop() else { panic!("{events:?}") };
        assert_eq!(reply.message.tool_calls, [add("a", r#"{"x":1}"#)]);
        let deltas = events.into_iter().filter_map(|event| match event {
            ChatEvent::ToolCallDelta { arguments, .. } => Some(arguments),
            _ => None,
        });
        assert_eq!(deltas.collect::<String>(), r#"{"x":1}"#);
    }
    assert_eq!(calls(&[begun("{}")]).await, [add("a", "{}")]);
}

#[tokio::test]
async fn index_may_come_with_the_second_piece() {
    let pieces = [
        call_delta(json!([{"id": "a", "function": {"name": "add", "arguments": ""}}])),
        call_delta(json!([{"index": 0, "function": {"arguments": "{\"x\""}}])),
        call_delta(json!([{"index": 0, "function": {"arguments": ":1}"}}])),
        call_delta(json!([{"index": 1, "id": "b", "function": {"name": "add", "arguments": "{\"x\":2}"}}])),
    ];
    assert_eq!(calls(&pieces).await, [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)]);
}

#[tokio::test]
async fn too_many_calls_are_rejected() {
    let piece = |index: usize| json!({"index": index, "function": {"name": "f"}});
    let many = call_delta((0..=REPLY_CALLS).map(piece).collect());
    let error = streamed_response(stream_reply([&many])).await.unwrap_err();
    assert!(matches!(&error, ModelError::InvalidResponse(it) if it.contains("calls")), "{error:?}");
}

#[tokio::test]
async fn single_choice_is_used_with_any_index() {
    let choice =
        |index: u8, text: &str| json!({"index": index, "delta": {"content": text}, "finish_reason": null});
    let chunk = |choices: Value| json!({"choices": choices});
    let reply =
        streamed_response(stream_reply([&chunk(json!([choice(1, "H")])), &chunk(json!([choice(1, "i")]))]))
            .await
            .unwrap();
    assert_eq!(reply.message.text(), "Hi");
    let both = chunk(json!([choice(1, "No"), choice(0, "Yes")]));
    assert_eq!(streamed_response(stream_reply([&both, &both])).await.unwrap().message.text(), "YesYes");
}

#[tokio::test]
async fn error_in_a_stream_is_returned() {
    let broken = json!({"error": {"message": "worker died", "type": "server_error", "code": null}});
    let error =
        streamed_response(stream_reply(&[delta(json!({"content": "Hi"})), broken])).await.unwrap_err();
    assert!(matches!(&error, ModelError::Server { body, .. } if body == "worker died"), "{error:?}");
}

/// Servers send errors inside a stream in many formats. Each of them must end the stream with the
/// same error.
#[tokio::test]
async fn errors_of_each_form_are_parsed() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    for error in [
        "event: error\ndata: {\"message\":\"boom\",\"code\":500}\n\n",
        "event: error\ndata: boom\n\n",
        "event: error\ndata: {\"error\":{\"message\":\"boom\"}}",
        "data: {\"object\":\"error\",\"message\":\"boom\",\"code\":500}\n\n",
        "data: {\"detail\":\"boom\"}\n\n",
        "data: {\"error\":\"boom\"}\n\n",
        "error: {\"code\":500,\"message\":\"boom\",\"type\":\"server_error\"}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\",\"error\":{\"code\":500,\"message\":\"boom\"}}]}\n\n",
    ] {
        for before in ["", text] {
            let sent = format!("{STREAM}{before}{error}");
            let chat = streamed_response(sent.clone().into()).await.unwrap_err();
            assert!(matches!(&chat, ModelError::Server { body, .. } if body == "boom"), "{error}: {chat:?}");
            if error.contains("choices") {
                continue;
            }
            let server = Server::with_replies([sent.into_bytes()]).await;
            let responses = server.responses().max_retries(0).build().unwrap();
            let typed = stream_events(&responses).await.unwrap_err();
            assert!(
                matches!(&typed, ModelError::Server { body, .. } if body == "boom"),
                "{error}: {typed:?}"
            );
        }
    }
}

#[tokio::test]
async fn error_in_a_stream_keeps_its_kind() {
    let long = "error: {\"code\":400,\"message\":\"x\",\"type\":\"exceed_context_size_error\"}\n\n";
    let error =
        streamed_response(reply("200 OK", "content-type: text/event-stream\r\n", long)).await.unwrap_err();
    assert!(matches!(error, ModelError::ContextTooLong(_)), "{error:?}");
    let busy = json!({"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "slow down"}}]});
    let error = streamed_response(stream_reply([&busy])).await.unwrap_err();
    assert!(matches!(error, ModelError::RateLimited { permanent: false, .. }), "{error:?}");
}

#[tokio::test]
async fn keep_alive_and_malformed_events_are_ignored() {
    let call = json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{}"}});
    let malformed = [
        json!({"choices": [null]}),
        json!({"choices": {"delta": {"content": "H"}}}),
        json!({"choices": "none"}),
        json!({"choices": [{"delta": "none", "message": null}]}),
        json!({"choices": [{"delta": {"content": "i", "tool_calls": call}}]}),
        json!({"choices": [{"delta": {"tool_calls": [null, {"index": 0, "function": "none"}]}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "error": []}),
    ];
    let alive = "data: null\n\ndata: ping\n\ndata: keep-alive\n\n".as_bytes();
    let sent = [STREAM.as_bytes(), alive, &stream_reply(&malformed)[STREAM.len()..]].concat();
    let reply = streamed_response(sent).await.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.message.tool_calls), ("Hi", vec![add("a", "{}")]));
}

#[tokio::test]
async fn whole_body_in_place_of_a_stream_is_accepted() {
    let whole = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]});
    let reply = streamed_response(ok_reply(&whole)).await.unwrap();
    assert_eq!(reply.message.text(), "Hi");
}

#[tokio::test]
async fn stream_without_a_content_type_is_accepted() {
    let events = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(streamed_response(reply("200 OK", "", events)).await.unwrap().message.text(), "Hi");
}

/// A slow reader applies back-pressure to the server.
///
/// The server may send at most 8 MiB without a reader, including the data in the socket buffers.
#[tokio::test]
async fn slow_reader_applies_backpressure() {
    let event = format!("data: {}\n\n", delta(json!({"content": "x".repeat(100)})));
    let (sender, stalled) = oneshot::channel();
    let script = vec![Step::Send(STREAM.into()), Step::Flood(event.repeat(100).into(), sender)];
    let server = Server::start([script]).await;
    let (model, request) = (server.model(), hello());
    let mut stream = model.stream(&request);
    for _ in 0..100 {
        assert!(stream.try_next().await.unwrap().is_some());
    }
    let sent = stalled.await.unwrap();
    assert!(sent < 8 << 20, "{sent} bytes were sent without a reader");
}

/// Dropping a stream closes its connection within a second.
#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (sender, closed) = oneshot::channel();
    let hi = chunks_reply(&[delta(json!({"content": "Hi"}))]);
    let server = Server::start([vec![Step::Send(hi), Step::Closed(sender)]]).await;
    let model = server.model();
    let request = hello();
    let mut stream = model.stream(&request);
    assert!(stream.try_next().await.unwrap().is_some());
    drop(stream);
    timeout(Duration::from_secs(1), closed).await.expect("still open after a second").unwrap();
}

/// Arguments above 1 MiB are rejected with `InvalidResponse`.
#[tokio::test]
async fn oversized_arguments_are_rejected() {
    let begin =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":\""}}]));
    let more = call_delta(json!([{"index": 0, "function": {"arguments": "x".repeat(ARGUMENT_BYTES / 4)}}]));
    let error = streamed_response(stream_reply([&begin, &more, &more, &more, &more])).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::InvalidResponse(problem) if problem.contains("1048576")),
        "{error:?}"
    );
}

#[tokio::test]
async fn oversized_event_is_rejected() {
    let server = Server::start([vec![
        Step::Send(STREAM.into()),
        Step::Send(b"data: ".to_vec()),
        Step::Send(vec![b'x'; 17 << 20]),
        Step::Stall,
    ]])
    .await;
    let error = stream_events(&server.model()).await.unwrap_err();
    assert!(matches!(error, ModelError::InvalidResponse(_)), "{error:?}");
}

/// A chunk that has only a `message` is ignored, because it may be a progress report and not an
/// error.
#[tokio::test]
async fn progress_reports_in_a_stream_are_ignored() {
    let queued = json!({"message": "queued"});
    let reply = streamed_response(stream_reply([
        &queued,
        &delta(json!({"content": "Hi"})),
        &queued,
        &finish("stop"),
    ]))
    .await
    .unwrap();
    assert_eq!(reply.message.text(), "Hi");
}

/// Events that arrive in one chunk of bytes are emitted in order. A delta before an error is
/// emitted first, and the stream ends after the error.
#[tokio::test]
async fn events_in_one_chunk_are_emitted_in_order() {
    let text = delta(json!({"content": "Hi"}));
    let error = json!({"error": {"message": "boom", "code": 500}});
    for (sent, is_error) in
        [(stream_reply(&[text.clone(), finish("stop")]), false), (chunks_reply(&[text, error]), true)]
    {
        let server = Server::with_replies([sent]).await;
        let model = server.builder().max_retries(0).build().unwrap();
        let request = hello();
        let mut events = model.stream(&request);
        assert!(matches!(events.next().await, Some(Ok(ChatEvent::TextDelta { text })) if text == "Hi"));
        assert_eq!(events.next().await.unwrap().is_err(), is_error);
        assert!(events.next().await.is_none());
        assert!(events.next().await.is_none());
    }
}

/// A call in pieces is one call, wherever the server cuts it and however it numbers the pieces.
#[tokio::test]
async fn call_in_pieces_is_one_call() {
    let expected = [ToolCall::new("a", "find_page", r#"{"id":7}"#)];
    let piece = |index: Value, id: Value, name: Value, arguments: &str| {
        call_delta(json!([{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]))
    };
    let none = || Value::Null;
    for pieces in [
        // The first piece is the name of another tool.
        vec![
            piece(json!(0), json!("a"), json!("find"), ""),
            piece(json!(0), none(), json!("_page"), r#"{"id":7}"#),
        ],
        vec![
            piece(json!(0), json!("a"), json!("find_"), r#"{"id""#),
            piece(json!(0), json!("a"), json!("page"), ":7}"),
        ],
        vec![
            piece(json!(0), json!("a"), json!("find_page"), ""),
            piece(json!(1), none(), none(), r#"{"id""#),
            piece(json!(2), none(), none(), ":7}"),
        ],
        vec![
            piece(json!(0), json!("a"), json!("find_page"), ""),
            piece(json!(0), json!("x1"), none(), r#"{"id""#),
            piece(json!(0), json!("x2"), none(), ":7}"),
        ],
        vec![
            piece(json!(0), json!("a"), json!("find_page"), ""),
            piece(json!(0), json!(""), json!(""), r#"{"id":7}"#),
        ],
    ] {
        assert_eq!(calls(&pieces).await, expected, "{pieces:?}");
    }
    let older = |call: Value| delta(json!({"function_call": call}));
    let pieces = [
        older(json!({"name": "find_"})),
        older(json!({"name": "page"})),
        older(json!({"arguments": "{\"id\":7}"})),
    ];
    let call = calls(&pieces).await.remove(0);
    assert_eq!((call.name.as_str(), &*call.arguments), ("find_page", r#"{"id":7}"#));
    // A whole reply with the pieces of a stream.
    let function = json!({"name": "find_page", "arguments": "{\"id\""});
    let message = json!({"tool_calls": [{"index": 0, "id": "a", "function": function}, {"index": 0, "function": {"arguments": ":7}"}}]});
    assert_eq!(haft_openai::decode_tool_calls(&message).unwrap(), expected);
}

/// A call without a name is never returned, and a tool never runs without the arguments that the
/// server sent.
#[tokio::test]
async fn call_without_a_name_is_an_error() {
    let nameless = json!([{"index": 0, "id": "a", "function": {"arguments": "{\"id\":7}"}}]);
    let streamed = |reason| streamed_response(stream_reply(&[call_delta(nameless.clone()), finish(reason)]));
    for reason in ["stop", "tool_calls"] {
        let error = streamed(reason).await.unwrap_err();
        assert!(matches!(error, ModelError::InvalidResponse(_)), "{error:?}");
    }
    let error = streamed("length").await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");
    let message = json!({"tool_calls": nameless});
    assert!(matches!(haft_openai::decode_tool_calls(&message), Err(ModelError::InvalidResponse(_))));
    let whole = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    assert!(matches!(haft_openai::decode_response(&whole), Err(ModelError::InvalidResponse(_))));
}

/// The error of an unknown gateway is found by its structure.
#[tokio::test]
async fn error_of_an_unknown_gateway_is_found() {
    let inner = json!({"message": "the reason", "code": "context_length_exceeded"});
    for body in [
        json!({"type": "failure", "data": {"error": inner}}),
        json!({"success": false, "errors": [inner]}),
        json!({"error": "Received error from acme", "external_model_message": inner}),
        json!({"message": "upstream failed", "code": 502, "cause": inner}),
    ] {
        for sent in [chunks_reply([&body]), ok_reply(&body)] {
            let error = streamed_response(sent).await.unwrap_err();
            assert!(
                matches!(&error, ModelError::ContextTooLong(it) if it == "the reason"),
                "{body}: {error:?}"
            );
        }
    }
    for progress in [
        json!({"type": "progress", "data": {"step": 1}, "base_resp": {"status_code": 0, "status_msg": "ok"}}),
        json!({"status": "loading", "message": "Loading model"}),
        json!({"progress": {"status": "queued", "message": "position 3"}}),
        json!({"data": {"type": "info", "message": "warming up"}}),
    ] {
        let text = delta(json!({"content": "Hi"}));
        let reply = streamed_response(stream_reply([&progress, &text, &finish("stop")])).await.unwrap();
        assert_eq!(reply.message.text(), "Hi");
    }
}
