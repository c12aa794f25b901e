//! Tests of layers, HTTP clients and proxies that the user supplies, and of the redaction of the
//! API key.

use std::{
    fmt::Debug,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::TryStreamExt as _;
use haft_core::{ChatModel, model::ModelError};
use haft_openai::Provider;
use serde_json::json;
use tower::{
    ServiceBuilder, layer::layer_fn, limit::ConcurrencyLimitLayer, timeout::TimeoutLayer,
    util::MapRequestLayer,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::log_capture::set_subscriber;
use crate::server::{Server, Step, chunks_reply, header, hello, minimal_reply, ok_reply, reply};

/// Each HTTP request passes through all layers. The layer that was added last is the outermost.
#[tokio::test]
async fn every_attempt_passes_the_layers() {
    let busy = || reply("503 Service Unavailable", "", "");
    let server = Server::with_replies([busy(), minimal_reply()]).await;
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let count = MapRequestLayer::new(move |mut request: reqwest::Request| {
        let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
        request.headers_mut().insert("x-attempt", number.into());
        request
    });
    let rename = MapRequestLayer::new(|mut request: reqwest::Request| {
        request.headers_mut().insert("x-attempt", "outer".parse().unwrap());
        request.headers_mut().insert("x-outer", "yes".parse().unwrap());
        request
    });
    let both = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(1)).layer(count);
    let model = server.builder().layer(both).layer(rename).build().unwrap();
    assert_eq!(model.chat(&hello()).await.unwrap().message.text(), "Hi");
    let heads: Vec<_> = server.take_requests().into_iter().map(|request| request.head).collect();
    let attempts: Vec<_> = heads.iter().map(|head| header(head, "x-attempt").unwrap()).collect();
    assert_eq!(attempts, ["1", "2"], "the inner layer is the last to change the request");
    assert!(heads.iter().all(|head| header(head, "x-outer") == Some("yes")));
}

/// A `ModelError` from a layer is retried like an error from the server. Any other error becomes
/// `Failed`.
#[tokio::test]
async fn error_of_a_layer_is_returned() {
    let server = Server::start([vec![Step::Stall]]).await;
    let layer = TimeoutLayer::new(Duration::from_millis(50));
    let error = server.builder().layer(layer).build().unwrap().chat(&hello()).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::Failed { message, .. } if message == "request timed out"),
        "{error:?}"
    );

    let tries = Arc::new(AtomicUsize::new(0));
    let tried = tries.clone();
    let reject = layer_fn(move |_inner| {
        let tried = tried.clone();
        tower::service_fn(move |_request: reqwest::Request| {
            tried.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Err::<reqwest::Response, _>(ModelError::RateLimited {
                message: "our own limit".into(),
                retry_after: None,
                permanent: false,
            }))
        })
    });
    let server = Server::with_replies([]).await;
    let error =
        server.builder().layer(reject).max_retries(2).build().unwrap().chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::RateLimited { .. }), "{error:?}");
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn custom_http_client_sends_the_request() {
    let server = Server::with_replies([minimal_reply()]).await;
    // Installing fails if a provider is already installed, for example by another test. The error
    // is ignored.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().user_agent("mine").tls_certs_only([]).build().unwrap();
    server.builder().http_client(client).build().unwrap().chat(&hello()).await.unwrap();
    assert_eq!(header(&server.take_requests()[0].head, "user-agent"), Some("mine"));
}

#[tokio::test]
async fn proxy_gets_the_request_and_its_credentials_are_redacted() {
    let denied = "no entry for sk-canary-proxy";
    let proxy = Server::with_replies([minimal_reply(), reply("403 Forbidden", "", denied)]).await;
    let address = proxy.base_url.trim_end_matches("/v1").replace("http://", "http://me:sk-canary-proxy@");
    let model = haft_openai::ChatCompletions::builder("m").base_url("http://model.test/v1").proxy(address);
    let model = model.build().unwrap();
    model.chat(&hello()).await.unwrap();
    let head = proxy.take_requests().remove(0).head;
    assert!(head.starts_with("POST http://model.test/v1/chat/completions HTTP/1.1"), "{head}");
    assert_eq!(header(&head, "proxy-authorization"), Some("Basic bWU6c2stY2FuYXJ5LXByb3h5"));
    let error = model.chat(&hello()).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}

