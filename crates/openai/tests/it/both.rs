//! What holds for every API, since it is the transport's: each rule is tried with the models of both.

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
    server::{STREAM, Server, Step, chunks, hello, ok, reply},
    streams::{call_delta, delta, finish},
};

/// The words of an API.
struct Words {
    path: &'static str,
    /// A whole reply that says `Hi`.
    fine: Value,
    /// The event of a stream that says `Hi`.
    text: Value,
    /// The event of a stream with a piece of a call of `add`.
    arguments: fn(&str) -> Value,
    /// The last event of a good stream.
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
    fn set<M>(self, builder: ModelBuilder<M>) -> ModelBuilder<M> {
        builder.timeouts(self.timeouts).max_retries(self.retries).api_key(self.key)
    }
}

fn both() -> [Words; 2] {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "Hi"}]});
    let whole = json!({"id": "r", "status": "completed", "output": [message]});
    [
        Words {
            path: "/v1/chat/completions",
            fine: json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
            text: delta(json!({"content": "Hi"})),
            arguments: |piece| {
                call_delta(json!([{"index": 0, "id": "a", "function": {"name": "add", "arguments": piece}}]))
            },
            end: finish("stop"),
            model: |server, options| Arc::new(options.set(server.builder()).build().unwrap()),
        },
        Words {
            path: "/v1/responses",
            fine: whole.clone(),
            text: json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "Hi"}),
            arguments: |piece| {
                let event = "response.function_call_arguments.delta";
                json!({"type": event, "output_index": 0, "item_id": "fc", "delta": piece})
            },
            end: json!({"type": "response.completed", "response": whole}),
            model: |server, options| Arc::new(options.set(server.responses()).build().unwrap()),
        },
    ]
}

async fn streamed(model: &dyn ChatModel) -> Result<Vec<ChatEvent>, ModelError> {
    model.stream(&hello()).try_collect().await
}

#[tokio::test]
async fn each_api_has_its_path() {
    for words in both() {
        let server = Server::replying([ok(&words.fine)]).await;
        let reply = (words.model)(&server, Options::default()).chat(&hello()).await.unwrap();
        assert_eq!(reply.message.text(), "Hi");
        let head = server.take_requests().remove(0).head;
        assert!(head.starts_with(&format!("POST {} HTTP/1.1", words.path)), "{head}");
    }
}

/// Behaviour M1, M2, M4 and M10: what may pass is tried again, whatever the body is made of, streamed or not.
#[tokio::test]
async fn what_may_pass_is_tried_again() {
    let empty = json!({"choices": [], "output": [], "status": "completed"});
    let failures = [
        Some(reply("429 Too Many Requests", "retry-after-ms: 1\r\n", "<html>slow</html>")),
        Some(reply("503 Service Unavailable", "", "")),
        Some(ok(&empty)),
        Some(chunks([])),
        Some(ok(&json!({"error": {"message": "overloaded"}}))),
        None,
    ];
    for words in both() {
        for failure in &failures {
            for is_streamed in [false, true] {
                let fails = || vec![failure.clone().map_or(Step::Reset, Step::Send)];
                let server = Server::start([fails(), fails(), vec![Step::Send(ok(&words.fine))]]).await;
                let model = (words.model)(&server, Options { retries: 2, ..Options::default() });
                let text = if is_streamed {
                    let events = streamed(&*model).await.unwrap();
                    let Some(ChatEvent::Finished(reply)) = events.last() else { panic!("{events:?}") };
                    reply.message.text()
                } else {
                    model.chat(&hello()).await.unwrap().message.text()
                };
                assert_eq!((text.as_str(), server.take_requests().len()), ("Hi", 3), "{}", words.path);
            }
        }
    }
}

/// Behaviour M3: what cannot pass is asked once, and no key is in the error.
#[tokio::test]
async fn what_cannot_pass_is_asked_once() {
    for words in both() {
        for status in ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found"] {
            let refusal = reply(status, "", "not with sk-secret-1");
            let server = Server::replying([refusal.clone(), refusal]).await;
            let model =
                (words.model)(&server, Options { retries: 2, key: "sk-secret-1", ..Options::default() });
            let error = model.chat(&hello()).await.unwrap_err();
            assert!(!error.is_transient() && !format!("{error:?}").contains("sk-secret"), "{error:?}");
            assert_eq!(server.take_requests().len(), 1);
        }
        let quota = json!({"error": {"message": "pay", "code": "insufficient_quota"}}).to_string();
        let server = Server::replying([reply("429 Too Many Requests", "", &quota)]).await;
        let error = (words.model)(&server, Options::default()).chat(&hello()).await.unwrap_err();
        assert!(matches!(error, ModelError::RateLimited { permanent: true, .. }), "{error:?}");
    }
}

