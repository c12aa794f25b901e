//! The HTTP client for the Chat Completions API and the Responses API.
//!
//! An implementation of [`Api`] builds the request bodies of one API and accumulates its replies.
//! [`Client`] provides everything else: the connection, retries, timeouts, redaction and tracing.

mod builder;
mod chat_completions;
mod endpoint;
mod profile;
mod provider;
mod reply_stream;
mod responses;
pub(crate) mod structured_output;
mod transport;
mod unsupported_params;

use std::{fmt, mem::replace, sync::Arc};

use futures::{
    TryFutureExt as _,
    stream::{self, BoxStream, Stream, StreamExt as _},
};
use haft_core::model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile};
use haft_http::model::{RequestTimer, RetryPolicy};
use serde::Serialize;
use tracing::{Instrument as _, Span, field};

use self::{
    builder::ClientSettings, reply_stream::ReplyStream, structured_output::StructuredOutput,
    transport::Transport, unsupported_params::ApiRejection,
};
use crate::{format::EncodingOptions, reply::StreamAccumulator};

pub use haft_http::model::Timeouts;

pub use builder::{BuildError, ModelBuilder};
pub use chat_completions::{ChatCompletions, ChatCompletionsBuilder};
pub use provider::{Provider, UnknownProvider};
pub use responses::{Responses, ResponsesBuilder};
pub use transport::HttpService;
#[cfg(feature = "async-openai")]
pub(crate) use {profile::profile_of, reply_stream::USAGE_WAIT};

/// The parts of a model client that differ between Chat Completions and Responses.
trait Api: Sized + Send + Sync {
    /// The path of the API, relative to the base URL.
    const PATH: &'static str;

    /// The fields that this client may send in a request body. `extra_fields` must not contain
    /// them.
    const BODY_FIELDS: &'static [&'static str];

    /// The maximum length of the id of a call that OpenAI accepts in this API, in bytes.
    const MAX_CALL_ID_BYTES: usize;

    /// The settings of one HTTP request, such as streaming and the parameters to omit. If the
    /// server rejects an optional parameter, the next HTTP request has different settings.
    type Variant: Send + Sync;

    /// The accumulator that builds a reply from a body or from stream events.
    type Accumulator: StreamAccumulator;

    /// Returns the settings for the first HTTP request of a model request or of a retry. After a
    /// rejection, [`variant_without_rejected`](Self::variant_without_rejected) returns the settings
    /// for the next HTTP request.
    fn first_variant(&self, is_streamed: bool) -> Self::Variant;

    /// Returns `variant` without the parameter that caused `rejection`, or with a replacement for
    /// it. `None` if no optional parameter caused `rejection`.
    fn variant_without_rejected(
        &self,
        variant: &Self::Variant,
        rejection: &ApiRejection,
    ) -> Option<Self::Variant>;

    /// Remembers the parameter that caused the last rejection, so that later requests omit it from
    /// the start. The last rejected request (`rejected`) contained this parameter, and the next
    /// request (`accepted`) succeeded without it.
    fn remember_rejected(&self, accepted: &Self::Variant, rejected: &Self::Variant);

    /// Returns the HTTP body for `request`, and a function that creates the accumulator for the
    /// reply. Updates `variant` to match the body, for example if the conversation does not
    /// continue a stored response.
    fn build_request<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        variant: &mut Self::Variant,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> Self::Accumulator + Send + 'a);
}

/// A client for one model. `A` is the API: Chat Completions or Responses.
struct Client<A> {
    api: A,
    profile: ModelProfile,
    defaults: ClientSettings,
    encoding: Arc<EncodingOptions>,
    transport: Transport,
    retry: RetryPolicy,
    timeouts: Timeouts,
}

