//! Streams that end early, and paused replies.

use std::time::Duration;

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel as _,
    model::{ChatEvent, FinishReason, ModelError},
};
use serde_json::{Value, json};

use crate::server::{STREAM, Server, Step, check_deltas, events_of, hello, message, ok_reply, stream_reply};

fn call_message() -> Value {
    message(
        json!([
            {"type": "text", "text": "I add."},
            {"type": "tool_use", "id": "t1", "name": "add", "input": {"x": 17, "y": 25}},
        ]),
        "tool_use",
    )
}

/// A stream that is cut anywhere before its stop reason is an error, and its call never runs.
#[tokio::test]
async fn cut_stream_is_an_error() {
    let events = events_of(&call_message());
    let stop = events.iter().position(|event| event["type"] == "message_delta").unwrap();
    for length in 1..=stop {
        let server = Server::with_replies([stream_reply(&events[..length])]).await;
        let model = server.builder("claude-opus-5-5").max_retries(0).build().unwrap();
        let error = model.stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
        let ModelError::Truncated { partial, .. } = error else { panic!("{error:?}") };
        assert!(partial.provider_data.is_empty());
    }
    // After the stop reason, the reply is complete.
    let server = Server::with_replies([stream_reply(&events[..=stop])]).await;
    let events: Vec<_> = server.model().stream(&hello()).try_collect().await.unwrap();
    assert!(matches!(events.last(), Some(ChatEvent::Finished(reply)) if reply.message.tool_calls.len() == 1));
}

#[tokio::test]
async fn stream_without_a_stop_reason_is_an_error() {
    let mut events = events_of(&call_message());
    events.retain(|event| event["type"] != "message_delta");
    let server = Server::with_replies([stream_reply(&events)]).await;
    let error = server.model().stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(error, ModelError::Truncated { .. }), "{error:?}");
}

/// `message_stop` ends a stream although the connection stays open.
#[tokio::test]
async fn message_stop_ends_the_stream() {
    let reply = stream_reply(&events_of(&call_message()));
    let server = Server::start([vec![Step::Send(reply), Step::Stall]]).await;
    let model = server.model();
    let request = hello();
    let events = model.stream(&request).try_collect::<Vec<_>>();
    let events = tokio::time::timeout(Duration::from_secs(1), events).await.unwrap().unwrap();
    assert!(matches!(events.last(), Some(ChatEvent::Finished(_))));
}

/// A stream that stalls in a call times out.
#[tokio::test]
async fn stalled_stream_times_out() {
    let events = events_of(&call_message());
    let server = Server::start([vec![Step::Send(stream_reply(&events[..6])), Step::Stall]]).await;
    let timeouts = haft_anthropic::Timeouts::default().with_idle(Duration::from_millis(20));
    let model = server.builder("claude-opus-5-5").max_retries(0).timeouts(timeouts).build().unwrap();
    let error = model.stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(error, ModelError::TimedOut { .. }), "{error:?}");
}

/// An error event fails the stream. Before any content, the request is repeated.
#[tokio::test]
async fn error_event_is_an_error() {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let mut events = events_of(&call_message());
    events.insert(4, error.clone());
    let server = Server::with_replies([stream_reply(&events)]).await;
    let failure = server.model().stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(matches!(failure, ModelError::Server { status: Some(529), .. }), "{failure:?}");
    let server =
        Server::with_replies([stream_reply([&error]), stream_reply(&events_of(&call_message()))]).await;
    let events = server.model().stream(&hello()).try_collect::<Vec<_>>().await.unwrap();
    assert!(matches!(events.last(), Some(ChatEvent::Finished(_))));
}

