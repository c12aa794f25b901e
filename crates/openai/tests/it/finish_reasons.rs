//! Tests of finish reasons and of the end of a stream.

use std::time::Duration;

use haft_core::{
    ChatModel as _, ToolCall,
    model::{ChatEvent, ChatResponse, FinishReason, ModelError, TimeoutPhase},
};
use haft_openai::Timeouts;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    server::{Server, Step, chunks_reply, hello, minimal_reply, ok_reply, stream_reply},
    streams::{add, call_delta, calls, delta, finish, stream_events, streamed_response},
};

/// A streamed reply with an unknown or empty finish reason is returned, with the reason unchanged.
/// A reply with the reason `error` is returned as an error.
#[tokio::test]
async fn unknown_finish_reason_is_kept_and_error_is_a_failure() {
    for reason in ["tired", ""] {
        let reply = streamed_response(stream_reply(&[delta(json!({"content": "Hi"})), finish(reason)]))
            .await
            .unwrap();
        assert_eq!(reply.finish_reason, FinishReason::Other(reason.to_owned()));
        assert_eq!(reply.message.text(), "Hi");
    }
    let error = streamed_response(stream_reply(&[delta(json!({"content": "Hi"})), finish("error")]))
        .await
        .unwrap_err();
    assert!(matches!(error, ModelError::Server { .. }), "{error:?}");
}

/// Receives a reply with `content` and the finish reason `reason`. Returns the results of a
/// non-streamed and of a streamed request.
async fn both_ways(content: &str, reason: &str) -> [Result<ChatResponse, ModelError>; 2] {
    let choice = json!({"choices": [{"message": {"content": content}, "finish_reason": reason}]});
    let streamed =
        streamed_response(stream_reply([&delta(json!({"content": content})), &finish(reason)])).await;
    let server = Server::with_replies([ok_reply(&choice)]).await;
    [server.builder().max_retries(0).build().unwrap().chat(&hello()).await, streamed]
}

/// The finish reasons of many servers are recognized as a regular end.
#[tokio::test]
async fn regular_finish_reasons_are_recognized() {
    for reason in ["stop", "STOP", "eos", "eos_token", "end_turn", "stop_sequence", "end", "COMPLETE"] {
        for reply in both_ways("Hi", reason).await {
            assert_eq!(reply.unwrap().finish_reason, FinishReason::Stop, "{reason}");
        }
    }
    // The reply announces calls and has none. The run rejects it.
    for reason in ["tool_calls", "TOOL_CALLS", "tool_call", "function_call", "tool_use"] {
        for reply in both_ways("Hi", reason).await {
            assert_eq!(reply.unwrap().finish_reason, FinishReason::ToolCalls, "{reason}");
        }
    }
    for reason in ["end_turn", "tool_use", "tool_call", "eos"] {
        let call =
            call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
        let reply = streamed_response(stream_reply([&call, &finish(reason)])).await.unwrap();
        assert_eq!(reply.finish_reason, FinishReason::ToolCalls, "the model wrote incomplete arguments");
    }
}

