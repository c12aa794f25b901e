#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::ModelMiddleware as _;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::ChatStream;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use haft_core::{
    ChatModel, Message,
    call::BoxError,
    export::async_trait,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile, TimeoutPhase},
};
use haft_testing::ScriptedModel;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tower::{
    ServiceBuilder,
    limit::{ConcurrencyLimitLayer, GlobalConcurrencyLimitLayer},
    retry::{Policy, RetryLayer},
    timeout::TimeoutLayer,
};

fn request() -> ChatRequest {
    ChatRequest::new([Message::user("Hi")])
}

/// A model that streams its reply word by word. It waits for a permit of a semaphore before each
/// word.
struct Slow {
    profile: ModelProfile,
    permits: Arc<Semaphore>,
}

#[async_trait]
impl ChatModel for Slow {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        Err(ModelError::EmptyResponse)
    }

    fn stream<'a>(&'a self, _: &'a ChatRequest) -> stream::BoxStream<'a, Result<ChatEvent, ModelError>> {
        let words = stream::iter(["one", "two"]).then(move |word| async move {
            self.permits.acquire().await.unwrap().forget();
            Ok(ChatEvent::TextDelta { text: word.to_owned() })
        });
        words.chain(stream::iter([Ok(ChatEvent::Finished(ChatResponse::new("one two").into()))])).boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

fn slow_model() -> (Slow, Arc<Semaphore>) {
    let permits = Arc::new(Semaphore::new(0));
    (Slow { profile: ModelProfile::new("slow"), permits: Arc::clone(&permits) }, permits)
}

#[tokio::test]
async fn reply_streams_through_layers() {
    let (model, permits) = slow_model();
    let model = model.layer(ConcurrencyLimitLayer::new(2));
    assert_eq!(model.profile().name, "slow");
    let request = request();
    let mut events = model.stream(&request);
    assert!(events.next().now_or_never().is_none());
    permits.add_permits(1);
    assert_eq!(events.next().await.unwrap().unwrap(), ChatEvent::TextDelta { text: "one".to_owned() });
    assert!(events.next().now_or_never().is_none(), "the first word arrives before the second is sent");
    permits.add_permits(1);
    let rest: Vec<_> = events.try_collect().await.unwrap();
    assert!(matches!(&*rest, [ChatEvent::TextDelta { .. }, ChatEvent::Finished(_)]), "{rest:?}");

    permits.add_permits(2);
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "one two");
}

/// Layers can change model requests, and observe each event of a reply.
#[tokio::test]
async fn layers_map_requests_and_observe_events() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let watch = move |events: ChatStream| {
        let log = Arc::clone(&log);
        events.inspect(move |event| log.lock().unwrap().push(format!("{event:?}"))).boxed()
    };
    let change = |mut request: ChatRequest| {
        request.settings.seed = Some(7);
        request
    };
    let scripted = ScriptedModel::new().reply_text("Hello.");
    let layers = ServiceBuilder::new().map_request(change).map_response(watch);
    let model = scripted.clone().layer(layers);
    assert_eq!(model.chat(&request()).await.unwrap().message.text(), "Hello.");
    assert_eq!(scripted.requests()[0].settings.seed, Some(7));
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("Ok(TextDelta") && seen[1].starts_with("Ok(Finished"), "{seen:?}");
}

/// A `tower` retry policy that retries model requests after a transient error. Contains the number
/// of remaining retries.
#[derive(Clone)]
struct RetryTransient(u32);

impl Policy<ChatRequest, ChatStream, BoxError> for RetryTransient {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut ChatRequest,
        reply: &mut Result<ChatStream, BoxError>,
    ) -> Option<Self::Future> {
        let error = reply.as_ref().err()?.downcast_ref::<ModelError>()?;
        self.0 = self.0.checked_sub(u32::from(error.is_transient()))?;
        error.is_transient().then(|| std::future::ready(()))
    }

    fn clone_request(&mut self, request: &ChatRequest) -> Option<ChatRequest> {
        Some(request.clone())
    }
}

