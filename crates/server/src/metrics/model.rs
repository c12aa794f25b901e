//! Measured model requests.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use futures::{
    StreamExt as _,
    future::ready,
    stream::{self, BoxStream},
};
use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
    usage::Usage,
};
use opentelemetry::KeyValue;

use super::{Metrics, OTHER};

/// A model whose requests are measured.
pub(super) struct MeasuredModel {
    model: Arc<dyn ChatModel>,
    metrics: Metrics,
}

impl MeasuredModel {
    pub(super) fn new(model: Arc<dyn ChatModel>, metrics: Metrics) -> Self {
        Self { model, metrics }
    }

    fn start(&self) -> Operation {
        let model = self.model.profile().name.clone();
        Operation { metrics: self.metrics.clone(), model, started: Instant::now(), is_recorded: false }
    }
}

#[async_trait]
impl ChatModel for MeasuredModel {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let mut operation = self.start();
        let response = self.model.chat(request).await;
        match &response {
            Ok(response) => operation.succeed(&response.usage),
            Err(error) => operation.fail(error_type(error)),
        }
        response
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let mut operation = self.start();
        // `None` is the end of the stream, which a reader that has the reply does not wait for.
        let events = self.model.stream(request).map(Some).chain(stream::once(ready(None)));
        let measured = events.filter_map(move |event| {
            match &event {
                Some(Ok(ChatEvent::Finished(response))) => operation.succeed(&response.usage),
                Some(Ok(_)) => {}
                Some(Err(error)) => operation.fail(error_type(error)),
                None => operation.fail("truncated"),
            }
            ready(event)
        });
        measured.boxed()
    }

    fn profile(&self) -> &ModelProfile {
        self.model.profile()
    }
}

/// A model request in progress. It is recorded once. If it is dropped before its end, it was
/// cancelled.
struct Operation {
    metrics: Metrics,
    model: String,
    started: Instant,
    is_recorded: bool,
}

impl Operation {
    fn succeed(&mut self, usage: &Usage) {
        if usage.is_reported() && !self.is_recorded {
            for (kind, tokens) in [("input", usage.input_tokens), ("output", usage.output_tokens)] {
                let [operation, model] = self.attributes();
                let attributes = [operation, model, KeyValue::new("gen_ai.token.type", kind)];
                self.metrics.0.token_usage.record(tokens, &attributes);
            }
        }
        self.record(None);
    }

    fn fail(&mut self, error_type: &'static str) {
        self.record(Some(error_type));
    }

    fn record(&mut self, error_type: Option<&'static str>) {
        if std::mem::replace(&mut self.is_recorded, true) {
            return;
        }
        let mut attributes = Vec::from(self.attributes());
        attributes.extend(error_type.map(|error_type| KeyValue::new("error.type", error_type)));
        self.metrics.0.operation_duration.record(self.started.elapsed().as_secs_f64(), &attributes);
    }

    fn attributes(&self) -> [KeyValue; 2] {
        [
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.request.model", self.model.clone()),
        ]
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.fail(if std::thread::panicking() { "panicked" } else { "cancelled" });
    }
}

/// Returns the value of `error.type` for the error of a model.
fn error_type(error: &ModelError) -> &'static str {
    match error {
        ModelError::Unauthorized(_) => "unauthorized",
        ModelError::Rejected { .. } => "rejected",
        ModelError::RateLimited { .. } => "rate_limited",
        ModelError::Server { .. } => "server",
        ModelError::Unreachable { .. } => "unreachable",
        ModelError::TimedOut { .. } => "timed_out",
        ModelError::ContentFiltered(_) => "content_filtered",
        ModelError::InvalidGeneration { .. } => "invalid_generation",
        ModelError::ContextTooLong(_) => "context_too_long",
        ModelError::Truncated { .. } => "truncated",
        ModelError::EmptyResponse => "empty_response",
        ModelError::InvalidResponse(_) => "invalid_response",
        ModelError::Unsupported(_) => "unsupported",
        ModelError::Failed { .. } => "failed",
        ModelError::Panicked => "panicked",
        ModelError::AllFailed { .. } => "all_failed",
        _ => OTHER,
    }
}
