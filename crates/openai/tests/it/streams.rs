//! Replies that were streamed.

use std::time::Duration;

use futures::TryStreamExt as _;
use haft_core::{
    ChatEvent, ChatModel, ChatResponse, FinishReason, ModelError, TimeoutPhase, ToolCall, Usage, Value, json,
    limits::ARGUMENT_BYTES,
};
use haft_openai::Timeouts;
use tokio::{sync::oneshot, time::timeout};

use crate::server::{STREAM, Server, Step, chunks, hello, ok, reply, stream};

async fn events(model: &impl ChatModel) -> Result<Vec<ChatEvent>, ModelError> {
    model.stream(&hello()).try_collect().await
}

async fn last(bytes: Vec<u8>) -> Result<ChatResponse, ModelError> {
    let server = Server::replying([bytes]).await;
    let model = server.builder().max_retries(0).build().unwrap();
    match events(&model).await?.pop() {
        Some(ChatEvent::Finished(response)) => Ok(response),
        other => panic!("the last event is {other:?}"),
    }
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call_delta(calls: Value) -> Value {
    delta(json!({"tool_calls": calls}))
}

async fn calls(deltas: &[Value]) -> Vec<ToolCall> {
    let end = finish("tool_calls");
    last(stream(deltas.iter().chain([&end]))).await.unwrap().message.tool_calls
}

fn add(id: &str, arguments: &str) -> ToolCall {
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

/// FAULTS M6: streamed.
#[tokio::test]
async fn an_unknown_finish_reason_is_kept_and_error_is_a_failure() {
    for reason in ["eos_token", ""] {
        let reply = last(stream(&[delta(json!({"content": "Hi"})), finish(reason)])).await.unwrap();
        assert_eq!(reply.finish_reason, FinishReason::Other(reason.to_owned()));
        assert_eq!(reply.message.text(), "Hi");
    }
    let error = last(stream(&[delta(json!({"content": "Hi"})), finish("error")])).await.unwrap_err();
    assert!(matches!(error, ModelError::Server { .. }), "{error:?}");
}

/// FAULTS M11: Ollama and SGLang send an empty reason with each chunk; it ends nothing.
#[tokio::test]
async fn an_empty_reason_does_not_end_a_stream() {
    let unended = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": ""}]});
    let text = unended(json!({"content": "Once upon"}));
    let error = last(chunks([&text])).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Truncated { partial, .. } if partial.text() == "Once upon"),
        "{error:?}"
    );

    let half =
        unended(json!({"tool_calls": [{"id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]}));
    let server = Server::start([vec![Step::Send(chunks([&half])), Step::Stall]]).await;
    let short = Timeouts::default().with_idle(Duration::from_millis(50));
    let model = server.builder().timeouts(short).build().unwrap();
    let error = events(&model).await.unwrap_err();
    assert!(matches!(error, ModelError::TimedOut { phase: TimeoutPhase::Idle, .. }), "{error:?}");

    let usage = json!({"choices": [{"delta": {}, "finish_reason": ""}], "usage": {"prompt_tokens": 1}});
    let reply = last(chunks([&text, &finish("stop"), &usage])).await.unwrap();
    assert_eq!(reply.finish_reason, FinishReason::Stop, "an empty reason hides none");
}

/// Some servers end the reasoning with a reason: what comes after it is part of the reply, and may be cut.
#[tokio::test]
async fn a_reason_before_the_end_does_not_end_a_stream() {
    let thought = json!({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "stop"}]});
    let error = last(chunks([&thought, &delta(json!({"content": "Once"}))])).await.unwrap_err();
    assert!(matches!(&error, ModelError::Truncated { partial, .. } if partial.text() == "Once"), "{error:?}");

    let reply = last(stream([&thought, &delta(json!({"content": "Hi"}))])).await.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.finish_reason), ("Hi", FinishReason::Stop));

    let half = call_delta(json!([{"id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    let error = last(stream([&thought, &half])).await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");
}

/// The wait after the reason that ends an answer is short, the wait for more of a reply is not.
#[tokio::test]
async fn what_follows_a_reason_is_waited_for_as_before() {
    let thought = json!({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "stop"}]});
    let event = |chunk: Value| Step::Send(format!("data: {chunk}\n\n").into());
    let pause = || Step::Pause(Duration::from_millis(2500));
    let server = Server::start([vec![
        Step::Send(chunks([&thought])),
        pause(),
        event(delta(json!({"content": "Hi"}))),
        pause(),
        event(json!({"choices": [{"delta": {"content": "!"}, "finish_reason": "stop"}]})),
    ]])
    .await;
    let Some(ChatEvent::Finished(reply)) = events(&server.model()).await.unwrap().pop() else { panic!() };
    assert_eq!(reply.message.text(), "Hi!");
}

/// FAULTS M7: streamed.
#[tokio::test]
async fn arguments_are_made_text() {
    for (sent, expected) in [(json!({"x": 1}), r#"{"x":1}"#), (json!(null), "{}"), (json!(""), "{}")] {
        let piece =
            call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": sent}}]));
        assert_eq!(calls(&[piece]).await, [add("a", expected)]);
    }
}

/// FAULTS M7: a call without an id has the same made one from its first event to the end.
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

/// FAULTS M8: streamed.
#[tokio::test]
async fn length_filter_and_refusal_are_three_outcomes() {
    let half =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    let error = last(stream(&[half, finish("length")])).await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");

    let filtered = last(stream(&[delta(json!({"content": "I "})), finish("content_filter")])).await.unwrap();
    assert_eq!(filtered.finish_reason, FinishReason::ContentFilter);

    let refusal = [delta(json!({"refusal": "I "})), delta(json!({"refusal": "can't."})), finish("stop")];
    let refused = last(stream(&refusal)).await.unwrap();
    assert_eq!(refused.message.refusal.as_deref(), Some("I can't."));
}

/// FAULTS M8: every word for a limit is one, and a call that had no arguments yet may have been about to get some.
#[tokio::test]
async fn a_call_without_arguments_yet_is_cut_by_a_limit() {
    let call = call_delta(json!([{"index": 0, "id": "a", "function": {"name": "wipe", "arguments": ""}}]));
    for reason in ["length", "model_length", "max_tokens", "MAX_TOKENS", "content_filter"] {
        let error = last(stream([&call, &finish(reason)])).await.unwrap_err();
        assert!(matches!(error, ModelError::Truncated { .. }), "{reason}: {error:?}");
        let text = last(stream([&delta(json!({"content": "I "})), &finish(reason)])).await.unwrap();
        assert!(matches!(text.finish_reason, FinishReason::Length | FinishReason::ContentFilter), "{reason}");
    }
    assert_eq!(calls(&[call]).await, [ToolCall::new("a", "wipe", "{}")], "complete, by the server's word");
}

/// FAULTS M8: half a call is a mistake of the model only where the server says that the model had said all.
#[tokio::test]
async fn half_a_call_runs_under_no_reason() {
    let half =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    for end in [finish("eos_token"), finish(""), delta(json!({}))] {
        let error = last(stream([&half, &end])).await.unwrap_err();
        let ModelError::Truncated { reason, .. } = &error else { panic!("{error:?}") };
        assert_eq!(reason, "it ended inside the call of \"add\"");
    }
    assert_eq!(calls(&[half]).await, [add("a", "{\"x\":")]);
}

/// FAULTS M10: streamed.
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

/// FAULTS M11: neither `finish_reason` nor `[DONE]`.
#[tokio::test]
async fn a_stream_that_just_ends_is_truncated() {
    let error = last(chunks(&[delta(json!({"content": "Once upon"}))])).await.unwrap_err();
    let ModelError::Truncated { partial, .. } = &error else { panic!("{error:?}") };
    assert_eq!(partial.text(), "Once upon");
}

/// FAULTS M11: cut inside an event, the text before it is kept; ended by `[DONE]` with nothing before it, it is empty.
#[tokio::test]
async fn how_a_stream_ends_decides_what_is_left() {
    let half_event =
        [chunks([&delta(json!({"content": "Once"}))]), b"data: {\"choices\":[{\"de".to_vec()].concat();
    let error = last(half_event).await.unwrap_err();
    assert!(matches!(&error, ModelError::Truncated { partial, .. } if partial.text() == "Once"), "{error:?}");
    let nothing = [chunks([]), b"data: [DONE]".to_vec()].concat();
    assert!(matches!(last(nothing).await, Err(ModelError::EmptyResponse)));
}

/// FAULTS M11: one of them is enough, also without the line break after it.
#[tokio::test]
async fn a_reason_or_done_ends_a_stream() {
    let text = delta(json!({"content": "Hi"}));
    let reasoned = chunks(&[text.clone(), finish("stop")]);
    let done = [chunks([&text]), b"data: [DONE]".to_vec()].concat();
    for bytes in [reasoned, stream([&text]), done] {
        let reply = last(bytes).await.unwrap();
        assert_eq!((reply.message.text().as_str(), reply.finish_reason), ("Hi", FinishReason::Stop));
    }
}

/// FAULTS M12.
#[tokio::test]
async fn a_reset_inside_arguments_gives_no_call() {
    let half =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    let server = Server::start([vec![Step::Send(chunks([&half])), Step::Reset]]).await;
    let error = events(&server.model()).await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");
    assert_eq!(server.take_requests().len(), 1, "what was seen in part is not asked for again");
}

/// FAULTS M13: two parallel calls without `index`.
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

/// FAULTS M13: ids and names repeated on every delta, with and without `index`.
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

/// FAULTS M13: the first index is 1, and the pieces of two calls are interleaved.
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

#[tokio::test]
async fn an_error_within_a_stream_is_an_error() {
    let broken = json!({"error": {"message": "worker died", "type": "server_error", "code": null}});
    let error = last(stream(&[delta(json!({"content": "Hi"})), broken])).await.unwrap_err();
    assert!(matches!(&error, ModelError::Server { body, .. } if body == "worker died"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole = json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]});
    let reply = last(ok(&whole)).await.unwrap();
    assert_eq!(reply.message.text(), "Hi");
}

/// Nobody waits two minutes for a server that said why it stopped, and then nothing more.
#[tokio::test]
async fn a_finished_reply_does_not_wait_for_done() {
    let whole = chunks(&[delta(json!({"content": "Hi"})), finish("stop")]);
    let server = Server::start([vec![Step::Send(whole), Step::Stall]]).await;
    let events = timeout(Duration::from_secs(30), events(&server.model())).await.unwrap().unwrap();
    assert!(matches!(events.last(), Some(ChatEvent::Finished(_))), "{events:?}");
}

#[tokio::test]
async fn a_stream_without_a_content_type_is_understood() {
    let events = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(last(reply("200 OK", "", events)).await.unwrap().message.text(), "Hi");
}

/// FAULTS M15: what is not read waits at the server, outside of this process. The 8 MiB have room for what the system
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

/// FAULTS M16.
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

/// FAULTS M17.
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