impl<A: Api> Client<A> {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let span = self.start_span();
        let timer = RequestTimer::start(&self.timeouts);
        let send_and_read = || async {
            let (_, response) = self.send(request, false, &timer).await?;
            response.ok_or(ModelError::EmptyResponse)
        };
        // The future is boxed, because `retry` and `instrument` would otherwise copy a large
        // future.
        let attempt = || Box::pin(send_and_read().map_err(|error| self.redact(error)));
        let reply = self.retry.run(&timer, attempt).instrument(span.clone()).await;
        let response = match StructuredOutput::new(request, self.defaults.quirks.response_schema_options()) {
            None => reply?,
            Some(structured) => {
                let mut reply = reply.map_err(|error| structured.unwrap_partial(error))?;
                structured.restore_reply(&mut reply);
                reply
            }
        };
        record_response(&span, &response);
        Ok(response)
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let span = self.start_span();
        let timer = RequestTimer::start(&self.timeouts);
        let reading = span.clone();
        let opening = async move {
            let attempt = || Box::pin(self.open(request, &timer).map_err(|error| self.redact(error)));
            let reply = self.retry.run(&timer, attempt).await?;
            Ok(self.stream_events(reply, reading))
        };
        let events = opening.instrument(span).try_flatten_stream();
        match StructuredOutput::new(request, self.defaults.quirks.response_schema_options()) {
            None => events.boxed(),
            Some(structured) => structured.events(events).boxed(),
        }
    }

    /// Returns the events of `reply`. The reply is read and dropped inside `span`.
    fn stream_events<'a>(
        &'a self,
        reply: ReplyStream<A::Accumulator>,
        span: Span,
    ) -> impl Stream<Item = Result<ChatEvent, ModelError>> + 'a {
        // The reply is boxed, because each step of the stream would otherwise copy it.
        let reply = Box::new(reply).instrument(span.clone());
        stream::try_unfold(reply, move |mut reply| {
            let step = async move {
                let event = reply.inner_mut().next().await.map_err(|error| self.redact(error))?;
                if let Some(ChatEvent::Finished(response)) = &event {
                    record_response(reply.span(), response);
                }
                Ok(event.map(|event| (event, reply)))
            };
            step.instrument(span.clone())
        })
    }

    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    /// Sends `request` and waits for the whole reply, or for the first event of a streamed reply.
    /// If the server rejects an optional parameter, by its status or in place of the reply, sends
    /// the request again without this parameter.
    async fn send(
        &self,
        request: &ChatRequest,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> Result<(ReplyStream<A::Accumulator>, Option<ChatResponse>), ModelError> {
        let mut variant = self.api.first_variant(is_streamed);
        let mut rejected: Option<A::Variant> = None;
        loop {
            let (body, accumulator) = A::build_request(self, request, &mut variant);
            let rejection = match self.transport.send(&body, &timer.for_attempt()).await {
                Ok(reply) => {
                    let mut reply = ReplyStream::new(reply, accumulator());
                    match reply.begin(is_streamed).await {
                        Ok(response) => {
                            if let Some(rejected) = rejected {
                                self.api.remember_rejected(&variant, &rejected);
                            }
                            return Ok((reply, response));
                        }
                        Err(error) => error.into(),
                    }
                }
                Err(rejection) => rejection,
            };
            let Some(next) = self.api.variant_without_rejected(&variant, &rejection) else {
                return Err(rejection.error);
            };
            let error = self.redact(rejection.error);
            tracing::warn!(%error, "retrying without the parameter rejected by the model's server");
            rejected = Some(replace(&mut variant, next));
        }
    }

    /// Sends `request` as a streamed request and waits for the first event of the reply. An error
    /// before this event can be retried, because the caller has received nothing yet.
    async fn open(
        &self,
        request: &ChatRequest,
        timer: &RequestTimer,
    ) -> Result<ReplyStream<A::Accumulator>, ModelError> {
        self.send(request, true, timer).await.map(|(reply, _)| reply)
    }

    /// Redacts the API key and other secrets in the text of `error`.
    fn redact(&self, error: ModelError) -> ModelError {
        self.transport.endpoint().redact(error)
    }

    fn start_span(&self) -> Span {
        // An unknown server is assumed to implement OpenAI's API, so the span names OpenAI as the
        // provider.
        let provider = self.defaults.provider.unwrap_or(Provider::OpenAi);
        chat_span(provider.telemetry_name(), &self.profile.name, self.transport.endpoint().address())
    }

    fn fmt_debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("model", &self.profile.name)
            .field("endpoint", &self.transport.endpoint().address())
            .finish_non_exhaustive()
    }
}

/// Creates the span of a model request, with the attributes of OpenTelemetry's semantic
/// conventions.
pub(crate) fn chat_span(provider: &str, model: &str, address: &str) -> Span {
    tracing::info_span!(
        "chat",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.response.id = field::Empty,
        gen_ai.response.model = field::Empty,
        gen_ai.response.finish_reasons = field::Empty,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        server.address = address,
    )
}

/// Records the attributes of `response` in `span`, the span of the model request.
pub(crate) fn record_response(span: &Span, response: &ChatResponse) {
    span.record("gen_ai.response.id", &response.id);
    span.record("gen_ai.response.model", &response.model);
    span.record("gen_ai.response.finish_reasons", field::debug(&response.finish_reason));
    span.record("gen_ai.usage.input_tokens", response.usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", response.usage.output_tokens);
}
