mod request;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use haft_core::{
    ChatModel,
    model::{ChatEvent, ChatRequest, ChatResponse, ModelError, ModelProfile},
};
use haft_http::model::{ModelApi as _, RequestError};
use serde::Serialize;

use self::request::Body;
use super::{
    Api, Client, Model,
    builder::{BuildError, ModelBuilder},
    profile::has_tool_search,
    provider::Provider,
    unsupported_params::{OptionalParam, OptionalParams, UnsupportedParams},
};
use crate::reply::ResponsesAccumulator;

/// A model behind the Responses API of OpenAI or of a compatible server. Cheap to clone.
///
/// Retries and timeouts are the same as for [`ChatCompletions`](crate::ChatCompletions).
///
/// By default, the server stores nothing (`store: false`). Each request contains the whole
/// conversation, including the encrypted reasoning of earlier replies, so the model keeps its
/// reasoning across calls. The reasoning is kept in [`AssistantMessage::provider_data`] and is only
/// sent back to the server that created it. Another model or API can continue the conversation at
/// any message.
///
/// The API has no `stop` and no `seed`, so both are omitted. The API accepts no audio, so a
/// description is sent instead.
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
/// Dropping the future or stream closes its connection. The server may already have generated and
/// billed a part of the reply.
#[derive(Clone)]
pub struct Responses(Arc<Model<ResponsesApi>>);

/// A builder for [`Responses`].
pub type ResponsesBuilder = ModelBuilder<Responses>;

impl Responses {
    /// Creates a model with the server and the API key from the environment.
    ///
    /// A prefix selects the provider: `groq/llama-3.3-70b-versatile` is a model of the
    /// [`Provider`](crate::Provider) Groq, with the key from `GROQ_API_KEY`. Azure also requires
    /// `AZURE_OPENAI_ENDPOINT`. A name without a prefix is a model at `OPENAI_BASE_URL` (default:
    /// OpenAI), with the key from `OPENAI_API_KEY`. If `OPENAI_BASE_URL` is set, a prefix is part
    /// of the model name. `OPENAI_API_KEY` may be sent to any server at `OPENAI_BASE_URL`: see
    /// [`read_env`](crate::ModelBuilder::read_env).
    ///
    /// # Errors
    ///
    /// Returns an error if a variable is invalid, if a required variable is not set, or if the
    /// prefix is not a known provider.
    pub fn from_env(model: impl Into<String>) -> Result<Self, BuildError> {
        Self::builder(model).read_env().build()
    }

    /// Creates a builder for a model. By default, requests are sent to OpenAI without an API key.
    pub fn builder(model: impl Into<String>) -> ResponsesBuilder {
        ModelBuilder::new(model.into())
    }
}

impl ModelBuilder<Responses> {
    /// Sets whether the server stores the responses. Default: `false`.
    #[must_use]
    pub fn store(mut self, enabled: bool) -> Self {
        self.options.stores_responses = enabled;
        self
    }

    /// Enables or disables the field `previous_response_id`. If `enabled` is `true`, a request
    /// contains the id of the last stored response that matches the conversation, and only the
    /// messages after that response. The server then stores all responses, regardless of
    /// [`store`](Self::store). Default: `false`.
    ///
    /// A stored response matches if the messages before it were not omitted, summarized or changed.
    /// If no stored response matches, for example because all replies came from another model, the
    /// whole conversation is sent. If the server rejects the id as unknown, the whole conversation
    /// is sent immediately, and this request does not count as a retry.
    #[must_use]
    pub fn use_previous_response_id(mut self, enabled: bool) -> Self {
        self.options.uses_previous_response_id = enabled;
        self
    }

    /// Sets the id of a stored response that precedes each conversation with this model, for
    /// example a response to another program. If the server does not have this response, the
    /// requests fail.
    #[must_use]
    pub fn previous_response_id(mut self, id: impl Into<String>) -> Self {
        self.options.first_response_id = Some(id.into());
        self
    }

    /// Sets the request field `reasoning.summary`, for example to `auto` or `detailed`. Without
    /// this setting, OpenAI sends no reasoning text.
    #[must_use]
    pub fn reasoning_summary(mut self, summary: impl Into<String>) -> Self {
        self.options.reasoning_summary = Some(summary.into());
        self
    }

    /// Sets the number of tools above which their definitions are not loaded into the context
    /// window: the model finds them with OpenAI's hosted tool search (`defer_loading`). Default: 40
    /// for GPT-5.4 and later at OpenAI and Azure; other models get all definitions. `usize::MAX`
    /// disables the search.
    #[must_use]
    pub fn tool_search_threshold(mut self, tools: usize) -> Self {
        self.options.tool_search_threshold = Some(tools);
        self
    }

