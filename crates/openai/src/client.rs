//! Models behind an HTTP API.

mod builder;
mod clock;
mod endpoint;
mod events;
mod profile;
mod reply;
mod reply_stream;
mod request;
mod retry;
mod transport;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use futures::{
    TryFutureExt as _, TryStreamExt as _,
    stream::{self, BoxStream, StreamExt as _},
};
use haft_core::{ChatEvent, ChatModel, ChatRequest, ChatResponse, ModelError, ModelProfile};
use tracing::{Instrument as _, Span, field};

use self::{
    clock::Clock,
    profile::Habits,
    reply_stream::ReplyStream,
    request::{Body, Delivery},
    retry::RetryPolicy,
    transport::Transport,
};

pub use builder::{BuildError, ChatCompletionsBuilder};
pub use clock::Timeouts;

/// A model behind the Chat Completions API: of OpenAI, or of any server that speaks it, such as llama.cpp, vLLM,
/// Ollama or LM Studio. Cheap to clone.
///
/// Failures that may pass (429, 5xx, a connection that breaks before the reply) are tried again, with a growing wait
/// that is never shorter than the server's `Retry-After`. Every wait has an end: see [`Timeouts`].
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, ChatRequest, Message};
/// use haft_openai::ChatCompletions;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ChatCompletions::builder("qwen2.5-coder").base_url("http://localhost:8080/v1").build()?;
/// let reply = model.chat(&ChatRequest::new([Message::user("Hello")])).await?;
/// println!("{}", reply.message.text());
/// # Ok(())
/// # }
/// ```
///
/// # Cancellation
///
/// Dropping a future or a stream closes its connection. The server may have begun to answer, and count it.
#[derive(Clone)]
pub struct ChatCompletions(Arc<Inner>);

struct Inner {
    profile: ModelProfile,
    habits: Habits,
    /// Whether the server was seen to refuse `stream_options`, as Mistral does.
    refuses_usage: AtomicBool,
    transport: Transport,
    retry: RetryPolicy,
    timeouts: Timeouts,
}

impl ChatCompletions {
    /// Finds server and key in the environment: `OPENAI_BASE_URL`, by default OpenAI's, and `OPENAI_API_KEY`.
    ///
    /// # Errors
    ///
    /// Fails when a variable holds what cannot be used, or when OpenAI's server is meant and there is no key.
    pub fn from_env(model: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(model).read_env().build()
    }

    /// Begins to describe a model; without further settings it is at OpenAI, and has no key.
    pub fn builder(model: impl Into<String>) -> ChatCompletionsBuilder {
        ChatCompletionsBuilder::new(model.into())
    }

    /// Sends the request and waits for the head of the reply.
    async fn send(
        &self,
        request: &ChatRequest,
        delivery: Delivery,
        clock: &Clock,
    ) -> Result<ReplyStream, ModelError> {
        let body = Body::new(&self.0.profile, self.0.habits, request, delivery);
        self.0.transport.send(&body, &clock.attempt()).await.map(ReplyStream::new)
    }

    /// Asks for a stream with its usage, and of a server that does not know the usage of a stream for one without it.
    async fn send_streaming(&self, request: &ChatRequest, clock: &Clock) -> Result<ReplyStream, ModelError> {
        if !self.0.refuses_usage.load(Ordering::Relaxed) {
            match self.send(request, Delivery::StreamWithUsage, clock).await {
                Err(error) if is_about_usage(&error) => self.0.refuses_usage.store(true, Ordering::Relaxed),
                reply => return reply,
            }
        }
        self.send(request, Delivery::Stream, clock).await
    }

    /// Sends the request and waits for the first event: until then a failure may be tried again unseen.
    async fn open(&self, request: &ChatRequest, clock: &Clock) -> Result<ReplyStream, ModelError> {
        let mut reply = self.send_streaming(request, clock).await?;
        reply.fill().await?;
        Ok(reply)
    }

    /// Takes out of an error what is secret, before anybody sees it.
    fn redact(&self, error: ModelError) -> ModelError {
        self.0.transport.endpoint().redact(error)
    }

    fn span(&self) -> Span {
        tracing::info_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = "openai",
            gen_ai.request.model = self.0.profile.name,
            gen_ai.response.id = field::Empty,
            gen_ai.response.model = field::Empty,
            gen_ai.response.finish_reasons = field::Empty,
            gen_ai.usage.input_tokens = field::Empty,
            gen_ai.usage.output_tokens = field::Empty,
            server.address = self.0.transport.endpoint().address(),
        )
    }
}

#[async_trait]
impl ChatModel for ChatCompletions {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let span = self.span();
        let clock = Clock::start(&self.0.timeouts);
        let ask = || async { self.send(request, Delivery::Whole, &clock).await?.whole().await };
        let attempt = || ask().map_err(|error| self.redact(error));
        let response = self.0.retry.run(&clock, attempt).instrument(span.clone()).await?;
        record(&span, &response);
        Ok(response)
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        let span = self.span();
        let clock = Clock::start(&self.0.timeouts);
        let opening = async move {
            let attempt = || self.open(request, &clock).map_err(|error| self.redact(error));
            self.0.retry.run(&clock, attempt).await
        };
        stream::once(opening.instrument(span.clone()))
            .map_ok(move |reply| reply.into_events(span.clone()))
            .try_flatten()
            .map_err(|error| self.redact(error))
            .boxed()
    }

    fn profile(&self) -> &ModelProfile {
        &self.0.profile
    }
}

impl fmt::Debug for ChatCompletions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatCompletions")
            .field("model", &self.0.profile.name)
            .field("endpoint", &self.0.transport.endpoint().address())
            .finish_non_exhaustive()
    }
}

/// Whether a server refuses to tell the usage of a stream.
fn is_about_usage(error: &ModelError) -> bool {
    matches!(error, ModelError::Rejected { status: 400 | 422, body } if body.contains("stream_options"))
}

fn record(span: &Span, response: &ChatResponse) {
    span.record("gen_ai.response.id", &response.id);
    span.record("gen_ai.response.model", &response.model);
    span.record("gen_ai.response.finish_reasons", field::debug(&response.finish_reason));
    span.record("gen_ai.usage.input_tokens", response.usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", response.usage.output_tokens);
}
