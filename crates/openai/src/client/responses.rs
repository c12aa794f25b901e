mod request;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};
use serde::Serialize;

use self::request::Body;
use super::{
    Api, Client,
    builder::{BuildError, ModelBuilder},
    unsupported_params::{ApiRejection, OptionalParam, OptionalParams, UnsupportedParams},
};
use crate::reply::ResponsesAccumulator;

/// A model of the Responses API, from OpenAI or a compatible server. Cheap to clone.
///
/// Retries and timeouts are those of [`ChatCompletions`](crate::ChatCompletions).
///
/// By default the server stores nothing (`store: false`). Each request has the whole conversation
/// with the encrypted reasoning of earlier replies, so the model keeps its reasoning across calls.
/// The reasoning is in [`AssistantMessage::provider_data`], and is sent back to its own server
/// only. Another model or API can continue the conversation at any message.
///
/// The API has no `stop` and no `seed`: both are omitted. It accepts no audio: a description is
/// sent instead.
///
/// [`AssistantMessage::provider_data`]: haft_core::message::AssistantMessage::provider_data
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
/// use haft_openai::Responses;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let model = Responses::builder("gpt-5-mini").read_env().reasoning_summary("auto").build()?;
/// let reply = model.chat(&ChatRequest::new([Message::user("Hello")])).await?;
/// println!("{}", reply.message.text());
/// # Ok(())
/// # }
/// ```
///
/// # Cancellation
///
/// Dropping a future or a stream closes its connection. The server may have generated, and counted,
/// a part of the reply.
#[derive(Clone)]
pub struct Responses(Arc<Client<ResponsesApi>>);

/// A builder for [`Responses`].
pub type ResponsesBuilder = ModelBuilder<Responses>;

impl Responses {
    /// Creates a model with server and key from the environment.
    ///
    /// `groq/llama-3.3-70b-versatile` is a model of the [`Provider`](crate::Provider) Groq, with
    /// the key in `GROQ_API_KEY`. Azure also requires `AZURE_OPENAI_ENDPOINT`. A name without a
    /// provider is a model at `OPENAI_BASE_URL` (default: OpenAI) with the key in `OPENAI_API_KEY`;
    /// if `OPENAI_BASE_URL` is set, a prefix is part of the name.
    ///
    /// # Errors
    ///
    /// Fails for an invalid variable, an unknown provider before the `/`, or a missing key, if the
    /// provider requires one.
    pub fn from_env(model: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(model).read_env().build()
    }

    /// Creates a builder. Its defaults are OpenAI's base URL and no key.
    pub fn builder(model: impl Into<String>) -> ResponsesBuilder {
        ModelBuilder::new(model.into())
    }
}

impl ModelBuilder<Responses> {
    /// Stores the responses on the server. Default: `false`.
    #[must_use]
    pub fn store(mut self, enabled: bool) -> Self {
        self.options.store = enabled;
        self
    }

    /// Sends only the messages since the last response, with its `previous_response_id`. Default:
    /// `false`. The server then stores the responses, regardless of [`store`](Self::store).
    ///
    /// The whole conversation is sent if it differs from the stored conversation (messages were
    /// omitted, summarised or changed, or are from another model). If the server rejects the id as
    /// unknown, the whole conversation is sent within the same attempt.
    #[must_use]
    pub fn use_previous_response_id(mut self, enabled: bool) -> Self {
        self.options.use_previous = enabled;
        self
    }

    /// Continues a stored response of another program: each conversation with this model begins
    /// after it. An unknown id is an error.
    #[must_use]
    pub fn previous_response_id(mut self, id: impl Into<String>) -> Self {
        self.options.first = Some(id.into());
        self
    }

    /// Requests a summary of the reasoning, such as `auto` or `detailed`. Without it OpenAI sends
    /// no reasoning text.
    #[must_use]
    pub fn reasoning_summary(mut self, summary: impl Into<String>) -> Self {
        self.options.summary = Some(summary.into());
        self
    }

    /// Builds the model. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// Fails for an invalid base URL, key or header.
    pub fn build(self) -> Result<Responses, BuildError> {
        let options = self.options.clone();
        let client = self.connect(|_| ResponsesApi { options, unsupported: UnsupportedParams::default() })?;
        Ok(Responses(Arc::new(client)))
    }
}

#[async_trait]
impl ChatModel for Responses {
    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.chat(request).await
    }

    fn stream<'a>(&'a self, request: &'a ChatRequest) -> BoxStream<'a, Result<ChatEvent, ModelError>> {
        self.0.stream(request)
    }

    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }
}

impl fmt::Debug for Responses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("Responses", f)
    }
}

/// Options of the Responses API.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    store: bool,
    use_previous: bool,
    /// The stored response before the first message of each conversation.
    first: Option<String>,
    summary: Option<String>,
}

/// The Responses API.
struct ResponsesApi {
    options: Options,
    unsupported: UnsupportedParams,
}

/// The form of a request: streamed or not, and its omitted parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    is_streamed: bool,
    /// Sends the `previous_response_id` if the server stores the last response.
    with_previous: bool,
    /// Omitted parameters.
    omitted: OptionalParams,
}

/// Parameters to omit after a rejection, by their names in the API.
const OPTIONAL: [(&str, OptionalParam); 4] = [
    ("include", OptionalParam::Encrypted),
    ("temperature", OptionalParam::Temperature),
    ("top_p", OptionalParam::TopP),
    ("parallel_tool_calls", OptionalParam::ParallelToolCalls),
];

impl Options {
    /// Returns `true` if the server stores the responses.
    pub(super) fn is_stored(&self) -> bool {
        self.store || self.use_previous
    }
}

/// Error messages for an unknown `previous_response_id`, from OpenAI, vLLM and others.
const UNKNOWN_ID: [&str; 5] =
    ["previous_response", "previous response", "response with id", "response id", "response not found"];

impl Api for ResponsesApi {
    const PATH: &'static str = "/responses";
    const FIELDS: &'static [&'static str] = request::FIELDS;
    type Variant = Variant;
    type Accumulator = ResponsesAccumulator;

    fn first_variant(&self, is_streamed: bool) -> Variant {
        let omitted = self.unsupported.get().with(OptionalParam::Encrypted, self.options.is_stored());
        Variant { is_streamed, with_previous: self.options.use_previous, omitted }
    }

    fn without_rejected(&self, variant: &Variant, rejection: &ApiRejection) -> Option<Variant> {
        let message = rejection.message()?.to_lowercase();
        let is_about = |markers: &[&str]| markers.iter().any(|marker| message.contains(marker));
        if variant.with_previous && (is_about(&UNKNOWN_ID) || rejection.param == "previous_response_id") {
            return Some(Variant { with_previous: false, ..variant.clone() });
        }
        let encrypted = variant.omitted.and(OptionalParam::Encrypted).filter(|_| is_about(&["encrypted"]));
        let omitted = encrypted.or_else(|| rejection.added_to(variant.omitted, &OPTIONAL));
        Some(Variant { omitted: omitted?, ..variant.clone() })
    }

    fn remember_rejected(&self, accepted: &Variant, rejected: &Variant) {
        self.unsupported.add(accepted.omitted, rejected.omitted);
    }

    fn build_request<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        variant: &mut Variant,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> ResponsesAccumulator + Send + 'a) {
        let (body, accumulator) = Body::new(client, request, variant);
        (body, || accumulator)
    }
}
