use std::fmt;

use futures::TryFutureExt as _;
use futures::stream::{self, BoxStream, Stream, StreamExt as _};
use haft_core::{
    message::{AssistantMessage, ProviderData},
    model::{
        ChatEvent, ChatRequest, ChatResponse, HostedTool, ModelError, ModelProfile,
        adapter::{ResponseSchemaOptions, StructuredOutput},
    },
};
use reqwest::header::HeaderMap;
use secrecy::SecretString;
use tracing::{Instrument as _, Span, field};

use super::{Connection, ReplyStream, RequestTimer, Secrets, StreamAccumulator};

/// The parts of a model client that differ between APIs: the bodies of requests and the assembly of
/// replies. A [`ModelClient`] provides everything else.
pub trait ModelApi: Send + Sync {
    /// The accumulator that builds a reply from a body or from stream events.
    type Accumulator: StreamAccumulator;

    /// Returns the value of `gen_ai.provider.name` in the span of a request.
    fn provider(&self) -> &str;

    /// Returns the name and the capabilities of the model.
    fn profile(&self) -> &ModelProfile;

    /// Returns `true` if `request` is sent with its response schema. If not, the schema is stated in
    /// another way, and the reply is not converted.
    fn sends_response_schema(&self, request: &ChatRequest) -> bool {
        let _ = request;
        true
    }

    /// Returns the restrictions that the server imposes on response schemas.
    fn response_schema_options(&self) -> ResponseSchemaOptions;

    /// Sends `request` once, and waits for the whole reply, or for the first event of a streamed
    /// reply. The client repeats it after a transient error.
    fn send(
        &self,
        connection: &Connection,
        request: &ChatRequest,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> impl Future<Output = Result<(ReplyStream<Self::Accumulator>, Option<ChatResponse>), ModelError>> + Send;

    /// Returns `true` if `response` is the first part of a reply, and [`resume`](Self::resume) gets
    /// the rest.
    fn is_paused(&self, response: &ChatResponse) -> bool {
        let _ = response;
        false
    }

    /// Sends `request` once for the rest of `paused`, as [`send`](Self::send). The reply contains the
    /// message and the usage of `paused`. The events of a streamed reply do not.
    fn resume(
        &self,
        connection: &Connection,
        request: &ChatRequest,
        paused: &ChatResponse,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> impl Future<Output = Result<(ReplyStream<Self::Accumulator>, Option<ChatResponse>), ModelError>> + Send
    {
        let _ = paused;
        self.send(connection, request, is_streamed, timer)
    }
}

/// The maximum number of requests for the rest of a paused reply.
const MAX_RESUMPTIONS: usize = 10;

/// A client for one model: the connection, retries, timeouts, redaction, structured output and
/// tracing of an API.
#[derive(Debug)]
pub struct ModelClient<A> {
    api: A,
    connection: Connection,
}

impl<A: ModelApi> ModelClient<A> {
    /// Creates a client that sends the requests of `api` over `connection`.
    pub fn new(api: A, connection: Connection) -> Self {
        Self { api, connection }
    }

    /// Returns the API.
    pub fn api(&self) -> &A {
        &self.api
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends `request` and returns the complete reply. See
    /// [`ChatModel::chat`](haft_core::ChatModel::chat).
    ///
    /// # Errors
    ///
    /// Fails if the model has not all hosted tools of the request, if the server returns an error,
    /// or if the reply is incomplete or malformed.
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        request.check_hosted_tools(self.api.profile())?;
        let span = self.start_span();
        let timer = self.connection.start_timer();
        let attempt = || async {
            let sent = self.api.send(&self.connection, request, false, &timer).await;
            let (_, response) = sent.map_err(|error| without_tokens(request, error))?;
            response.ok_or(ModelError::EmptyResponse)
        };
        let whole = async {
            let mut response = self.connection.with_retries(&timer, attempt).await?;
            for _ in 0..MAX_RESUMPTIONS {
                if !self.api.is_paused(&response) {
                    break;
                }
                // The futures of this rare path are boxed, because they would otherwise enlarge the
                // future of every request.
                response = Box::pin(self.resume(request, &response, false, &timer)).await?.1;
            }
            if self.api.is_paused(&response) { Err(paused_error(response)) } else { Ok(response) }
        };
        let reply = whole.instrument(span.clone()).await;
        let response = match self.structured_output(request) {
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

    /// Sends `request` and streams the reply. See
    /// [`ChatModel::stream`](haft_core::ChatModel::stream).
    pub fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        if let Err(error) = request.check_hosted_tools(self.api.profile()) {
            return stream::iter([Err(error)]).boxed();
        }
        let span = self.start_span();
        let timer = self.connection.start_timer();
        let reading = span.clone();
        let opening = async move {
            let attempt = || async {
                let sent = self.api.send(&self.connection, request, true, &timer).await;
                Ok(sent.map_err(|error| without_tokens(request, error))?.0)
            };
            let reply = self.connection.with_retries(&timer, attempt).await?;
            Ok(self.stream_events(request, reply, timer, reading))
        };
        let events = opening.instrument(span).try_flatten_stream();
        match self.structured_output(request) {
            None => events.boxed(),
            Some(structured) => structured.events(events).boxed(),
        }
    }

    /// Gets the rest of `paused`. The response of a streamed reply is `paused`.
    async fn resume(
        &self,
        request: &ChatRequest,
        paused: &ChatResponse,
        is_streamed: bool,
        timer: &RequestTimer,
    ) -> Result<(ReplyStream<A::Accumulator>, ChatResponse), ModelError> {
        let attempt = || async {
            let (reply, response) =
                self.api.resume(&self.connection, request, paused, is_streamed, timer).await?;
            Ok((reply, response.unwrap_or_else(|| paused.clone())))
        };
        self.connection.with_retries(timer, attempt).await
    }

    /// Returns the events of `reply`. The reply is read and dropped inside `span`.
    fn stream_events<'a>(
        &'a self,
        request: &'a ChatRequest,
        reply: ReplyStream<A::Accumulator>,
        timer: RequestTimer,
        span: Span,
    ) -> impl Stream<Item = Result<ChatEvent, ModelError>> + 'a {
        // The reply is boxed, because each step of the stream would otherwise copy it.
        let state = StreamState { reply: Box::new(reply), timer: Box::new(timer), resumptions: 0 };
        let state = state.instrument(span.clone());
        stream::try_unfold(state, move |mut state| {
            let step = async move {
                let event = self.next_event(request, state.inner_mut()).await?;
                if let Some(ChatEvent::Finished(response)) = &event {
                    record_response(state.span(), response);
                }
                Ok(event.map(|event| (event, state)))
            };
            step.instrument(span.clone())
        })
    }

    /// Returns the next event of the reply. After a paused reply, continues with the events of its
    /// rest.
    async fn next_event(
        &self,
        request: &ChatRequest,
        state: &mut StreamState<A::Accumulator>,
    ) -> Result<Option<ChatEvent>, ModelError> {
        loop {
            let event = state
                .reply
                .next()
                .await
                .map_err(|error| without_tokens(request, self.connection.redact(error)))?;
            match event {
                Some(ChatEvent::Finished(paused))
                    if state.resumptions < MAX_RESUMPTIONS && self.api.is_paused(&paused) =>
                {
                    state.resumptions += 1;
                    let rest = Box::pin(self.resume(request, &paused, true, &state.timer));
                    *state.reply = rest.await?.0;
                }
                Some(ChatEvent::Finished(paused)) if self.api.is_paused(&paused) => {
                    return Err(paused_error(*paused));
                }
                event => return Ok(event),
            }
        }
    }

    fn structured_output(&self, request: &ChatRequest) -> Option<StructuredOutput> {
        let is_sent = self.api.sends_response_schema(request);
        is_sent.then(|| StructuredOutput::new(request, self.api.response_schema_options())).flatten()
    }

    fn start_span(&self) -> Span {
        chat_span(self.api.provider(), &self.api.profile().name, self.connection.address())
    }

    /// Writes the debug output of a model with the type name `name`.
    ///
    /// # Errors
    ///
    /// Fails if `f` does.
    pub fn fmt_debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("model", &self.api.profile().name)
            .field("endpoint", &self.connection.address())
            .finish_non_exhaustive()
    }
}

