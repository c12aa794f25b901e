use crate::ModelMiddleware as _;
use std::time::Duration;

use expect_test::expect;
use futures::{FutureExt as _, StreamExt as _};

use haft_core::{
    ChatModel, Message,
    model::{
        ChatEvent, ChatModelExt as _, ChatRequest, ChatResponse, ModelError, ModelProfile, TimeoutPhase,
    },
    usage::{Cost, Price, Prices, Usage},
};
use haft_testing::{ScriptedModel, TestModel, conformance};

fn request() -> ChatRequest {
    ChatRequest::new([Message::user("Hi")])
}

fn model_named(name: &str) -> ScriptedModel {
    ScriptedModel::new().with_profile(ModelProfile::new(name))
}

fn server_error() -> ModelError {
    ModelError::Server { status: Some(503), body: "down".to_owned(), retry_after: None }
}

fn delta(text: &str) -> ChatEvent {
    ChatEvent::TextDelta { text: text.to_owned() }
}

fn truncation_error(partial: &str) -> ModelError {
    ModelError::Truncated { reason: "gone".to_owned(), partial: Box::new(partial.into()) }
}

async fn events(model: &impl ChatModel) -> Vec<Result<ChatEvent, ModelError>> {
    let request = request();
    model.stream(&request).collect().await
}

#[tokio::test]
async fn second_model_replies_after_an_error_whole_and_streamed() {
    let first = model_named("first").fail(server_error()).fail(server_error()).reply_text("I am back.");
    let second = model_named("second").reply_text("Hello.").reply_chunks(["Hel", "lo."]);
    let model = first.clone().with_fallback(second.clone());
    let reply = model.chat(&request()).await.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.model.as_deref()), ("Hello.", Some("second")));
    let events: Vec<_> = events(&model).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(events[..2], [delta("Hel"), delta("lo.")]);
    assert!(matches!(&events[2..], [ChatEvent::Finished(reply)] if reply.model.as_deref() == Some("second")));
    // Each new request is sent to the first model again.
    let reply = model.chat(&request()).await.unwrap();
    assert_eq!((reply.message.text().as_str(), reply.model.as_deref()), ("I am back.", Some("first")));
    assert_eq!((first.requests().len(), second.requests().len()), (3, 2));
}

#[tokio::test]
async fn model_name_of_the_provider_is_kept() {
    let reply = ChatResponse { model: Some("second-2026-11".to_owned()), ..ChatResponse::new("Hello.") };
    let model = model_named("first").fail(server_error()).with_fallback(model_named("second").reply(reply));
    assert_eq!(model.chat(&request()).await.unwrap().model.as_deref(), Some("second-2026-11"));
}

#[tokio::test]
async fn stream_does_not_fall_back_after_its_first_event() {
    let first = model_named("first").reply_events([Ok(delta("Hel")), Err(truncation_error("Hel"))]);
    let second = model_named("second");
    let model = first.with_fallback(second.clone());
    let events = events(&model).await;
    assert!(matches!(&events[..], [Ok(text), Err(ModelError::Truncated { partial, .. })]
        if *text == delta("Hel") && partial.text() == "Hel"));
    assert!(second.requests().is_empty());
}

#[tokio::test]
async fn stream_falls_back_before_its_first_event() {
    let first = model_named("first").reply_events([Err(truncation_error(""))]);
    let empty = model_named("empty").reply_events([]);
    let model = first.with_fallback(empty).with_fallback(model_named("third").reply_text("Hello."));
    let events = events(&model).await;
    assert!(
        matches!(&events[..], [Ok(_), Ok(ChatEvent::Finished(reply))] if reply.message.text() == "Hello.")
    );
}

#[tokio::test]
async fn invalid_request_is_not_retried_elsewhere() {
    let rejected = || ModelError::Rejected { status: 400, body: "no such field".to_owned() };
    let second = model_named("second");
    let model = model_named("first").fail(rejected()).fail(rejected()).with_fallback(second.clone());
    let error = model.chat(&request()).await.unwrap_err();
    assert!(matches!(error, ModelError::Rejected { status: 400, .. }), "{error:?}");
    assert!(matches!(events(&model).await[..], [Err(ModelError::Rejected { status: 400, .. })]));
    assert!(second.requests().is_empty());
}

