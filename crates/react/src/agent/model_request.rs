//! Chat requests to the model, and the events of its replies.

use std::sync::Arc;

use futures::stream::StreamExt as _;
use haft_core::{
    Message, RunEvent, Timestamp,
    agent::AgentErrorKind,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError},
};
use tracing::{Instrument as _, Span, field};

use super::{ReactAgent, events::EventSink, reply_events::ReplyEvents, trace_content};
use crate::{
    Run,
    dialect::{Reply, StreamParser},
    extension::StepInputs,
    host_panic::{catch_dialect_panic, model_name},
    run::{RunBudget, RunState, is_broken_reply},
};

impl ReactAgent {
    /// Sends `request` to the model of this step, emits the events of its reply, and returns the
    /// reply as parsed by the dialect, or the error of the model. Fails if the dialect panics.
    pub(super) async fn chat(
        &self,
        run: &Run,
        inputs: &StepInputs,
        request: &ChatRequest,
        events: &EventSink,
        budget: &RunBudget,
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        let content = self.0.traces_content;
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = model_name(&*inputs.model),
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
        if let Ok(reply) = &reply {
            // The enclosing run counts the usage even if this run is dropped by a reader of the
            // event.
            budget.report_up_to(run.usage() + reply.usage.counted_as_request());
            events.emit(|| RunEvent::RequestFinished { usage: reply.usage }).await;
        }
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
        // The correction after an invalid generation is in the transcript, and is reported from
        // there.
        let is_reported = |error: &ModelError| matches!(error, ModelError::InvalidGeneration { .. });
        let error = reply.as_ref().err().filter(|error| is_broken_reply(error) && !is_reported(error));
        let error = error.map(ToString::to_string);
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
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        let step = inputs.as_step(Timestamp::default());
        let mut reply_events = events.has_reader().then(|| ReplyEvents::new(run));
        let response = match &mut reply_events {
            Some(reply_events) => {
                let parser = run.stream_parser(&step)?;
                stream_reply(inputs, parser, request, events, reply_events).await?
            }
            None => ModelError::catch_panic(async { inputs.model.chat(request).await }).await,
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                let mut reply = run.read_failed_generation(error, &step)?;
                if let (Ok(reply), Some(reply_events)) = (&mut reply, reply_events) {
                    for event in reply_events.complete(reply) {
                        events.emit(|| event).await;
                    }
                }
                return Ok(reply);
            }
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
        let mut reply = run.parse_reply(response, &step)?;
        if let Some(reply_events) = reply_events {
            for event in reply_events.complete(&mut reply) {
                events.emit(|| event).await;
            }
        }
        Ok(Ok(reply))
    }
}

/// Streams the reply to `request`, and emits its deltas. Returns the complete reply, or the error
/// of the model. Fails if the dialect panics.
async fn stream_reply(
    inputs: &StepInputs,
    mut stream_parser: Box<dyn StreamParser>,
    request: &ChatRequest,
    events: &EventSink,
    reply_events: &mut ReplyEvents<'_>,
) -> Result<Result<ChatResponse, ModelError>, AgentErrorKind> {
    let mut reply = match ModelError::catch_panic(async { Ok(inputs.model.stream(request)) }).await {
        Ok(reply) => reply,
        Err(error) => return Ok(Err(error)),
    };
    let mut received = None;
    loop {
        let event = match ModelError::catch_panic(async { reply.next().await.transpose() }).await {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(error) => return Ok(Err(to_truncated_error(error, received.take()))),
        };
        let text: &mut String = received.get_or_insert_default();
        if let ChatEvent::TextDelta { text: delta } = &event {
            text.push_str(delta);
        }
        for delta in catch_dialect_panic("StreamParser::push", || stream_parser.push(&event))? {
            if let Some(event) = reply_events.convert(delta) {
                events.emit(|| event).await;
            }
        }
        if let ChatEvent::Finished(response) = event {
            return Ok(Ok(*response));
        }
    }
    Ok(Err(truncated_error("the stream ended before the reply".to_owned(), received.unwrap_or_default())))
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
