//! Chat requests to the model, and the events of its replies.

use std::sync::Arc;

use futures::stream::StreamExt as _;
use haft_core::{
    Message, RunEvent, Schema,
    agent::AgentErrorKind,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError},
};
use tracing::{Instrument as _, Span, field};

use super::{ReactAgent, events::EventSink, trace_content};
use crate::{
    Run,
    dialect::{Reply, ReplyDelta},
    extension::StepInputs,
    run::{RunState, is_broken_reply},
};

impl ReactAgent {
    /// Sends `request` to the model of this step, emits the events of its reply, and returns the
    /// reply as parsed by the dialect.
    pub(super) async fn chat(
        &self,
        run: &Run,
        inputs: &StepInputs,
        request: &ChatRequest,
        events: &EventSink,
    ) -> Result<Reply, ModelError> {
        let content = self.0.traces_content;
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = inputs.model.profile().name,
            gen_ai.request.temperature = request.settings.temperature,
            gen_ai.request.max_tokens = request.settings.max_tokens,
            gen_ai.system_instructions =
                content.then(|| trace_content::parts_json(request.instructions.as_deref())),
            gen_ai.input.messages = content.then(|| trace_content::messages_json(request.messages.iter())),
            gen_ai.output.messages = field::Empty,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.response.model = field::Empty,
            gen_ai.response.id = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
        );
        events.emit(|| RunEvent::RequestStarted { request: run.requests() }).await;
        let reply = self.call_model(run, inputs, request, events).instrument(span).await?;
        events.emit(|| RunEvent::RequestFinished { usage: reply.usage }).await;
        Ok(reply)
    }

    /// Reports `reply` to `run`. If the reply is empty or [broken](is_broken_reply) and the run
    /// repeats the request, emits [`RunEvent::ReplyRejected`], so that readers of the events can
    /// discard the deltas of the reply.
    pub(super) async fn report_reply(
        run: &mut Run,
        reply: Result<Reply, ModelError>,
        events: &EventSink,
    ) -> Result<(), AgentErrorKind> {
        let error = reply.as_ref().err().filter(|error| is_broken_reply(error)).map(ToString::to_string);
        let is_reply = reply.is_ok();
        run.on_chat(reply)?;
        // A reply with content is applied later: it is not rejected yet.
        let is_rejected = is_reply && run.state() != RunState::ReplyReceived;
        if let Some(problem) = error.or_else(|| is_rejected.then(|| ModelError::EmptyResponse.to_string())) {
            // `problem` is not logged, since it may contain text from the reply.
            tracing::warn!("a reply is empty, truncated or invalid: the request is repeated");
            events.emit(|| RunEvent::ReplyRejected { problem }).await;
        }
        Ok(())
    }

    /// Calls the model and records the reply in the current span. The reply is streamed only if the
    /// events of the run have a reader.
    async fn call_model(
        &self,
        run: &Run,
        inputs: &StepInputs,
        request: &ChatRequest,
        events: &EventSink,
    ) -> Result<Reply, ModelError> {
        let outputs = run.outputs();
        let response = if events.has_reader() {
            stream_reply(inputs, outputs, request, events).await?
        } else {
            inputs.model.chat(request).await?
        };
        let span = Span::current();
        span.record("gen_ai.response.model", response.model.as_deref());
        span.record("gen_ai.response.id", response.id.as_deref());
        span.record(
            "gen_ai.response.finish_reasons",
            trace_content::finish_reason_name(&response.finish_reason),
        );
        if self.0.traces_content {
            let message = Arc::new(Message::assistant(response.message.clone()));
            span.record("gen_ai.output.messages", trace_content::messages_json([&message]));
        }
        span.record("gen_ai.usage.input_tokens", response.usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", response.usage.output_tokens);
        Ok(inputs.dialect.parse_reply(response, outputs))
    }
}

async fn stream_reply(
    inputs: &StepInputs,
    outputs: Option<&Schema>,
    request: &ChatRequest,
    events: &EventSink,
) -> Result<ChatResponse, ModelError> {
    let mut stream_parser = inputs.dialect.stream_parser(outputs);
    let mut reply = inputs.model.stream(request);
    let mut received = None;
    while let Some(event) = reply.next().await {
        let event = event.map_err(|error| to_truncated_error(error, received.take()))?;
        let text: &mut String = received.get_or_insert_default();
        if let ChatEvent::TextDelta { text: delta } = &event {
            text.push_str(delta);
        }
        for delta in stream_parser.push(&event) {
            events.emit(|| delta.into()).await;
        }
        if let ChatEvent::Finished(response) = event {
            return Ok(*response);
        }
    }
    Err(truncated_error("the stream ended before the reply".to_owned(), received.unwrap_or_default()))
}

/// Converts a temporary error in the middle of a stream to [`ModelError::Truncated`], so that the
/// run repeats the request. `received` is the text of the stream up to the error. Temporary errors
/// are server errors, connection errors and rate limits that are not permanent.
///
/// Other errors are returned unchanged. An error before the first event (`received` is `None`) is
/// also returned unchanged, because the model has already retried the request.
fn to_truncated_error(error: ModelError, received: Option<String>) -> ModelError {
    match (error, received) {
        (
            error @ (ModelError::Server { .. }
            | ModelError::RateLimited { permanent: false, .. }
            | ModelError::Unreachable { .. }),
            Some(received),
        ) => truncated_error(error.to_string(), received),
        (error, _) => error,
    }
}

fn truncated_error(reason: String, received: String) -> ModelError {
    let partial = if received.is_empty() { AssistantMessage::default() } else { received.into() };
    ModelError::Truncated { reason, partial: Box::new(partial) }
}

impl From<ReplyDelta> for RunEvent {
    fn from(delta: ReplyDelta) -> Self {
        match delta {
            ReplyDelta::Text(text) => Self::TextDelta { text },
            ReplyDelta::Reasoning(text) => Self::ReasoningDelta { text },
        }
    }
}
