//! The metrics of a server. Names, attributes and bucket boundaries are those of OpenTelemetry's
//! semantic conventions 1.42 for HTTP (*HTTP metrics*) and for generative AI (*Generative AI client
//! metrics*, *Generative AI tool metrics*).
//!
//! The number of series is bounded: attributes have no ids, no paths, and no names that a client or
//! a model chooses.

mod model;
mod request;

use std::sync::Arc;

use axum::{extract::State, http::header, response::IntoResponse};
use haft_core::{
    call::FailureKind,
    pipeline::{CallRecord, Recorder},
};
use haft_react::{Extension, ReactAgentBuilder};
use opentelemetry::{
    KeyValue,
    metrics::{Histogram, MeterProvider as _, UpDownCounter},
};
use opentelemetry_sdk::metrics::{MeterProviderBuilder, SdkMeterProvider};
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};

use crate::{
    error::{ApiError, Failures},
    server::Shared,
};
use model::MeasuredModel;

/// The name of the extension that measures model requests.
const EXTENSION: &str = "haft-server-metrics";

/// The value of an attribute that is not one of a known set.
const OTHER: &str = "_OTHER";

const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The boundaries for operations of models and tools, in seconds.
const OPERATION_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// The boundaries for HTTP requests, in seconds.
const REQUEST_SECONDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// The instruments of a server, and their text for Prometheus.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Arc<Instruments>);

#[derive(Debug)]
struct Instruments {
    provider: SdkMeterProvider,
    registry: Registry,
    token_usage: Histogram<u64>,
    operation_duration: Histogram<f64>,
    tool_duration: Histogram<f64>,
    request_duration: Histogram<f64>,
    active_runs: InProgress,
    event_readers: InProgress,
}

/// A counter of things in progress.
#[derive(Clone, Debug)]
pub(crate) struct InProgress(UpDownCounter<i64>);

impl InProgress {
    /// Counts one more until the guard is dropped.
    pub(crate) fn add_one(&self) -> InProgressGuard {
        self.0.add(1, &[]);
        InProgressGuard(self.clone())
    }
}

#[derive(Debug)]
pub(crate) struct InProgressGuard(InProgress);

impl Drop for InProgressGuard {
    fn drop(&mut self) {
        self.0.0.add(-1, &[]);
    }
}

impl Metrics {
    pub(crate) fn new(provider: MeterProviderBuilder) -> Self {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build();
        let provider = match exporter {
            Ok(exporter) => provider.with_reader(exporter),
            Err(error) => {
                tracing::error!(%error, "the route /metrics has no metrics");
                provider
            }
        };
        let provider = provider.build();
        let meter = provider.meter("haft");
        let seconds = |name: &'static str, boundaries: [f64; 14], description: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(description);
            histogram.with_boundaries(boundaries.to_vec()).build()
        };
        let in_progress = |name: &'static str, unit: &'static str, description: &'static str| {
            let counter = meter.i64_up_down_counter(name).with_unit(unit).with_description(description);
            InProgress(counter.build())
        };
        let token_usage = meter
            .u64_histogram("gen_ai.client.token.usage")
            .with_unit("{token}")
            .with_description("Number of input and output tokens used.")
            .with_boundaries(TOKENS.to_vec())
            .build();
        let instruments = Instruments {
            token_usage,
            operation_duration: seconds(
                "gen_ai.client.operation.duration",
                OPERATION_SECONDS,
                "GenAI operation duration.",
            ),
            tool_duration: seconds(
                "gen_ai.execute_tool.duration",
                OPERATION_SECONDS,
                "Duration of a single tool execution.",
            ),
            request_duration: seconds(
                "http.server.request.duration",
                REQUEST_SECONDS,
                "Duration of HTTP server requests.",
            ),
            active_runs: in_progress("haft.server.active_runs", "{run}", "Number of runs in progress."),
            event_readers: in_progress(
                "haft.server.event_readers",
                "{reader}",
                "Number of open event streams.",
            ),
            provider,
            registry,
        };
        Self(Arc::new(instruments))
    }

    pub(crate) fn provider(&self) -> &SdkMeterProvider {
        &self.0.provider
    }

    pub(crate) fn active_runs(&self) -> InProgress {
        self.0.active_runs.clone()
    }

    /// Measures the model requests and the tool calls of an agent.
    pub(crate) fn measure(&self, agent: ReactAgentBuilder) -> ReactAgentBuilder {
        let metrics = self.clone();
        // The last extension is the innermost: a reply from a cache is not a model request.
        let models = Extension::new(EXTENSION)
            .adapt_model(move |model| Arc::new(MeasuredModel::new(model, metrics.clone())));
        agent.recorder(self.clone()).extension(models)
    }
}

impl Recorder for Metrics {
    /// Measures a call that has ended. A call that waits for a decision, or has a result from a
    /// cache, has not run.
    fn record(&self, record: &CallRecord<'_>) {
        let Some(result) = record.result().filter(|_| !record.is_cached) else { return };
        let tool = record.definition.map_or(OTHER, |definition| definition.name().as_str());
        let mut attributes = vec![KeyValue::new("gen_ai.tool.name", tool.to_owned())];
        if let Some(failure) = result.failure() {
            attributes.push(KeyValue::new("error.type", failure_type(failure.kind)));
        }
        self.0.tool_duration.record(record.duration.as_secs_f64(), &attributes);
    }
}

/// Returns the value of `error.type` for the failure of a call.
fn failure_type(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::InvalidArguments => "invalid_arguments",
        FailureKind::Retry => "retry",
        FailureKind::Failed => "failed",
        FailureKind::Denied => "denied",
        FailureKind::TimedOut => "timed_out",
        FailureKind::Cancelled => "cancelled",
        FailureKind::NotFound => "not_found",
        FailureKind::Unconfirmed => "unconfirmed",
        FailureKind::Fatal => "fatal",
        _ => OTHER,
    }
}

/// Read the metrics, in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "operation",
    responses((status = 200, body = String, content_type = "text/plain"), Failures)
)]
pub(crate) async fn show(State(shared): State<Arc<Shared>>) -> Result<impl IntoResponse, ApiError> {
    let families = shared.metrics.0.registry.gather();
    let text = TextEncoder::new().encode_to_string(&families).map_err(|error| {
        tracing::error!(%error, "the metrics cannot be written");
        ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written")
    })?;
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text))
}