/// A server may stream although it was not asked to, and send types that are unknown.
#[tokio::test]
async fn unknown_events_are_ignored() {
    let mut events = events_of(&call_message());
    events.insert(2, json!({"type": "later_event", "index": 7}));
    events.insert(
        5,
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "later_delta", "x": 1}}),
    );
    let server = Server::with_replies([stream_reply(&events)]).await;
    let reply = server.model().chat(&hello()).await.unwrap();
    assert_eq!(reply.message.tool_calls[0].arguments.to_string(), r#"{"x":17,"y":25}"#);
    let server = Server::with_replies([STREAM.as_bytes().to_vec()]).await;
    assert!(server.builder("m").max_retries(0).build().unwrap().chat(&hello()).await.is_err());
}

fn paused_parts() -> [Value; 3] {
    let part = |blocks, reason: &str| message(blocks, reason);
    [
        part(
            json!([
                {"type": "thinking", "thinking": "I search.", "signature": "s1"},
                {"type": "text", "text": "I look it up."},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}},
            ]),
            "pause_turn",
        ),
        part(
            json!([
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
                {"type": "thinking", "thinking": "Again.", "signature": "s2"},
            ]),
            "pause_turn",
        ),
        part(
            json!([
                {"type": "text", "text": "It is ", "citations": null},
                {"type": "text", "text": "42.", "citations": [{"type": "web_search_result_location", "url": "https://a.example", "title": "A", "encrypted_index": "e", "cited_text": "42"}]},
                {"type": "tool_use", "id": "t1", "name": "add", "input": {"x": 1}},
            ]),
            "tool_use",
        ),
    ]
}

/// A paused reply is continued. The reply has all parts, and the usage of all requests.
#[tokio::test]
async fn paused_reply_is_continued() {
    let parts = paused_parts();
    let replies = parts.iter().map(ok_reply).chain(parts.iter().map(|part| stream_reply(&events_of(part))));
    let server = Server::with_replies(replies).await;
    let model = server.model();
    let whole = model.chat(&hello()).await.unwrap();
    let events: Vec<_> = model.stream(&hello()).try_collect().await.unwrap();
    let Some(ChatEvent::Finished(streamed)) = events.last() else { panic!("{events:?}") };
    assert_eq!(**streamed, whole);
    check_deltas(&events, &whole);
    assert_eq!(whole.message.text(), "I look it up.\n\nIt is 42.");
    assert_eq!(whole.message.reasoning.as_deref(), Some("I search.\n\nAgain."));
    assert_eq!(
        (whole.usage.requests, whole.usage.input_tokens, whole.finish_reason),
        (3, 180, FinishReason::ToolCalls)
    );
    assert_eq!(whole.message.hosted_calls.len(), 1);
    assert_eq!(whole.message.hosted_calls[0].output, json!([]));
    let range = whole.message.citations[0].range.clone().unwrap();
    assert_eq!(&whole.message.text()[range], "42.");
    // Each continuation ends with the reply so far.
    let requests = server.take_requests();
    assert_eq!(requests.len(), 6);
    let kinds = |body: &Value| -> Vec<_> {
        let last = body["messages"].as_array().unwrap().last().unwrap();
        last["content"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&requests[1].body), ["thinking", "text", "server_tool_use"]);
    assert_eq!(kinds(&requests[5].body), ["thinking", "text", "server_tool_use", "web_search_tool_result"]);
}

/// A reply that never ends is an error after 10 continuations, whole and streamed.
#[tokio::test]
async fn continuations_are_limited() {
    let part = message(json!([{"type": "text", "text": "x"}]), "pause_turn");
    let server = Server::with_replies((0..12).map(|_| ok_reply(&part))).await;
    let error = server.model().chat(&hello()).await.unwrap_err();
    assert_eq!(error.to_string(), "the reply was cut: the server paused it more than 10 times");
    assert_eq!(server.take_requests().len(), 11);
    let server = Server::with_replies((0..12).map(|_| stream_reply(&events_of(&part)))).await;
    let error = server.model().stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
    let ModelError::Truncated { partial, .. } = error else { panic!("{error:?}") };
    assert!(partial.text().starts_with('x') && partial.provider_data.is_empty());
}
