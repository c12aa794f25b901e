//! Tests of the log events and spans of requests.

use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::{FutureExt as _, StreamExt as _};
use haft_core::{
    ChatModel as _, Message, Schema, ToolDefinition, ToolName, call::BoxError, content::Content,
    message::MessageBody, model::ChatRequest, schema::SchemaTarget, tool::DynamicTool, toolset::ToolList,
};
use haft_openai::{ChatCompletions, HttpService};
use reqwest::{Request, Response};
use serde_json::json;
use tower::{layer::layer_fn, service_fn};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::log_capture::set_subscriber;
use crate::server::{Server, hello, minimal_reply, ok_reply, reply};

/// A subscriber that stores the fields of all events of haft as `name=value`.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl Subscriber for EventLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("haft")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0.join(" "));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push(format!("{field}={value:?}"));
    }
}

/// Each retry is logged, and the log does not contain the API key.
#[tokio::test]
async fn each_retry_is_logged_without_secrets() {
    let log = EventLog::default();
    let guard = set_subscriber(log.clone());
    let busy =
        reply("429 Too Many Requests", "retry-after-ms: 1\r\n", r#"{"error": "slow down, sk-secret-1"}"#);
    let minimal_reply =
        ok_reply(&json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}));
    let server = Server::with_replies([busy.clone(), busy, minimal_reply]).await;
    server.builder().api_key("sk-secret-1").build().unwrap().chat(&hello()).await.unwrap();
    drop(guard);
    let events = log.0.lock().unwrap();
    let [first, second] = events.as_slice() else { panic!("{events:?}") };
    for (event, retry) in [(first, "retry=1 "), (second, "retry=2 ")] {
        assert!(event.contains(retry) && event.contains("slow down, [secret]"), "{event}");
    }
}

/// A tool list causes a single warning with the names of its non-strict tools and the reasons.
#[tokio::test]
async fn non_strict_tools_are_logged_once() {
    let log = EventLog::default();
    let define = |name: &str, schema| {
        let schema = Schema::for_arguments(schema).unwrap();
        DynamicTool::new(ToolDefinition::new(ToolName::new(name).unwrap(), schema), |_, _| async {})
    };
    let plain = json!({"properties": {"x": {"type": "integer"}}, "required": ["x"]});
    let tools = [define("plain", plain), define("map", json!({"additionalProperties": true}))];
    let request = hello().with_tools(ToolList::new("test", tools));
    let minimal_reply = ok_reply(&json!({"choices": [{"message": {"content": "Hi"}}]}));
    let server = Server::with_replies([minimal_reply.clone(), minimal_reply]).await;
    let model = server.builder().tool_schema_target(SchemaTarget::OpenAiStrict).build().unwrap();
    let guard = set_subscriber(log.clone());
    model.chat(&request).await.unwrap();
    model.chat(&request).await.unwrap();
    drop(guard);
    let events = log.0.lock().unwrap();
    let warnings: Vec<_> = events.iter().filter(|event| event.contains("cannot be sent")).collect();
    let [warning] = warnings.as_slice() else { panic!("{events:?}") };
    let reason = "map: `additionalProperties` at /: not strict, since its properties may have any name";
    assert!(warning.contains("count=1") && warning.contains(reason), "{warning}");
    for request in server.take_requests() {
        let strict = [0, 1].map(|index| request.body["tools"][index]["function"]["strict"].clone());
        assert_eq!(strict, [json!(true), json!(null)]);
    }
}

/// A warning is logged the first time an image is omitted. `send_images(true)` overrides the
/// profile.
#[tokio::test]
async fn omitted_image_is_logged_once() {
    let log = EventLog::default();
    let _guard = set_subscriber(log.clone());
    let server = Server::with_replies([minimal_reply(), minimal_reply(), minimal_reply()]).await;
    let picture = || vec![Content::from_bytes(*b"cat", "image/png")];
    let request = || ChatRequest::new([Message::new(MessageBody::User { content: picture() })]);
    let model = server.model();
    for _ in 0..2 {
        model.chat(&request()).await.unwrap();
    }
    let warnings = log.0.lock().unwrap().iter().filter(|event| event.contains("image/png")).count();
    assert_eq!(warnings, 1);
    server.builder().send_images(true).build().unwrap().chat(&request()).await.unwrap();
    let requests = server.take_requests();
    let sent: Vec<_> = requests.iter().map(|it| it.body["messages"][0]["content"].is_array()).collect();
    assert_eq!(sent, [false, false, true]);
}

/// A subscriber that counts the currently entered spans with the name `chat`.
#[derive(Clone, Default)]
struct SpanDepth(Arc<AtomicUsize>);

impl Subscriber for SpanDepth {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name() == "chat"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn exit(&self, _: &Id) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A value with a `Drop` implementation that records the number of entered spans.
struct DepthOnDrop(SpanDepth, Arc<Mutex<Vec<usize>>>);

impl Drop for DepthOnDrop {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.0.load(Ordering::SeqCst));
    }
}

/// If a stream is cancelled, its request is dropped inside its span, so that events that a layer
/// logs during the cancellation belong to the span.
#[tokio::test]
async fn cancelled_stream_is_dropped_within_its_span() {
    let (depth, dropped) = (SpanDepth::default(), Arc::<Mutex<Vec<usize>>>::default());
    let _listening = set_subscriber(depth.clone());
    let guard = {
        let (depth, dropped) = (depth.clone(), Arc::clone(&dropped));
        move || DepthOnDrop(depth.clone(), Arc::clone(&dropped))
    };
    let waits = move |_: HttpService| {
        let guard = guard.clone();
        service_fn(move |_: Request| {
            let guard = guard();
            async move {
                let _guard = guard;
                std::future::pending::<Result<Response, BoxError>>().await
            }
        })
    };
    let builder = ChatCompletions::builder("m").base_url("http://localhost:1/v1");
    let model = builder.layer(layer_fn(waits)).build().unwrap();
    let request = hello();
    let mut events = model.stream(&request);
    assert!(events.next().now_or_never().is_none());
    drop(events);
    assert_eq!(*dropped.lock().unwrap(), [1]);
    assert_eq!(depth.0.load(Ordering::SeqCst), 0);
}