#[tokio::test]
async fn errors_before_the_reply_can_be_retried() {
    let busy = || ModelError::Server { status: Some(503), body: String::new(), retry_after: None };
    let model = ScriptedModel::new()
        .fail(busy())
        .fail(busy())
        .reply_text("Hello.")
        .layer(RetryLayer::new(RetryTransient(2)));
    assert_eq!(model.chat(&request()).await.unwrap().message.text(), "Hello.");

    let unauthorized = ModelError::Unauthorized("no".to_owned());
    let model = ScriptedModel::new().fail(unauthorized).layer(RetryLayer::new(RetryTransient(2)));
    let error = model.chat(&request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Unauthorized(_)), "the error keeps its type: {error:?}");
}

#[tokio::test(start_paused = true)]
async fn timeout_applies_to_the_first_event() {
    let (model, permits) = slow_model();
    let model = model.layer(TimeoutLayer::new(Duration::from_secs(2)));
    let request = request();
    let error = model.stream(&request).next().await.unwrap().unwrap_err();
    let ModelError::TimedOut { phase: TimeoutPhase::FirstByte, after } = error else { panic!("{error:?}") };
    assert_eq!(after.as_secs(), 2);

    permits.add_permits(1);
    let mut events = model.stream(&request);
    assert!(events.next().await.unwrap().is_ok());
    tokio::time::advance(Duration::from_secs(9)).await;
    permits.add_permits(1);
    assert!(events.try_collect::<Vec<_>>().await.is_ok());
}

/// Dropping the stream of a reply before its first event must release its permit of the concurrency
/// limit.
#[tokio::test]
async fn dropped_reply_releases_its_permit() {
    let (model, permits) = slow_model();
    let layer = GlobalConcurrencyLimitLayer::new(1);
    let model = model.layer(layer);
    let request = request();
    drop(model.stream(&request));
    let mut queued = model.stream(&request);
    assert!(queued.next().now_or_never().is_none());
    drop(queued);
    permits.add_permits(2);
    assert!(model.chat(&request).await.is_ok());
}

const MINUTE: Duration = Duration::from_secs(60);

/// Limits `model` to `requests` requests per minute. Up to eight further requests wait in a queue.
fn rate_limited_model(model: ScriptedModel, requests: u64) -> impl ChatModel {
    model.layer(ServiceBuilder::new().buffer(8).rate_limit(requests, MINUTE))
}

#[tokio::test(start_paused = true)]
async fn rate_limit_works_under_a_buffer() {
    let model = rate_limited_model(
        ScriptedModel::new()
            .reply_text("one")
            .reply_chunks(["t", "wo"])
            .reply_text("three")
            .reply_chunks(["fo", "ur"]),
        2,
    );
    let (request, started) = (request(), Instant::now());
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "one");
    assert_eq!(model.stream(&request).try_collect::<Vec<_>>().await.unwrap().len(), 3);
    assert_eq!(started.elapsed(), Duration::ZERO);
    let third = model.chat(&request).await.unwrap().message.text();
    assert_eq!((third.as_str(), started.elapsed().as_secs()), ("three", 60));
    assert_eq!(model.stream(&request).try_collect::<Vec<_>>().await.unwrap().len(), 3);
    assert_eq!(started.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn dropped_queued_requests_use_no_slot() {
    let scripted = ScriptedModel::new().reply_text("one").reply_text("two");
    let model = rate_limited_model(scripted.clone(), 1);
    let (request, started) = (request(), Instant::now());
    model.chat(&request).await.unwrap();
    for _ in 0..20 {
        assert!(timeout(Duration::from_secs(1), model.chat(&request)).await.is_err());
        assert!(timeout(Duration::from_secs(1), model.stream(&request).next()).await.is_err());
    }
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "two");
    assert_eq!((scripted.requests().len(), started.elapsed().as_secs()), (2, 60));
}

#[tokio::test(start_paused = true)]
async fn error_type_survives_a_buffer() {
    let model = rate_limited_model(ScriptedModel::new().fail(ModelError::ContextTooLong("no".to_owned())), 1);
    assert!(matches!(model.chat(&request()).await, Err(ModelError::ContextTooLong(_))));
}