    /// Builds the model. No request is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the base URL, the API key, a header or another setting is invalid or
    /// missing.
    pub fn build(self) -> Result<Responses, BuildError> {
        let mut options = self.options.clone();
        let client = self.build_client(|settings, model| {
            let is_openai = matches!(settings.provider, Some(Provider::OpenAi | Provider::Azure));
            let usual = (is_openai && has_tool_search(model)).then_some(TOOL_SEARCH_THRESHOLD);
            options.tool_search_threshold = options.tool_search_threshold.or(usual);
            ResponsesApi { options, unsupported: UnsupportedParams::default() }
        })?;
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
        self.0.api().profile()
    }
}

impl fmt::Debug for Responses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_debug("Responses", f)
    }
}

/// Settings of the builder that exist only for the Responses API.
#[derive(Clone, Debug, Default)]
pub(super) struct ResponsesOptions {
    stores_responses: bool,
    uses_previous_response_id: bool,
    /// The id of a stored response that precedes each conversation.
    first_response_id: Option<String>,
    reasoning_summary: Option<String>,
    /// The number of tools above which the model searches in them. `None` if it always gets all
    /// definitions.
    tool_search_threshold: Option<usize>,
}

/// The [`Api`] implementation for Responses.
struct ResponsesApi {
    options: ResponsesOptions,
    unsupported: UnsupportedParams,
}

/// The settings of one HTTP request: streaming, the use of `previous_response_id`, and the
/// parameters to omit.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestVariant {
    is_streamed: bool,
    /// `true` if the request may contain the `previous_response_id` of a stored response. Cleared
    /// if no stored response matches the conversation.
    sends_previous_id: bool,
    /// The parameters that are omitted from the request.
    omitted: OptionalParams,
}

/// The parameters that can be omitted, with their names in the API. If the server rejects a
/// parameter, later requests omit it.
const OPTIONAL_PARAMS: [(&str, OptionalParam); 6] = [
    ("include", OptionalParam::EncryptedReasoning),
    ("temperature", OptionalParam::Temperature),
    ("top_p", OptionalParam::TopP),
    ("parallel_tool_calls", OptionalParam::ParallelToolCalls),
    ("prompt_cache_breakpoint", OptionalParam::CacheBreakpoints),
    ("prompt_cache_key", OptionalParam::PromptCacheKey),
];

impl ResponsesOptions {
    /// Returns `true` if the server stores the responses.
    pub(super) fn stores_responses(&self) -> bool {
        self.stores_responses || self.uses_previous_response_id
    }
}

/// The default number of tools above which OpenAI's models search in them.
const TOOL_SEARCH_THRESHOLD: usize = 40;

/// Phrases in the error messages of OpenAI, vLLM and others that report an unknown
/// `previous_response_id`.
const UNKNOWN_ID_MARKERS: [&str; 5] =
    ["previous_response", "previous response", "response with id", "response id", "response not found"];

impl Api for ResponsesApi {
    const PATH: &'static str = "/responses";
    const BODY_FIELDS: &'static [&'static str] = request::FIELDS;
    const MAX_CALL_ID_BYTES: usize = 64;
    const HAS_HOSTED_TOOLS: bool = true;
    type Variant = RequestVariant;
    type Accumulator = ResponsesAccumulator;

    fn first_variant(&self, is_streamed: bool) -> RequestVariant {
        let omitted = self
            .unsupported
            .get()
            .with_if(OptionalParam::EncryptedReasoning, self.options.stores_responses());
        RequestVariant { is_streamed, sends_previous_id: self.options.uses_previous_response_id, omitted }
    }

    fn variant_without_rejected(
        &self,
        variant: &RequestVariant,
        rejection: &RequestError,
    ) -> Option<RequestVariant> {
        let message = rejection.rejection()?.to_lowercase();
        let is_about = |markers: &[&str]| markers.iter().any(|marker| message.contains(marker));
        if variant.sends_previous_id
            && (is_about(&UNKNOWN_ID_MARKERS) || rejection.param == "previous_response_id")
        {
            return Some(RequestVariant { sends_previous_id: false, ..variant.clone() });
        }
        let encrypted = variant
            .omitted
            .with_if_absent(OptionalParam::EncryptedReasoning)
            .filter(|_| is_about(&["encrypted"]));
        let omitted = encrypted.or_else(|| variant.omitted.with_rejected(rejection, &OPTIONAL_PARAMS));
        Some(RequestVariant { omitted: omitted?, ..variant.clone() })
    }

    fn remember_rejected(&self, accepted: &RequestVariant, rejected: &RequestVariant) {
        self.unsupported.add(accepted.omitted, rejected.omitted);
    }

    fn build_request<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        variant: &mut RequestVariant,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> ResponsesAccumulator + Send + 'a) {
        let (body, accumulator) = Body::new(client, request, variant);
        (body, || accumulator)
    }
}
