//! Tests of the HTTP transport, which the models of the Chat Completions API and of the Responses
//! API share. Each test runs with both models.

use std::{sync::Arc, time::Duration};

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel,
    limits::ARGUMENT_BYTES,
    model::{ChatEvent, ModelError, TimeoutPhase},
};
use haft_openai::{ModelBuilder, Timeouts};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    server::{STREAM, Server, Step, chunks_reply, hello, ok_reply, reply},
    streams::{call_delta, delta, finish},
};

/// A test case for one API: its path, replies, stream events and model.
struct ApiCase {
    path: &'static str,
    /// A non-streamed reply with the text `Hi`.
    minimal_reply: Value,
    /// A stream event with the text `Hi`.
    text: Value,
    /// A function that returns a stream event with a piece of the arguments for a call to `add`.
    arguments: fn(&str) -> Value,
    /// The event that ends a complete stream.
    end: Value,
    model: fn(&Server, Options) -> Arc<dyn ChatModel>,
}

#[derive(Clone, Default)]
struct Options {
    timeouts: Timeouts,
    retries: u32,
    key: &'static str,
}

impl Options {
    fn apply_to<M>(self, builder: ModelBuilder<M>) -> ModelBuilder<M> {
        builder.timeouts(self.timeouts).max_retries(self.retries).api_key(self.key)
    }
}

fn both_apis() -> [ApiCase; 2] {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let whole = json!({"id": "r", "status": "completed", "output": [message]});
    [
        ApiCase {
            path: "/v1/chat/completions",
            minimal_reply: json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
            text: delta(json!({"content": "Hi"})),
            arguments: |piece| {
                call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": piece}}]))
            },
            end: finish("stop"),
            model: |server, options| Arc::new(options.apply_to(server.builder()).build().unwrap()),
        },
        ApiCase {
            path: "/v1/responses",
            minimal_reply: whole.clone(),
            text: json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "Hi"}),
            arguments: |piece| {
                let event = "response.function_call_arguments.delta";
                json!({"type": event, "output_index": 0, "item_id": "fc", "delta": piece})
            },
            end: json!({"type": "response.completed", "response": whole}),
            model: |server, options| Arc::new(options.apply_to(server.responses()).build().unwrap()),
        },
    ]
}

async fn streamed(model: &dyn ChatModel) -> Result<Vec<ChatEvent>, ModelError> {
    model.stream(&hello()).try_collect().await
}

#[tokio::test]
async fn request_goes_to_the_path_of_its_api() {
    for api in both_apis() {
        let server = Server::with_replies([ok_reply(&api.minimal_reply)]).await;
        let reply = (api.model)(&server, Options::default()).chat(&hello()).await.unwrap();
        assert_eq!(reply.message.text(), "Hi");
        let head = server.take_requests().remove(0).head;
        assert!(head.starts_with(&format!("POST {} HTTP/1.1", api.path)), "{head}");
    }
}

/// Transient errors are retried regardless of the response body, with and without streaming.
#[tokio::test]
async fn transient_errors_are_retried() {
    let empty = json!({"choices": [], "output": [], "status": "completed"});
    let failures = [
        Some(reply("429 Too Many Requests", "retry-after-ms: 1\r\n", "<html>slow</html>")),
        Some(reply("503 Service Unavailable", "", "")),
        Some(ok_reply(&empty)),
        Some(chunks_reply([])),
        Some(ok_reply(&json!({"error": {"message": "overloaded"}}))),
        None,
    ];
    for api in both_apis() {
        for failure in &failures {
            for is_streamed in [false, true] {
                let fails = || vec![failure.clone().map_or(Step::Reset, Step::Send)];
                let server =
                    Server::start([fails(), fails(), vec![Step::Send(ok_reply(&api.minimal_reply))]]).await;
                let model = (api.model)(&server, Options { retries: 2, ..Options::default() });
                let text = if is_streamed {
                    let events = streamed(&*model).await.unwrap();
                    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
                    reply.message.text()
                } else {
                    model.chat(&hello()).await.unwrap().message.text()
                };
                assert_eq!((text.as_str(), server.take_requests().len()), ("Hi", 3), "{}", api.path);
            }
        }
    }
}

