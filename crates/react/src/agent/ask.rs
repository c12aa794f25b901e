//! One request, told as it is answered.

use std::sync::Arc;

use futures::stream::StreamExt as _;
use haft_core::{
    Message, RunEvent, Schema,
    agent::AgentErrorKind,
    message::AssistantMessage,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError},
};
use tracing::{Instrument as _, Span, field};

use super::{ReactAgent, content, watch::Events};
use crate::{Delta, Reply, Run, run::is_broken_reply};

impl ReactAgent {
    /// Asks the model, and tells of the reply as it comes.
    pub(super) async fn ask(
        &self,
        run: &Run,
        request: &ChatRequest,
        events: &Events,
    ) -> Result<Reply, ModelError> {
        let model = &self.0.model;
        let content = self.0.traces_content;
        let span = tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.request.model = model.profile().name,
            gen_ai.request.temperature = request.settings.temperature,
            gen_ai.request.max_tokens = request.settings.max_tokens,
            gen_ai.system_instructions = content.then(|| content::parts_of(request.instructions.as_deref())),
            gen_ai.input.messages = content.then(|| content::messages(request.messages.iter())),
            gen_ai.output.messages = field::Empty,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.response.model = field::Empty,
            gen_ai.response.id = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
        );
        events.tell(|| RunEvent::RequestStarted { request: run.requests() }).await;
        let reply = self.listen(run, request, events).instrument(span).await?;
        events.tell(|| RunEvent::RequestFinished { usage: reply.usage }).await;
        Ok(reply)
    }

    /// Tells the run what came of a request; and a watcher that what was told of a reply does not count, where it broke and is asked for again.
    pub(super) async fn hear_out(
        run: &mut Run,
        reply: Result<Reply, ModelError>,
        events: &Events,
    ) -> Result<(), AgentErrorKind> {
        let problem = reply.as_ref().err().filter(|error| is_broken_reply(error)).map(ToString::to_string);
        run.on_chat(reply)?;
        if let Some(problem) = problem {
            // What is wrong may quote what was said.
            tracing::warn!("a reply broke off or cannot be read; asking again");
            events.tell(|| RunEvent::ReplyRefused { problem }).await;
        }
        Ok(())
    }

    /// The reply, as it comes if somebody watches, else as a whole.
    async fn listen(&self, run: &Run, request: &ChatRequest, events: &Events) -> Result<Reply, ModelError> {
        let outputs = run.outputs();
        let response = if events.are_watched() {
            self.hear(outputs, request, events).await?
        } else {
            self.0.model.chat(request).await?
        };
        let span = Span::current();
        span.record("gen_ai.response.model", response.model.as_deref());
        span.record("gen_ai.response.id", response.id.as_deref());
        span.record("gen_ai.response.finish_reasons", content::reason(&response.finish_reason));
        if self.0.traces_content {
            let said = Arc::new(Message::assistant(response.message.clone()));
            span.record("gen_ai.output.messages", content::messages([&said]));
        }
        span.record("gen_ai.usage.input_tokens", response.usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", response.usage.output_tokens);
        Ok(self.dialect().fold(response, outputs))
    }

    async fn hear(
        &self,
        outputs: Option<&Schema>,
        request: &ChatRequest,
        events: &Events,
    ) -> Result<ChatResponse, ModelError> {
        let mut listener = self.dialect().listener(outputs);
        let mut reply = self.0.model.stream(request);
        let mut heard = None;
        while let Some(event) = reply.next().await {
            let event = event.map_err(|error| broken_off(error, heard.take()))?;
            let said: &mut String = heard.get_or_insert_default();
            if let ChatEvent::TextDelta { text } = &event {
                said.push_str(text);
            }
            for delta in listener.hear(&event) {
                events.tell(|| delta.into()).await;
            }
            if let ChatEvent::Finished(response) = event {
                return Ok(*response);
            }
        }
        Err(cut("the stream ended before the reply".to_owned(), heard.unwrap_or_default()))
    }
}

/// What a server says in the middle of a reply ends that reply: before its first word the model would have asked again by itself, and
/// now nobody but the run can.
fn broken_off(error: ModelError, heard: Option<String>) -> ModelError {
    match (error, heard) {
        (
            error @ (ModelError::Server { .. }
            | ModelError::RateLimited { permanent: false, .. }
            | ModelError::Unreachable { .. }),
            Some(heard),
        ) => cut(error.to_string(), heard),
        (error, _) => error,
    }
}

fn cut(reason: String, heard: String) -> ModelError {
    let partial = if heard.is_empty() { AssistantMessage::default() } else { heard.into() };
    ModelError::Truncated { reason, partial: Box::new(partial) }
}

impl From<Delta> for RunEvent {
    fn from(delta: Delta) -> Self {
        match delta {
            Delta::Text(text) => Self::TextDelta { text },
            Delta::Thought(text) => Self::ThoughtDelta { text },
        }
    }
}
