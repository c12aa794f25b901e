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

/// Says one word for each permit.
struct Slow {
    profile: ModelProfile,
    may: Arc<Semaphore>,
}

#[async_trait]
impl ChatModel for Slow {
    async fn chat(&self, _: &ChatRequest) -> Result<ChatResponse, ModelError> {
        Err(ModelError::EmptyResponse)
    }

    fn stream<'a>(&'a self, _: &'a ChatRequest) -> stream::BoxStream<'a, Result<ChatEvent, ModelError>> {
        let words = stream::iter(["one", "two"]).then(move |word| async move {
            self.may.acquire().await.unwrap().forget();
            Ok(ChatEvent::TextDelta { text: word.to_owned() })
        });
        words.chain(stream::iter([Ok(ChatEvent::Finished(ChatResponse::new("one two").into()))])).boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }
}

fn slow() -> (Slow, Arc<Semaphore>) {
    let may = Arc::new(Semaphore::new(0));
    (Slow { profile: ModelProfile::new("slow"), may: Arc::clone(&may) }, may)
}

#[tokio::test]
async fn a_reply_streams_through_the_layers() {
    let (model, may) = slow();
    let model = model.layer(ConcurrencyLimitLayer::new(2));
    assert_eq!(model.profile().name, "slow");
    let request = request();
    let mut events = model.stream(&request);
    assert!(events.next().now_or_never().is_none());
    may.add_permits(1);
    assert_eq!(events.next().await.unwrap().unwrap(), ChatEvent::TextDelta { text: "one".to_owned() });
    assert!(events.next().now_or_never().is_none(), "the first word is there before the second is said");
    may.add_permits(1);
    let rest: Vec<_> = events.try_collect().await.unwrap();
    assert!(matches!(&*rest, [ChatEvent::TextDelta { .. }, ChatEvent::Finished(_)]), "{rest:?}");

    may.add_permits(2);
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "one two");
}

/// A hook sees requests, replies and every event of them.
#[tokio::test]
async fn a_hook_sees_and_changes_what_goes_by() {
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
    let scripted = ScriptedModel::new().text("Hello.");
    let layers = ServiceBuilder::new().map_request(change).map_response(watch);
    let model = scripted.clone().layer(layers);
    assert_eq!(model.chat(&request()).await.unwrap().message.text(), "Hello.");
    assert_eq!(scripted.requests()[0].settings.seed, Some(7));
    let seen = seen.lock().unwrap();
    assert!(seen[0].starts_with("Ok(TextDelta") && seen[1].starts_with("Ok(Finished"), "{seen:?}");
}

/// Tries again as often as it says, where that may help.
#[derive(Clone)]
struct Again(u32);

impl Policy<ChatRequest, ChatStream, BoxError> for Again {
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
async fn what_fails_before_the_reply_may_be_tried_again() {
    let busy = || ModelError::Server { status: Some(503), body: String::new(), retry_after: None };
    let model =
        ScriptedModel::new().fail(busy()).fail(busy()).text("Hello.").layer(RetryLayer::new(Again(2)));
    assert_eq!(model.chat(&request()).await.unwrap().message.text(), "Hello.");

    let refused = ModelError::Unauthorized("no".to_owned());
    let model = ScriptedModel::new().fail(refused).layer(RetryLayer::new(Again(2)));
    let error = model.chat(&request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Unauthorized(_)), "an error keeps its meaning: {error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_one_for_the_beginning() {
    let (model, may) = slow();
    let model = model.layer(TimeoutLayer::new(Duration::from_secs(2)));
    let request = request();
    let error = model.stream(&request).next().await.unwrap().unwrap_err();
    let ModelError::TimedOut { phase: TimeoutPhase::FirstByte, after } = error else { panic!("{error:?}") };
    assert_eq!(after.as_secs(), 2);

    may.add_permits(1);
    let mut events = model.stream(&request);
    assert!(events.next().await.unwrap().is_ok());
    tokio::time::advance(Duration::from_secs(9)).await;
    may.add_permits(1);
    assert!(events.try_collect::<Vec<_>>().await.is_ok());
}

/// Dropped, a reply ends, and gives its place to the next.
#[tokio::test]
async fn a_dropped_reply_is_gone() {
    let (model, may) = slow();
    let layer = GlobalConcurrencyLimitLayer::new(1);
    let model = model.layer(layer);
    let request = request();
    drop(model.stream(&request));
    let mut waits = model.stream(&request);
    assert!(waits.next().now_or_never().is_none());
    drop(waits);
    may.add_permits(2);
    assert!(model.chat(&request).await.is_ok());
}

const MINUTE: Duration = Duration::from_secs(60);

/// A limit of requests a minute, with room for eight who wait.
fn limited(model: ScriptedModel, requests: u64) -> impl ChatModel {
    model.layer(ServiceBuilder::new().buffer(8).rate_limit(requests, MINUTE))
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_goes_under_a_buffer() {
    let model =
        limited(ScriptedModel::new().text("one").chunks(["t", "wo"]).text("three").chunks(["fo", "ur"]), 2);
    let (request, began) = (request(), Instant::now());
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "one");
    assert_eq!(model.stream(&request).try_collect::<Vec<_>>().await.unwrap().len(), 3);
    assert_eq!(began.elapsed(), Duration::ZERO);
    let third = model.chat(&request).await.unwrap().message.text();
    assert_eq!((third.as_str(), began.elapsed().as_secs()), ("three", 60));
    assert_eq!(model.stream(&request).try_collect::<Vec<_>>().await.unwrap().len(), 3);
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn who_no_longer_waits_for_a_turn_takes_none() {
    let scripted = ScriptedModel::new().text("one").text("two");
    let model = limited(scripted.clone(), 1);
    let (request, began) = (request(), Instant::now());
    model.chat(&request).await.unwrap();
    for _ in 0..20 {
        assert!(timeout(Duration::from_secs(1), model.chat(&request)).await.is_err());
        assert!(timeout(Duration::from_secs(1), model.stream(&request).next()).await.is_err());
    }
    assert_eq!(model.chat(&request).await.unwrap().message.text(), "two");
    assert_eq!((scripted.requests().len(), began.elapsed().as_secs()), (2, 60));
}

#[tokio::test(start_paused = true)]
async fn an_error_comes_through_a_buffer_as_it_is() {
    let model = limited(ScriptedModel::new().fail(ModelError::ContextTooLong("no".to_owned())), 1);
    assert!(matches!(model.chat(&request()).await, Err(ModelError::ContextTooLong(_))));
}