/// If the server interrupts a reply, the result is an error that contains the partial text.
#[tokio::test]
async fn interruption_by_the_server_is_truncated() {
    for reason in [
        "insufficient_system_resource",
        "abort",
        "aborted",
        "network_error",
        "cancelled",
        "timeout",
        "incomplete",
    ] {
        for error in both_ways("Half a", reason).await {
            let Err(ModelError::Truncated { partial, .. }) = &error else { panic!("{reason}: {error:?}") };
            assert_eq!(partial.text(), "Half a");
        }
    }
    let nothing = json!({"choices": [{"message": {"content": null}, "finish_reason": "abort"}]});
    let server = Server::with_replies([ok_reply(&nothing), minimal_reply()]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi", "retried");
}

/// If the server could not read a call of the model, the result is an error with the text of the
/// model, which an agent returns to the model.
#[tokio::test]
async fn malformed_call_is_an_invalid_generation() {
    for reason in
        ["MALFORMED_FUNCTION_CALL", "function_call_filter: MALFORMED_FUNCTION_CALL", "unexpected_tool_call"]
    {
        for error in both_ways("add(", reason).await {
            let Err(ModelError::InvalidGeneration { generation, .. }) = &error else {
                panic!("{reason}: {error:?}")
            };
            assert_eq!(generation.as_deref(), Some("add("));
        }
    }
    for reply in both_ways("Half a", "content_filter: RECITATION").await {
        assert_eq!(reply.unwrap().finish_reason, FinishReason::ContentFilter);
    }
}

/// The finish reasons of many servers are recognized as a token limit or a content filter.
#[tokio::test]
async fn reasons_for_limits_and_filters_are_recognized() {
    let limits =
        ["length", "MAX_TOKENS", "max_output_tokens", "model_length", "model_context_window_exceeded"];
    let filters = [
        "content_filter",
        "content_filtered",
        "SAFETY",
        "RECITATION",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "SPII",
        "sensitive",
        "refusal",
    ];
    let limits = limits.map(|reason| (reason, FinishReason::Length));
    for (reason, expected) in
        limits.into_iter().chain(filters.map(|reason| (reason, FinishReason::ContentFilter)))
    {
        for content in ["Half a", ""] {
            for reply in both_ways(content, reason).await {
                assert_eq!(reply.unwrap().finish_reason, expected, "{reason}");
            }
        }
    }
}

/// An empty finish reason does not end a stream, because Ollama and SGLang send an empty reason
/// with each chunk.
#[tokio::test]
async fn empty_reason_does_not_end_a_stream() {
    let unended = |delta: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": ""}]});
    let text = unended(json!({"content": "Once upon"}));
    let error = streamed_response(chunks_reply([&text])).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Truncated { partial, .. } if partial.text() == "Once upon"),
        "{error:?}"
    );

    let half =
        unended(json!({"tool_calls": [{"id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]}));
    let server = Server::start([vec![Step::Send(chunks_reply([&half])), Step::Stall]]).await;
    let short = Timeouts::default().with_idle(Duration::from_millis(50));
    let model = server.builder().timeouts(short).build().unwrap();
    let error = stream_events(&model).await.unwrap_err();
    assert!(matches!(error, ModelError::TimedOut { phase: TimeoutPhase::Idle, .. }), "{error:?}");

    let usage = json!({"choices": [{"delta": {}, "finish_reason": ""}], "usage": {"prompt_tokens": 1}});
    let reply = streamed_response(chunks_reply([&text, &finish("stop"), &usage])).await.unwrap();
    assert_eq!(reply.finish_reason, FinishReason::Stop, "an empty reason replaces no reason");
}

/// Some servers send a finish reason at the end of the reasoning, before the answer. The content
/// after this finish reason must not be lost.
#[tokio::test]
async fn content_after_a_reason_reopens_the_stream() {
    let thought = json!({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "stop"}]});
    let error =
        streamed_response(chunks_reply([&thought, &delta(json!({"content": "Once"}))])).await.unwrap_err();
    assert!(matches!(&error, ModelError::Truncated { partial, .. } if partial.text() == "Once"), "{error:?}");

    let reply = streamed_response(stream_reply([&thought, &delta(json!({"content": "Hi"}))])).await.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.finish_reason), ("Hi", FinishReason::Stop));

    let half = call_delta(json!([{"id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    let error = streamed_response(stream_reply([&thought, &half])).await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");
}

/// After a finish reason, the client waits at most 2 s for the usage. This limit must not apply
/// between the reasoning and the content.
#[tokio::test]
async fn usage_wait_ends_with_new_content() {
    let thought = json!({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "stop"}]});
    let event = |chunk: Value| Step::Send(format!("data: {chunk}\n\n").into());
    let pause = || Step::Pause(Duration::from_millis(2500));
    let server = Server::start([vec![
        Step::Send(chunks_reply([&thought])),
        pause(),
        event(delta(json!({"content": "Hi"}))),
        pause(),
        event(json!({"choices": [{"delta": {"content": "!"}, "finish_reason": "stop"}]})),
    ]])
    .await;
    let Some(ChatEvent::Finished(reply)) = stream_events(&server.model()).await.unwrap().pop() else {
        panic!()
    };
    assert_eq!(reply.message.text(), "Hi!");
}

/// A token limit, a content filter and a refusal are also distinguished in streams.
#[tokio::test]
async fn length_filter_and_refusal_are_three_outcomes() {
    let half =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    let error = streamed_response(stream_reply(&[half, finish("length")])).await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");

    let filtered =
        streamed_response(stream_reply(&[delta(json!({"content": "I "})), finish("content_filter")]))
            .await
            .unwrap();
    assert_eq!(filtered.finish_reason, FinishReason::ContentFilter);

    let refusal = [delta(json!({"refusal": "I "})), delta(json!({"refusal": "can't."})), finish("stop")];
    let refused = streamed_response(stream_reply(&refusal)).await.unwrap();
    assert_eq!(refused.message.refusal.as_deref(), Some("I can't."));
}

/// A call without arguments is incomplete if a token limit or a content filter stopped the reply.
#[tokio::test]
async fn call_without_arguments_is_truncated_by_a_limit() {
    let call = call_delta(json!([{"index": 0, "id": "a", "function": {"name": "wipe", "arguments": ""}}]));
    for reason in ["length", "model_length", "max_tokens", "MAX_TOKENS", "content_filter"] {
        let error = streamed_response(stream_reply([&call, &finish(reason)])).await.unwrap_err();
        assert!(matches!(error, ModelError::Truncated { .. }), "{reason}: {error:?}");
        let text = streamed_response(stream_reply([&delta(json!({"content": "I "})), &finish(reason)]))
            .await
            .unwrap();
        assert!(matches!(text.finish_reason, FinishReason::Length | FinishReason::ContentFilter), "{reason}");
    }
    assert_eq!(calls(&[call]).await, [ToolCall::new("a", "wipe", "{}")], "complete by its finish reason");
}

/// A call with incomplete arguments is returned only if the finish reason is regular.
#[tokio::test]
async fn incomplete_call_is_truncated_without_a_regular_finish_reason() {
    let half =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    for end in [finish("tired"), finish(""), delta(json!({}))] {
        let error = streamed_response(stream_reply([&half, &end])).await.unwrap_err();
        let ModelError::Truncated { reason, .. } = &error else { panic!("{error:?}") };
        assert_eq!(reason, "it ended inside the call of \"add\"");
    }
    assert_eq!(calls(&[half]).await, [add("a", "{\"x\":")]);
}

/// Arguments that are nested deeper than the parser allows are not treated as truncated. The
/// pipeline rejects the call with a message for the model.
#[tokio::test]
async fn deep_arguments_are_not_truncated() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let call = call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": deep}}]));
    let reply = streamed_response(stream_reply([&call, &finish("tired")])).await.unwrap();
    assert_eq!(reply.message.tool_calls, [add("a", &deep)]);
}