/// Behaviour M5: each wait is its own error.
#[tokio::test]
async fn every_wait_ends() {
    let short = Duration::from_millis(50);
    let begun = || vec![Step::Send(STREAM.into()), Step::Send(b": ping\n\n".into()), Step::Stall];
    for words in both() {
        let cases = [
            (vec![Step::Stall], Timeouts::default().with_first_byte(short), TimeoutPhase::FirstByte),
            (begun(), Timeouts::default().with_idle(short), TimeoutPhase::Idle),
            (begun(), Timeouts::default().with_total(short), TimeoutPhase::Total),
            (
                vec![Step::Send(chunks([&(words.arguments)("{\"x\":")])), Step::Stall],
                Timeouts::default().with_idle(short),
                TimeoutPhase::Idle,
            ),
        ];
        for (script, timeouts, expected) in cases {
            let server = Server::start([script]).await;
            let model = (words.model)(&server, Options { timeouts, ..Options::default() });
            match model.chat(&hello()).await {
                Err(ModelError::TimedOut { phase, .. }) => assert_eq!(phase, expected, "{}", words.path),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Behaviour M11 and M12: cut, reset or ended in the middle, it is an error with the text so far, and no call runs.
#[tokio::test]
async fn a_stream_that_breaks_is_truncated() {
    for words in both() {
        let half = (words.arguments)("{\"x\":");
        for (script, text) in [
            (vec![Step::Send(chunks([&words.text]))], "Hi"),
            (
                vec![Step::Send(chunks([&words.text])), Step::Pause(Duration::from_millis(50)), Step::Reset],
                "Hi",
            ),
            (vec![Step::Send(chunks([&half]))], ""),
            (vec![Step::Send(chunks([&words.text])), Step::Send(b"data: {\"type\": \"resp".to_vec())], "Hi"),
        ] {
            let server = Server::start([script]).await;
            let error = streamed(&*(words.model)(&server, Options::default())).await.unwrap_err();
            let ModelError::Truncated { partial, .. } = &error else { panic!("{error:?}") };
            assert_eq!(partial.text(), text, "{}", words.path);
        }
    }
}

/// A server that says that it is done, and then nothing more, is not waited for; one that streams unasked is read.
#[tokio::test]
async fn what_is_said_is_enough() {
    for words in both() {
        let whole = chunks([&words.text, &words.end]);
        for after in [Step::Stall, Step::Drip(b": ping\n\n", Duration::from_millis(100))] {
            let server = Server::start([vec![Step::Send(whole.clone()), after]]).await;
            let model = (words.model)(&server, Options::default());
            let events = timeout(Duration::from_secs(30), streamed(&*model)).await.unwrap().unwrap();
            assert!(matches!(events.last(), Some(ChatEvent::Finished(_))), "{events:?}");
        }
        let server = Server::replying([whole]).await;
        let reply = (words.model)(&server, Options::default()).chat(&hello()).await.unwrap();
        assert_eq!(reply.message.text(), "Hi");
    }
}

/// Behaviour M15 and M16: a slow reader slows the server, and one that leaves closes the connection.
#[tokio::test]
async fn who_reads_decides() {
    for words in both() {
        let event = format!("data: {}\n\n", words.text);
        let (tell, stalled) = oneshot::channel();
        let script = vec![Step::Send(STREAM.into()), Step::Flood(event.repeat(100).into(), tell)];
        let server = Server::start([script]).await;
        let (model, request) = ((words.model)(&server, Options::default()), hello());
        let mut stream = model.stream(&request);
        for _ in 0..100 {
            assert!(stream.try_next().await.unwrap().is_some());
        }
        let sent = stalled.await.unwrap();
        assert!(sent < 8 << 20, "{sent} bytes went although nobody read");
        drop(stream);

        let (tell, closed) = oneshot::channel();
        let server = Server::start([vec![Step::Send(chunks([&words.text])), Step::Closed(tell)]]).await;
        let model = (words.model)(&server, Options::default());
        let mut stream = model.stream(&request);
        assert!(stream.try_next().await.unwrap().is_some());
        drop(stream);
        timeout(Duration::from_secs(1), closed).await.expect("still open after a second").unwrap();
    }
}

/// Behaviour M17, and the bounds of an event and of a body.
#[tokio::test]
async fn what_is_endless_is_cut() {
    for words in both() {
        let more = (words.arguments)(&"x".repeat(ARGUMENT_BYTES / 4));
        let arguments = vec![Step::Send(chunks(std::iter::repeat_n(&more, 5)))];
        let event =
            vec![Step::Send(STREAM.into()), Step::Send(b"data: ".to_vec()), Step::Send(vec![b'x'; 17 << 20])];
        for script in [arguments, event] {
            let server = Server::start([script]).await;
            let error = streamed(&*(words.model)(&server, Options::default())).await.unwrap_err();
            assert!(matches!(error, ModelError::InvalidResponse(_)), "{}: {error:?}", words.path);
        }
    }
}

/// Behaviour X3: what a server repeats of the key in the middle of a stream is not shown.
#[tokio::test]
async fn a_key_that_a_stream_repeats_is_not_shown() {
    let broken = json!({"error": {"message": "no such key: sk-secret-1"}});
    for words in both() {
        let server = Server::replying([chunks([&words.text, &broken])]).await;
        let model = (words.model)(&server, Options { key: "sk-secret-1", ..Options::default() });
        let error = streamed(&*model).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("[secret]") && !shown.contains("sk-secret"), "{shown}");
    }
}