#[test]
fn default_fallback_per_error() {
    let detail = || "…".to_owned();
    let limited = |permanent| ModelError::RateLimited { message: detail(), retry_after: None, permanent };
    let rejected = |status| ModelError::Rejected { status, body: detail() };
    let unreachable = ModelError::Unreachable { endpoint: detail(), reason: detail(), source: None };
    let late = ModelError::TimedOut { phase: TimeoutPhase::Total, after: Duration::from_secs(1) };
    let errors = [
        ModelError::Unauthorized(detail()),
        rejected(400),
        rejected(404),
        rejected(422),
        rejected(503),
        limited(false),
        limited(true),
        server_error(),
        unreachable,
        late,
        ModelError::ContextTooLong(detail()),
        truncation_error("Hel"),
        ModelError::EmptyResponse,
        ModelError::InvalidResponse(detail()),
        ModelError::Unsupported(detail()),
        ModelError::failed("worker closed"),
        ModelError::AllFailed { failures: Vec::new() },
    ];
    let text = errors.map(|error| format!("{} {error}\n", if error.allows_fallback() { "+" } else { "-" }));
    expect![[r#"
        + the model's server refused the key: …
        - the model's server refused the request (status 400): …
        + the model's server refused the request (status 404): …
        - the model's server refused the request (status 422): …
        + the model's server refused the request (status 503): …
        + the model's server is limiting requests: …
        + the model's server is limiting requests: …
        + the model's server failed (status 503): down
        + the model's server at … cannot be reached: …
        + timed out after 1s waiting for the whole reply
        - the conversation is too long for the model: …
        + the reply was cut: gone
        + the model gave an empty reply
        + the model's reply cannot be read: …
        + the model cannot do this: …
        + the model failed: worker closed
        - no model replied: 
    "#]]
    .assert_eq(&text.concat());
}

#[tokio::test]
async fn custom_fallback_condition() {
    let long = || ModelError::ContextTooLong("8,192 tokens".to_owned());
    let model = model_named("small")
        .fail(long())
        .fail(server_error())
        .with_fallback(model_named("large").reply_text("Hello."));
    let model = model.fallback_on(|error| matches!(error, ModelError::ContextTooLong(_)));
    assert!(model.chat(&request()).await.is_ok());
    assert!(matches!(model.chat(&request()).await, Err(ModelError::Server { .. })));
}

#[tokio::test]
async fn all_failures_are_listed_with_their_model() {
    let wait = |seconds| ModelError::RateLimited {
        message: "slow down".to_owned(),
        retry_after: Some(Duration::from_secs(seconds)),
        permanent: false,
    };
    let fails = |error: fn() -> ModelError| model_named("third").fail(error()).fail(error());
    let refused = || ModelError::Unauthorized("bad key".to_owned());
    let first = model_named("first").fail(wait(60)).fail(wait(60));
    let model = first
        .with_fallback(model_named("second").fail(wait(20)).fail(wait(20)))
        .with_fallback(fails(refused));
    let error = model.chat(&request()).await.unwrap_err();
    expect![[r"
        no model replied: first: the model's server is limiting requests: slow down; second: the model's server is limiting requests: slow down; third: the model's server refused the key: bad key
    "]]
    .assert_eq(&format!("{error}\n"));
    // The combined error has the shortest `retry_after` of all failures.
    assert!(error.is_transient());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(20)));
    let streamed = events(&model).await;
    assert!(matches!(&streamed[..], [Err(same)] if same.to_string() == error.to_string()), "{streamed:?}");
}

#[tokio::test]
async fn profile_has_the_common_features() {
    let able = ModelProfile {
        supports_images: true,
        supports_files: true,
        context_window: Some(128_000),
        ..ModelProfile::new("able")
    };
    let small = ModelProfile {
        supports_native_tools: false,
        supports_images: true,
        context_window: Some(8_000),
        ..ModelProfile::new("small")
    };
    let of = |profile| ScriptedModel::new().with_profile(profile);
    let model = of(able).with_fallback(of(small)).with_fallback(model_named("plain"));
    let common = ModelProfile {
        supports_native_tools: false,
        context_window: Some(8_000),
        ..ModelProfile::new("able or small or plain")
    };
    assert_eq!(*model.profile(), common);
}

#[tokio::test]
async fn reply_has_the_price_of_its_model() {
    let costs = |name, price: f64| Prices::new().with_price(name, Price::new(price, price));
    let reply = || ChatResponse { usage: Usage::one_request(1_000_000, 0), ..ChatResponse::new("Hello.") };
    // The first model has its own prices. The prices set on the `FallbackModel` apply to replies of
    // the other models.
    let dated = ChatResponse { model: Some("third-2026-11".to_owned()), ..reply() };
    let first = model_named("first")
        .reply(dated.clone())
        .fail(server_error())
        .fail(server_error())
        .priced(costs("first", 1.0));
    let model = first
        .with_fallback(model_named("second").reply(reply()).fail(server_error()))
        .with_fallback(model_named("third").reply(dated))
        .priced(costs("first", 7.0).with_price("second", Price::new(2.0, 0.0)));
    let mut usages = Vec::new();
    for _ in 0..3 {
        usages.push(model.chat(&request()).await.unwrap().usage);
    }
    assert_eq!([usages[0].cost, usages[1].cost], [Cost::new(1.0), Cost::new(2.0)]);
    // The price list contains no entry for the third model, so its reply has no cost.
    assert_eq!((usages[2].cost, usages[2].is_priced()), (Cost::ZERO, false));
}

#[tokio::test]
async fn dropped_request_does_not_fall_back() {
    let second = model_named("second").reply_text("Hello.");
    let model = model_named("first").hang().hang().fail(server_error()).with_fallback(second.clone());
    assert!(model.chat(&request()).now_or_never().is_none());
    assert!(events(&model).now_or_never().is_none());
    assert!(second.requests().is_empty());
    assert!(model.chat(&request()).await.is_ok());
}

#[tokio::test]
async fn fallback_model_conforms() {
    let busy = || (0..9).fold(model_named("busy"), |model, _| model.fail(server_error()));
    conformance::model(busy().with_fallback(TestModel::new())).assume_deterministic().await.assert_conforms();
    conformance::model(TestModel::new().with_fallback(model_named("unused")))
        .assume_deterministic()
        .await
        .assert_conforms();
}