/// A subscriber that stores all fields of spans and events, of every crate and at every level.
#[derive(Clone, Default)]
struct FullLog(Arc<Mutex<String>>);

impl FullLog {
    fn add(&self, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields::default();
        record(&mut fields);
        self.0.lock().unwrap().push_str(&fields.0);
    }
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}={value:?}\n");
    }
}

impl Subscriber for FullLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.add(|fields| attributes.record(fields));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, record: &Record<'_>) {
        self.add(|fields| record.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.add(|fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// No error, log, span or debug output contains the key. The test covers each kind of error, and a
/// key in a header, in the query and in the credentials of the URL.
#[tokio::test]
async fn key_is_in_no_error_log_span_or_debug_output() {
    const CANARY: &str = "sk-canary-0123456789";
    let log = FullLog::default();
    let guard = set_subscriber(log.clone());
    let body = format!("no {CANARY}, no Bearer {CANARY}");
    let error = json!({"error": {"message": body, "code": body}});
    let in_band = chunks_reply([&json!({"choices": [{"delta": {"content": "Hi"}}]}), &error]);
    let replies = || {
        let statuses = ["400 Bad Request", "401 Unauthorized", "404 Not Found", "429 Busy", "500 Broken"];
        let rejections = statuses
            .into_iter()
            .flat_map(|status| [reply(status, "", &body), reply(status, "", &error.to_string())]);
        let moved = reply("302 Found", &format!("location: https://x.test/?key={CANARY}\r\n"), "");
        rejections.chain([ok_reply(&error), in_band.clone(), reply("200 OK", "", &body), moved, Vec::new()])
    };
    let mut shown = String::new();
    for sent in replies() {
        for is_streamed in [false, true] {
            for place in 0..4 {
                let script = || vec![Step::Send(sent.clone()), Step::Reset];
                let server = Server::start([script(), script()]).await;
                let url = server.base_url.clone();
                let give = |base_url: String| server.builder().base_url(base_url).max_retries(1);
                let builder = match place {
                    0 => give(url).api_key(CANARY),
                    1 => give(url).header("x-key", CANARY),
                    2 => give(format!("{url}?key={CANARY}")),
                    _ => give(url.replace("http://", &format!("http://me:{CANARY}@"))),
                };
                shown += &format!("{builder:?}");
                let model = builder.build().unwrap();
                shown += &format!("{model:?}");
                let outcome = if is_streamed {
                    model.stream(&hello()).try_collect::<Vec<_>>().await.map(|_| ())
                } else {
                    model.chat(&hello()).await.map(|_| ())
                };
                let error = outcome.unwrap_err();
                shown += &format!("{error} {error:?}");
            }
        }
    }
    drop(guard);
    shown += &log.0.lock().unwrap();
    assert!(shown.contains("[secret]"), "the server's texts contain the key");
    let place =
        shown.find("canary").map(|at| shown[at.saturating_sub(200)..].chars().take(400).collect::<String>());
    assert_eq!(place, None);
}

#[tokio::test]
async fn span_has_the_attributes_of_opentelemetry() {
    let log = FullLog::default();
    let server = Server::with_replies([minimal_reply()]).await;
    let model = server.builder().provider(Provider::Mistral).build().unwrap();
    let guard = set_subscriber(log.clone());
    model.chat(&hello()).await.unwrap();
    drop(guard);
    let text = log.0.lock().unwrap();
    for field in [
        "gen_ai.operation.name=\"chat\"",
        "gen_ai.provider.name=\"mistral_ai\"",
        "gen_ai.request.model=\"test-model\"",
        "gen_ai.usage.output_tokens=0",
    ] {
        assert!(text.contains(field), "{field} is not in {text}");
    }
}