/// A stream with neither a `finish_reason` nor `[DONE]` is reported as truncated.
#[tokio::test]
async fn stream_without_finish_reason_and_done_is_truncated() {
    let error = streamed_response(chunks_reply(&[delta(json!({"content": "Once upon"}))])).await.unwrap_err();
    let ModelError::Truncated { partial, .. } = &error else { panic!("{error:?}") };
    assert_eq!(partial.text(), "Once upon");
}

/// A stream that ends inside an event is reported as truncated. A stream that contains only
/// `[DONE]` is reported as empty.
#[tokio::test]
async fn stream_ending_inside_an_event_is_truncated() {
    let half_event =
        [chunks_reply([&delta(json!({"content": "Once"}))]), b"data: {\"choices\":[{\"de".to_vec()].concat();
    let error = streamed_response(half_event).await.unwrap_err();
    assert!(matches!(&error, ModelError::Truncated { partial, .. } if partial.text() == "Once"), "{error:?}");
    let nothing = [chunks_reply([]), b"data: [DONE]".to_vec()].concat();
    assert!(matches!(streamed_response(nothing).await, Err(ModelError::EmptyResponse)));
}

/// A `finish_reason` or `[DONE]` ends a stream, and `[DONE]` needs no line break after it.
#[tokio::test]
async fn finish_reason_or_done_ends_a_stream() {
    let text = delta(json!({"content": "Hi"}));
    let reasoned = chunks_reply(&[text.clone(), finish("stop")]);
    let done = [chunks_reply([&text]), b"data: [DONE]".to_vec()].concat();
    for bytes in [reasoned, stream_reply([&text]), done] {
        let reply = streamed_response(bytes).await.unwrap();
        assert_eq!((reply.message.text().as_str(), reply.finish_reason), ("Hi", FinishReason::Stop));
    }
}

/// If the connection is reset inside the arguments of a call, the call is not returned, so no tool
/// runs.
#[tokio::test]
async fn reset_inside_arguments_is_truncated() {
    let half =
        call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}}]));
    let server = Server::start([vec![Step::Send(chunks_reply([&half])), Step::Reset]]).await;
    let error = stream_events(&server.model()).await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");
    assert_eq!(server.take_requests().len(), 1, "a partly emitted reply is not retried");
}

/// A finished reply is returned even if the server then stalls or keeps sending comments.
#[tokio::test]
async fn finished_reply_does_not_wait_for_done() {
    let whole = chunks_reply(&[delta(json!({"content": "Hi"})), finish("stop")]);
    for after in [Step::Stall, Step::Drip(b": ping\n\n", Duration::from_millis(100))] {
        let server = Server::start([vec![Step::Send(whole.clone()), after]]).await;
        let events = timeout(Duration::from_secs(30), stream_events(&server.model())).await.unwrap().unwrap();
        assert!(matches!(events.last(), Some(ChatEvent::Finished(_))), "{events:?}");
    }
}

#[tokio::test]
async fn repeated_call_after_the_end_does_not_reopen_the_stream() {
    let piece = json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":1}"}}]);
    let reply = streamed_response(chunks_reply([
        &call_delta(piece.clone()),
        &finish("tool_calls"),
        &call_delta(piece),
    ]))
    .await
    .unwrap();
    assert_eq!(reply.message.tool_calls, [ToolCall::new("a", "add", r#"{"x":1}"#)]);
}
