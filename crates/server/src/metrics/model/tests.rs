#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use haft_testing::ScriptedModel;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::TextEncoder;

use super::*;

/// Reads the stream of `model` until its first event, or else to the end, and returns the values of
/// `error.type`.
async fn stream(model: ScriptedModel, reads_to_end: bool) -> Vec<String> {
    let metrics = Metrics::new(SdkMeterProvider::builder());
    let measured = MeasuredModel::new(Arc::new(model), metrics.clone());
    let request = ChatRequest::new([]);
    let mut events = measured.stream(&request);
    while events.next().await.is_some() && reads_to_end {}
    drop(events);
    let text = TextEncoder::new().encode_to_string(&metrics.0.registry.gather()).unwrap();
    let counts =
        text.lines().filter(|line| line.starts_with("gen_ai_client_operation_duration_seconds_count"));
    counts
        .map(|line| {
            line.split("error_type=\"").nth(1).map_or("", |rest| rest.split('"').next().unwrap()).to_owned()
        })
        .collect()
}

#[tokio::test]
async fn stream_is_recorded_once() {
    let delta = || Ok(ChatEvent::TextDelta { text: "Hel".to_owned() });
    assert_eq!(stream(ScriptedModel::new().reply_text("Hello."), true).await, [""]);
    assert_eq!(stream(ScriptedModel::new().reply_text("Hello."), false).await, ["cancelled"]);
    assert_eq!(stream(ScriptedModel::new().reply_events([delta()]), true).await, ["truncated"]);
    let failed = ScriptedModel::new().reply_events([delta(), Err(ModelError::EmptyResponse)]);
    assert_eq!(stream(failed, true).await, ["empty_response"]);
}