/// The state of a streamed reply.
struct StreamState<A> {
    reply: Box<ReplyStream<A>>,
    timer: Box<RequestTimer>,
    /// The number of requests for the rest of the reply.
    resumptions: usize,
}

/// Returns the error for a reply that the server still pauses after [`MAX_RESUMPTIONS`]. Its calls of
/// hosted tools may have no results, so its provider data is never sent back.
fn paused_error(paused: ChatResponse) -> ModelError {
    let reason = format!("the server paused it more than {MAX_RESUMPTIONS} times");
    let partial = AssistantMessage { provider_data: ProviderData::default(), ..paused.message };
    ModelError::Truncated { reason, partial: Box::new(partial) }
}

/// Replaces the tokens of the hosted MCP servers of `request` in the text of `error`.
fn without_tokens(request: &ChatRequest, error: ModelError) -> ModelError {
    let token = |tool: &HostedTool| match tool {
        HostedTool::McpServer(server) => server.token.clone().map(SecretString::from),
        _ => None,
    };
    let tokens: Vec<_> = request.hosted_tools.iter().filter_map(token).collect();
    if tokens.is_empty() { error } else { Secrets::new(&HeaderMap::new(), &[], &tokens).redact(error) }
}

/// Creates the span of a model request, with the attributes of OpenTelemetry's semantic
/// conventions.
pub fn chat_span(provider: &str, model: &str, address: &str) -> Span {
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
        gen_ai.usage.cache_read.input_tokens = field::Empty,
        gen_ai.usage.cache_creation.input_tokens = field::Empty,
        server.address = address,
    )
}

/// Records the attributes of `response` in `span`, the span of the model request.
pub fn record_response(span: &Span, response: &ChatResponse) {
    span.record("gen_ai.response.id", &response.id);
    span.record("gen_ai.response.model", &response.model);
    span.record("gen_ai.response.finish_reasons", field::debug(&response.finish_reason));
    let usage = &response.usage;
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    for (name, tokens) in [
        ("gen_ai.usage.cache_read.input_tokens", usage.cached_input_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
    ] {
        if tokens > 0 {
            span.record(name, tokens);
        }
    }
}