/// Permanent errors are not retried, and their text does not contain the API key.
#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for api in both_apis() {
        for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found"] {
            let rejection = reply(status, "", "not with sk-secret-1");
            let server = Server::with_replies([rejection.clone(), rejection]).await;
            let model =
                (api.model)(&server, Options { retries: 2, key: "sk-secret-1", ..Options::default() });
            let error = model.chat(&hello()).await.unwrap_err();
            assert!(!error.is_transient() && !format!("{error:?}").contains("sk-secret"), "{error:?}");
            assert_eq!(server.take_requests().len(), 1);
        }
        let quota = json!({"error": {"message": "pay", "code": "insufficient_quota"}}).to_string();
        let server = Server::with_replies([reply("429 Too Many Requests", "", &quota)]).await;
        let error = (api.model)(&server, Options::default()).chat(&hello()).await.unwrap_err();
        assert!(matches!(error, ModelError::RateLimited { permanent: true, .. }), "{error:?}");
    }
}

/// Each phase of a request has its own timeout.
#[tokio::test]
async fn every_phase_times_out() {
    let short = Duration::from_millis(50);
    let begun = || vec![Step::Send(STREAM.into()), Step::Send(b": ping\n\n".into()), Step::Stall];
    for api in both_apis() {
        let cases = [
            (vec![Step::Stall], Timeouts::default().with_first_byte(short), TimeoutPhase::FirstByte),
            (begun(), Timeouts::default().with_idle(short), TimeoutPhase::Idle),
            (begun(), Timeouts::default().with_total(short), TimeoutPhase::Total),
            (
                vec![Step::Send(chunks_reply([&(api.arguments)("{\"x\":")])), Step::Stall],
                Timeouts::default().with_idle(short),
                TimeoutPhase::Idle,
            ),
        ];
        for (script, timeouts, expected) in cases {
            let server = Server::start([script]).await;
            let model = (api.model)(&server, Options { timeouts, ..Options::default() });
            match model.chat(&hello()).await {
                Err(ModelError::TimedOut { phase, .. }) => assert_eq!(phase, expected, "{}", api.path),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// If the connection is closed or reset inside a stream, the result is an error with the partial
/// text, and no call is returned.
#[tokio::test]
async fn interrupted_stream_is_truncated() {
    for api in both_apis() {
        let half = (api.arguments)("{\"x\":");
        for (script, text) in [
            (vec![Step::Send(chunks_reply([&api.text]))], "Hi"),
            (
                vec![
                    Step::Send(chunks_reply([&api.text])),
                    Step::Pause(Duration::from_millis(50)),
                    Step::Reset,
                ],
                "Hi",
            ),
            (vec![Step::Send(chunks_reply([&half]))], ""),
            (
                vec![Step::Send(chunks_reply([&api.text])), Step::Send(b"data: {\"type\": \"resp".to_vec())],
                "Hi",
            ),
        ] {
            let server = Server::start([script]).await;
            let error = streamed(&*(api.model)(&server, Options::default())).await.unwrap_err();
            let ModelError::Truncated { partial, .. } = &error else { panic!("{error:?}") };
            assert_eq!(partial.text(), text, "{}", api.path);
        }
    }
}

/// A stream finishes after its last event even if the server sends no `[DONE]` and keeps the
/// connection open. A streamed reply to a request with `stream: false` is also accepted.
#[tokio::test]
async fn stream_finishes_without_done_or_eof() {
    for api in both_apis() {
        let whole = chunks_reply([&api.text, &api.end]);
        for after in [Step::Stall, Step::Drip(b": ping\n\n", Duration::from_millis(100))] {
            let server = Server::start([vec![Step::Send(whole.clone()), after]]).await;
            let model = (api.model)(&server, Options::default());
            let events = timeout(Duration::from_secs(30), streamed(&*model)).await.unwrap().unwrap();
            assert!(matches!(events.last(), Some(ChatEvent::Finished(_))), "{events:?}");
        }
        let server = Server::with_replies([whole]).await;
        let reply = (api.model)(&server, Options::default()).chat(&hello()).await.unwrap();
        assert_eq!(reply.message.text(), "Hi");
    }
}

/// A slow reader applies back-pressure to the server, and dropping a stream closes its connection.
#[tokio::test]
async fn slow_reader_applies_backpressure_and_drop_closes_connection() {
    for api in both_apis() {
        let event = format!("data: {}\n\n", api.text);
        let (sender, stalled) = oneshot::channel();
        let script = vec![Step::Send(STREAM.into()), Step::Flood(event.repeat(100).into(), sender)];
        let server = Server::start([script]).await;
        let (model, request) = ((api.model)(&server, Options::default()), hello());
        let mut stream = model.stream(&request);
        for _ in 0..100 {
            assert!(stream.try_next().await.unwrap().is_some());
        }
        let sent = stalled.await.unwrap();
        assert!(sent < 8 << 20, "{sent} bytes were sent without a reader");
        drop(stream);

        let (sender, closed) = oneshot::channel();
        let server = Server::start([vec![Step::Send(chunks_reply([&api.text])), Step::Closed(sender)]]).await;
        let model = (api.model)(&server, Options::default());
        let mut stream = model.stream(&request);
        assert!(stream.try_next().await.unwrap().is_some());
        drop(stream);
        timeout(Duration::from_secs(1), closed).await.expect("still open after a second").unwrap();
    }
}

/// Arguments above 1 MiB and oversized events are rejected.
#[tokio::test]
async fn oversized_arguments_and_events_are_rejected() {
    for api in both_apis() {
        let more = (api.arguments)(&"x".repeat(ARGUMENT_BYTES / 4));
        let arguments = vec![Step::Send(chunks_reply(std::iter::repeat_n(&more, 5)))];
        let event =
            vec![Step::Send(STREAM.into()), Step::Send(b"data: ".to_vec()), Step::Send(vec![b'x'; 17 << 20])];
        for script in [arguments, event] {
            let server = Server::start([script]).await;
            let error = streamed(&*(api.model)(&server, Options::default())).await.unwrap_err();
            assert!(matches!(error, ModelError::InvalidResponse(_)), "{}: {error:?}", api.path);
        }
    }
}

/// An error inside a stream does not contain the API key.
#[tokio::test]
async fn key_in_a_stream_error_is_redacted() {
    let broken = json!({"error": {"message": "no such key: sk-secret-1"}});
    for api in both_apis() {
        let server = Server::with_replies([chunks_reply([&api.text, &broken])]).await;
        let model = (api.model)(&server, Options { key: "sk-secret-1", ..Options::default() });
        let error = streamed(&*model).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("[secret]") && !shown.contains("sk-secret"), "{shown}");
    }
}

type IsExpected<'a> = &'a dyn Fn(&ModelError) -> bool;

/// A cause has one kind of error, whether it arrives as a status, in a stream or in a reply with
/// status 200, plain or inside the error of a gateway. It is asked once, and the message is that of
/// the innermost error, without the key.
#[tokio::test]
async fn cause_has_one_kind_of_error_in_each_carrier() {
    let is_overflow = |error: &ModelError| matches!(error, ModelError::ContextTooLong(_));
    let is_quota = |error: &ModelError| matches!(error, ModelError::RateLimited { permanent: true, .. });
    let is_filter = |error: &ModelError| matches!(error, ModelError::ContentFiltered(_));
    let is_generation =
        |error: &ModelError| matches!(error, ModelError::InvalidGeneration { generation: Some(_), .. });
    let is_rejected = |error: &ModelError| matches!(error, ModelError::Rejected { status: 400, .. });
    let causes: [(&str, Value, IsExpected<'_>); 5] = [
        ("context_length_exceeded", Value::Null, &is_overflow),
        ("insufficient_quota", Value::Null, &is_quota),
        ("content_filter", Value::Null, &is_filter),
        ("tool_use_failed", json!("add(1) with sk-secret-1"), &is_generation),
        ("image_too_large", Value::Null, &is_rejected),
    ];
    for (code, generation, is_expected) in causes {
        let error =
            json!({"message": "the reason, with sk-secret-1", "code": code, "failed_generation": generation});
        let plain = json!({"error": error});
        let wrapped = json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": plain.to_string()}}});
        for body in [&plain, &wrapped] {
            for api in both_apis() {
                let event = format!("{STREAM}event: error\ndata: {body}\n\n").into_bytes();
                for sent in [
                    reply("400 Bad Request", "", &body.to_string()),
                    reply("422 Unprocessable Content", "", &body.to_string()),
                    ok_reply(body),
                    chunks_reply([body]),
                    event,
                ] {
                    let server = Server::with_replies([sent.clone(), sent.clone()]).await;
                    let options = Options { retries: 1, key: "sk-secret-1", ..Options::default() };
                    let model = (api.model)(&server, options);
                    let error = model.chat(&hello()).await.unwrap_err();
                    let sent = String::from_utf8_lossy(&sent).into_owned();
                    if code != "image_too_large" || !sent.contains(" 422 ") {
                        assert!(is_expected(&error), "{}: {sent}: {error:?}", api.path);
                    }
                    let shown = format!("{error} {error:?}");
                    assert!(shown.contains("the reason, with [secret]"), "{shown}");
                    assert!(!shown.contains("sk-secret") && !shown.contains("Provider returned"), "{shown}");
                    assert_eq!(server.take_requests().len(), 1, "{error:?}");
                }
            }
        }
    }
}
