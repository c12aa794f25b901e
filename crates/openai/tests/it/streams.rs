//! Replies that were streamed.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use haft_core::{
    ChatModel, ToolCall,
    limits::{ARGUMENT_BYTES, REPLY_ITEMS},
    model::{ChatEvent, ChatResponse, FinishReason, ModelError},
    usage::Usage,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use crate::server::{STREAM, Server, Step, chunks, hello, ok, reply, stream};

pub(crate) async fn events(model: &impl ChatModel) -> Result<Vec<ChatEvent>, ModelError> {
    model.stream(&hello()).try_collect().await
}

pub(crate) async fn last(bytes: Vec<u8>) -> Result<ChatResponse, ModelError> {
    let server = Server::replying([bytes]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    match events(&model).await?.pop() {
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
    last(stream(deltas.iter().chain([&end]))).await.unwrap().message.tool_calls
}

pub(crate) fn add(id: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, "add", arguments)
}

#[tokio::test]
async fn a_reply_comes_in_pieces_and_then_as_a_whole() {
    let server = Server::replying([stream(&[
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
    let mut events = events(&server.model()).await.unwrap();
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
    assert_eq!(reply.usage, Usage::of_request(7, 5));
    assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("c1"), Some("m1")));
    let request = server.take_requests().remove(0).body;
    assert_eq!(request["stream"], true);
    assert_eq!(request["stream_options"], json!({"include_usage": true}));
}

/// Behaviour M7: streamed.
#[tokio::test]
async fn arguments_are_made_text() {
    for (sent, expected) in [(json!({"x": 1}), r#"{"x":1}"#), (json!(null), "{}"), (json!(""), "{}")] {
        let piece =
            call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": sent}}]));
        assert_eq!(calls(&[piece]).await, [add("a", expected)]);
    }
}

/// Behaviour M7: a call without an id has the same made one from its first event to the end.
#[tokio::test]
async fn a_made_id_stays_the_same() {
    let piece = call_delta(json!([{"index": 0, "function": {"name": "add", "arguments": "{}"}}]));
    let server = Server::replying([stream(&[piece, finish("tool_calls")])]).await;
    let events = events(&server.model()).await.unwrap();
    let Some(ChatEvent::ToolCallStarted { id, .. }) = events.first() else { panic!("{events:?}") };
    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
    assert!(!id.is_empty());
    assert_eq!(&reply.message.tool_calls[0].id, id);
}

/// Behaviour M10: streamed.
#[tokio::test]
async fn an_empty_stream_is_asked_for_again() {
    let server = Server::replying([
        stream(&[finish("stop")]),
        stream(&[delta(json!({"content": "Hi"})), finish("stop")]),
    ])
    .await;
    let events = events(&server.model()).await.unwrap();
    assert_eq!(events.len(), 2, "{events:?}");
}

/// Behaviour M13: two parallel calls without `index`.
#[tokio::test]
async fn calls_without_index_are_told_apart() {
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

/// Behaviour M13: ids and names repeated on every delta, with and without `index`.
#[tokio::test]
async fn repeated_ids_do_not_begin_calls() {
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

/// Behaviour M13: the first index is 1, and the pieces of two calls are interleaved.
#[tokio::test]
async fn an_index_is_only_a_name() {
    let pieces = [
        call_delta(json!([{"index": 1, "id": "a", "function": {"name": "add", "arguments": "{\"x\""}}])),
        call_delta(json!([{"index": 2, "id": "b", "function": {"name": "add", "arguments": "{\"x\""}}])),
        call_delta(
            json!([{"index": 1, "function": {"arguments": ":1}"}}, {"index": 2, "function": {"arguments": ":2}"}}]),
        ),
    ];
    assert_eq!(calls(&pieces).await, [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)]);
}

/// Gemini's compatible endpoint counts every call as number 0.
#[tokio::test]
async fn one_index_for_two_calls_is_understood() {
    let piece = |id, x| json!({"index": 0, "id": id, "function": {"name": "add", "arguments": format!("{{\"x\":{x}}}")}});
    let pieces = [call_delta(json!([piece("a", 1)])), call_delta(json!([piece("b", 2)]))];
    assert_eq!(calls(&pieces).await, [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)]);
}

/// Nothing can continue complete JSON: what has the same number and no id is the next call.
#[tokio::test]
async fn one_index_for_two_calls_without_ids_is_understood() {
    let piece = |x| json!({"index": 0, "function": {"name": "add", "arguments": format!("{{\"x\":{x}}}")}});
    let arguments = |calls: Vec<ToolCall>| calls.into_iter().map(|call| call.arguments).collect::<Vec<_>>();
    let pieces = [call_delta(json!([piece(1)])), call_delta(json!([piece(2)]))];
    assert_eq!(arguments(calls(&pieces).await), [r#"{"x":1}"#, r#"{"x":2}"#]);
    let at_once = call_delta(json!([piece(1), piece(2)]));
    assert_eq!(arguments(calls(&[at_once]).await), [r#"{"x":1}"#, r#"{"x":2}"#]);
}

/// Behaviour M7 and M13: some servers give every call the same id.
#[tokio::test]
async fn one_id_for_two_calls_is_understood() {
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
            // In pieces of which each has the id.
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

/// Behaviour M13: the whole call once more, under its id, is no second call.
#[tokio::test]
async fn a_call_that_is_said_twice_is_one() {
    let whole = json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":1}"}});
    let half = |arguments: &str| {
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": arguments}}]))
    };
    let whole = call_delta(json!([whole]));
    assert_eq!(calls(&[whole.clone(), whole.clone()]).await, [add("a", r#"{"x":1}"#)]);
    assert_eq!(calls(&[half("{\"x\""), half(":1}"), half("\n"), whole]).await, [add("a", "{\"x\":1}\n")]);
}

/// LiteLLM begins with `{}` and then sends the arguments.
#[tokio::test]
async fn arguments_that_begin_with_none_are_those_that_come() {
    let begun = |arguments: &str| {
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": arguments}}]))
    };
    let more = |arguments: &str| call_delta(json!([{"index": 0, "function": {"arguments": arguments}}]));
    for pieces in [
        vec![begun("{}"), more("{\"x\""), more(":1}")],
        vec![begun("{}"), begun("{\"x\":1}")],
        vec![begun("{}"), more(""), more("{\"x\":1}")],
    ] {
        let server = Server::replying([stream(pieces.iter().chain([&finish("tool_calls")]))]).await;
        let mut events = events(&server.model()).await.unwrap();
        let Some(ChatEvent::Finished(reply)) = events.pop() else { panic!("{events:?}") };
        assert_eq!(reply.message.tool_calls, [add("a", r#"{"x":1}"#)]);
        let told = events.into_iter().filter_map(|event| match event {
            ChatEvent::ToolCallDelta { arguments, .. } => Some(arguments),
            _ => None,
        });
        assert_eq!(told.collect::<String>(), r#"{"x":1}"#);
    }
    assert_eq!(calls(&[begun("{}")]).await, [add("a", "{}")]);
}

/// The number of a call may come with its second piece.
#[tokio::test]
async fn a_call_may_be_numbered_late() {
    let pieces = [
        call_delta(json!([{"id": "a", "function": {"name": "add", "arguments": ""}}])),
        call_delta(json!([{"index": 0, "function": {"arguments": "{\"x\""}}])),
        call_delta(json!([{"index": 0, "function": {"arguments": ":1}"}}])),
        call_delta(json!([{"index": 1, "id": "b", "function": {"name": "add", "arguments": "{\"x\":2}"}}])),
    ];
    assert_eq!(calls(&pieces).await, [add("a", r#"{"x":1}"#), add("b", r#"{"x":2}"#)]);
}

/// Calls and items without end are refused while they come.
#[tokio::test]
async fn endless_calls_are_cut() {
    let piece = |index: usize| json!({"index": index, "function": {"name": "f"}});
    let many = call_delta((0..=REPLY_ITEMS).map(piece).collect());
    let error = last(stream([&many])).await.unwrap_err();
    assert!(matches!(&error, ModelError::InvalidResponse(it) if it.contains("calls")), "{error:?}");
}

/// A server may call its only choice what it likes.
#[tokio::test]
async fn a_lone_choice_counts_whatever_its_number() {
    let said =
        |index: u8, text: &str| json!({"index": index, "delta": {"content": text}, "finish_reason": null});
    let chunk = |choices: Value| json!({"choices": choices});
    let reply = last(stream([&chunk(json!([said(1, "H")])), &chunk(json!([said(1, "i")]))])).await.unwrap();
    assert_eq!(reply.message.text(), "Hi");
    let both = chunk(json!([said(1, "No"), said(0, "Yes")]));
    assert_eq!(last(stream([&both, &both])).await.unwrap().message.text(), "YesYes");
}

#[tokio::test]
async fn an_error_within_a_stream_is_an_error() {
    let broken = json!({"error": {"message": "worker died", "type": "server_error", "code": null}});
    let error = last(stream(&[delta(json!({"content": "Hi"})), broken])).await.unwrap_err();
    assert!(matches!(&error, ModelError::Server { body, .. } if body == "worker died"), "{error:?}");
}

/// Servers have many ways to say within a stream that it failed: what they say is told, whatever came before.
#[tokio::test]
async fn what_a_server_says_went_wrong_is_told() {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    for said in [
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
            let sent = format!("{STREAM}{before}{said}");
            let chat = last(sent.clone().into()).await.unwrap_err();
            assert!(matches!(&chat, ModelError::Server { body, .. } if body == "boom"), "{said}: {chat:?}");
            if said.contains("choices") {
                continue;
            }
            let server = Server::replying([sent.into_bytes()]).await;
            let responses = server.responses().max_retries(0).build().unwrap();
            let error = events(&responses).await.unwrap_err();
            assert!(matches!(&error, ModelError::Server { body, .. } if body == "boom"), "{said}: {error:?}");
        }
    }
}

/// What a server says went wrong has its kind also within a stream, and as the first event it is not asked again in vain.
#[tokio::test]
async fn an_error_within_a_stream_has_its_kind() {
    let long = "error: {\"code\":400,\"message\":\"x\",\"type\":\"exceed_context_size_error\"}\n\n";
    let error = last(reply("200 OK", "content-type: text/event-stream\r\n", long)).await.unwrap_err();
    assert!(matches!(error, ModelError::ContextTooLong(_)), "{error:?}");
    let busy = json!({"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "slow down"}}]});
    let error = last(stream([&busy])).await.unwrap_err();
    assert!(matches!(error, ModelError::RateLimited { permanent: false, .. }), "{error:?}");
}

/// What only shows that a server is alive, and what is odd beside the reply, costs nothing.
#[tokio::test]
async fn odd_events_cost_nothing_else() {
    let call = json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{}"}});
    let odd = [
        json!({"choices": [null]}),
        json!({"choices": {"delta": {"content": "H"}}}),
        json!({"choices": "none"}),
        json!({"choices": [{"delta": "none", "message": null}]}),
        json!({"choices": [{"delta": {"content": "i", "tool_calls": call}}]}),
        json!({"choices": [{"delta": {"tool_calls": [null, {"index": 0, "function": "none"}]}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}], "error": []}),
    ];
    let alive = "data: null\n\ndata: ping\n\ndata: keep-alive\n\n".as_bytes();
    let sent = [STREAM.as_bytes(), alive, &stream(&odd)[STREAM.len()..]].concat();
    let reply = last(sent).await.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.message.tool_calls), ("Hi", vec![add("a", "{}")]));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]});
    let reply = last(ok(&whole)).await.unwrap();
    assert_eq!(reply.message.text(), "Hi");
}

#[tokio::test]
async fn a_stream_without_a_content_type_is_understood() {
    let events = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(last(reply("200 OK", "", events)).await.unwrap().message.text(), "Hi");
}

/// Behaviour M15: what is not read waits at the server, outside of this process. The 8 MiB have room for what the system
/// holds of a connection.
#[tokio::test]
async fn a_slow_reader_slows_the_server() {
    let event = format!("data: {}\n\n", delta(json!({"content": "x".repeat(100)})));
    let (tell, stalled) = oneshot::channel();
    let script = vec![Step::Send(STREAM.into()), Step::Flood(event.repeat(100).into(), tell)];
    let server = Server::start([script]).await;
    let (model, request) = (server.model(), hello());
    let mut stream = model.stream(&request);
    for _ in 0..100 {
        assert!(stream.try_next().await.unwrap().is_some());
    }
    let sent = stalled.await.unwrap();
    assert!(sent < 8 << 20, "{sent} bytes went although nobody read");
}

/// Behaviour M16.
#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (tell, closed) = oneshot::channel();
    let hi = chunks(&[delta(json!({"content": "Hi"}))]);
    let server = Server::start([vec![Step::Send(hi), Step::Closed(tell)]]).await;
    let model = server.model();
    let request = hello();
    let mut stream = model.stream(&request);
    assert!(stream.try_next().await.unwrap().is_some());
    drop(stream);
    timeout(Duration::from_secs(1), closed).await.expect("still open after a second").unwrap();
}

/// Behaviour M17.
#[tokio::test]
async fn endless_arguments_are_cut() {
    let begin =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":\""}}]));
    let more = call_delta(json!([{"index": 0, "function": {"arguments": "x".repeat(ARGUMENT_BYTES / 4)}}]));
    let error = last(stream([&begin, &more, &more, &more, &more])).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::InvalidResponse(problem) if problem.contains("1048576")),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_endless_event_is_cut() {
    let server = Server::start([vec![
        Step::Send(STREAM.into()),
        Step::Send(b"data: ".to_vec()),
        Step::Send(vec![b'x'; 17 << 20]),
        Step::Stall,
    ]])
    .await;
    let error = events(&server.model()).await.unwrap_err();
    assert!(matches!(error, ModelError::InvalidResponse(_)), "{error:?}");
}

/// A word on how far a server is, is no part of the reply, and none of its errors.
#[tokio::test]
async fn progress_in_the_middle_of_a_stream_costs_nothing() {
    let queued = json!({"message": "queued"});
    let reply =
        last(stream([&queued, &delta(json!({"content": "Hi"})), &queued, &finish("stop")])).await.unwrap();
    assert_eq!(reply.message.text(), "Hi");
}

/// What comes in one piece is told in its order, an error behind what was heard before it, and the end once.
#[tokio::test]
async fn one_piece_may_hold_all_of_a_stream() {
    let text = delta(json!({"content": "Hi"}));
    let error = json!({"error": {"message": "boom", "code": 500}});
    for (sent, is_error) in [(stream(&[text.clone(), finish("stop")]), false), (chunks(&[text, error]), true)]
    {
        let server = Server::replying([sent]).await;
        let model = server.builder().max_retries(0).build().unwrap();
        let request = hello();
        let mut events = model.stream(&request);
        assert!(matches!(events.next().await, Some(Ok(ChatEvent::TextDelta { text })) if text == "Hi"));
        assert_eq!(events.next().await.unwrap().is_err(), is_error);
        assert!(events.next().await.is_none());
        assert!(events.next().await.is_none());
    }
}
