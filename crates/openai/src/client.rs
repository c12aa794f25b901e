//! Models behind an HTTP API.
//!
//! What is asked and how the answer is put together is an [`Api`]'s; everything else, from the connection to the retries,
//! is the same for all of them.

mod builder;
mod chat_completions;
mod clock;
mod endpoint;
mod events;
mod profile;
mod provider;
mod refusals;
mod reply;
mod reply_events;
mod reply_stream;
mod responses;
mod retry;
mod structured;
mod tls;
mod transport;

use std::{fmt, mem::replace, pin::pin, sync::Arc};

use async_openai::error::OpenAIError;
use futures::{
    TryFutureExt as _,
    stream::{BoxStream, StreamExt as _},
};
use haft_core::model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile};
use serde::{Serialize, de::IgnoredAny};
use tracing::{Instrument as _, Span, field};

use self::{
    clock::Clock,
    profile::Habits,
    refusals::Refusal,
    reply_events::ReplyEvents,
    reply_stream::ReplyStream,
    retry::RetryPolicy,
    structured::Structured,
    transport::{OpenAi, Transport},
};
use crate::{format::Style, reply::Streamed};

pub use builder::{BuildError, ModelBuilder};
pub use chat_completions::{ChatCompletions, ChatCompletionsBuilder};
pub use clock::Timeouts;
pub use provider::{Provider, UnknownProvider};
pub use responses::{Responses, ResponsesBuilder};
pub use transport::HttpService;

/// All that differs between the APIs of a server.
trait Api: Sized + Send + Sync {
    /// Where it is, behind the base URL.
    const PATH: &'static str;

    /// What it puts into the body of a request.
    const FIELDS: &'static [&'static str];

    /// How a reply is wanted, and what is asked for that a server may refuse.
    type Form: Send + Sync;

    /// What becomes of a reply.
    type Fold: Streamed;

    /// The form to begin with.
    fn form(&self, is_streamed: bool) -> Self::Form;

    /// The form without what a server refused; `None` where it was not about the form.
    fn lesser(&self, form: &Self::Form, refusal: &Refusal) -> Option<Self::Form>;

    /// Remembers what had to be left out of a form that was taken.
    fn learn(&self, form: &Self::Form, before: &Self::Form);

    /// The body of a request, and what begins to hear the reply. What is not asked for after all is left out of the form.
    fn ask<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        form: &mut Self::Form,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> Self::Fold + Send + 'a);

    /// Lets async-openai send a request, whatever its body.
    fn send(openai: &OpenAi) -> impl Future<Output = Result<IgnoredAny, OpenAIError>> + Send;
}

/// A model behind some API.
struct Client<A> {
    api: A,
    profile: ModelProfile,
    habits: Habits,
    style: Arc<Style>,
    transport: Transport,
    retry: RetryPolicy,
    timeouts: Timeouts,
}

impl<A: Api> Client<A> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let span = self.span();
        let clock = Clock::start(&self.timeouts);
        let ask = || async {
            let mut reply = self.send(request, false, &clock).await?;
            reply.whole().await
        };
        let attempt = || ask().map_err(|error| self.redact(error));
        // Pinned first: what is put around it then moves a pointer, not the state of all attempts.
        let attempts = pin!(self.retry.run(&clock, attempt));
        let reply = attempts.instrument(span.clone()).await;
        let response = match Structured::of(request, &self.habits.quirks) {
            None => reply?,
            Some(structured) => {
                let mut reply = reply.map_err(|error| structured.cut(error))?;
                structured.restore(&mut reply);
                reply
            }
        };
        record(&span, &response);
        Ok(response)
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let span = self.span();
        let clock = Clock::start(&self.timeouts);
        let opening = async move {
            let attempt = || self.open(request, &clock).map_err(|error| self.redact(error));
            self.retry.run(&clock, attempt).await.map(Box::new)
        };
        let events = ReplyEvents::new(Box::pin(opening), span, self.transport.endpoint());
        match Structured::of(request, &self.habits.quirks) {
            None => events.boxed(),
            Some(structured) => structured.events(events).boxed(),
        }
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    /// Sends the request and waits for the head of the reply. What the server refuses and can be left out is left out.
    async fn send(
        &self,
        request: &ChatRequest,
        is_streamed: bool,
        clock: &Clock,
    ) -> Result<ReplyStream<A::Fold>, ModelError> {
        let mut form = self.api.form(is_streamed);
        let mut refused: Option<A::Form> = None;
        loop {
            let (body, hear) = A::ask(self, request, &mut form);
            let refusal = match self.transport.send::<A>(&body, &clock.attempt()).await {
                Ok(reply) => {
                    if let Some(refused) = refused {
                        self.api.learn(&form, &refused);
                    }
                    return Ok(ReplyStream::new(reply, hear()));
                }
                Err(refusal) => refusal,
            };
            let Some(lesser) = self.api.lesser(&form, &refusal) else { return Err(refusal.error) };
            let error = self.redact(refusal.error);
            tracing::warn!(%error, "asking again without what the model's server refused");
            refused = Some(replace(&mut form, lesser));
        }
    }

    /// Sends the request and waits for the first event: until then a failure may be tried again unseen.
    async fn open(&self, request: &ChatRequest, clock: &Clock) -> Result<ReplyStream<A::Fold>, ModelError> {
        let mut reply = self.send(request, true, clock).await?;
        reply.fill().await?;
        Ok(reply)
    }

    /// Takes out of an error what is secret, before anybody sees it.
    fn redact(&self, error: ModelError) -> ModelError {
        self.transport.endpoint().redact(error)
    }

    fn span(&self) -> Span {
        // A server of which nothing is known is one that speaks as OpenAI's does.
        let provider = self.habits.provider.unwrap_or(Provider::OpenAi);
        tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider.traced_name(),
            gen_ai.request.model = self.profile.name,
            gen_ai.response.id = field::Empty,
            gen_ai.response.model = field::Empty,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
            server.address = self.transport.endpoint().address(),
        )
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("model", &self.profile.name)
            .field("endpoint", &self.transport.endpoint().address())
            .finish_non_exhaustive()
    }
}

fn record(span: &Span, response: &ChatResponse) {
    span.record("gen_ai.response.id", &response.id);
    span.record("gen_ai.response.model", &response.model);
    span.record("gen_ai.response.finish_reasons", field::debug(&response.finish_reason));
    span.record("gen_ai.usage.input_tokens", response.usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", response.usage.output_tokens);
}
