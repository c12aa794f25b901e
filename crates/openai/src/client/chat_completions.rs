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
    unsupported_params::{OptionalParam, OptionalParams, UnsupportedParams},
};
use crate::reply::ChatAccumulator;

/// A model behind the Chat Completions API of OpenAI or of a compatible server, such as llama.cpp,
/// vLLM, Ollama or LM Studio. Cheap to clone.
///
/// Transient errors are retried with exponential backoff, but not before the server's `Retry-After`
/// has passed. Examples are status 429, most 5xx statuses and a connection failure before the
/// reply. The complete list is under [limits](crate#limits). Each phase of a request has a timeout:
/// see [`Timeouts`](crate::Timeouts).
///
/// If the server rejects `stop`, `seed`, `temperature`, `top_p` or `parallel_tool_calls` as
/// unsupported, a warning is logged and the request is sent again without this setting. Later
/// requests omit the setting from the start.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{ChatModel, Message, model::ChatRequest};
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
/// Dropping the future or stream closes its connection. The server may already have generated and
/// billed a part of the reply.
#[derive(Clone)]
pub struct ChatCompletions(Arc<Model<ChatCompletionsApi>>);

/// A builder for [`ChatCompletions`].
pub type ChatCompletionsBuilder = ModelBuilder<ChatCompletions>;

impl ChatCompletions {
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
    pub fn builder(model: impl Into<String>) -> ChatCompletionsBuilder {
        ModelBuilder::new(model.into())
    }
}

impl ModelBuilder<ChatCompletions> {
    /// Keeps a leading `<think>…</think>` block in the text of a reply if `enabled` is `true`. By
    /// default, the block becomes the reasoning, because servers without a reasoning parser send
    /// the reasoning in the text.
    #[must_use]
    pub fn keep_think_tags(mut self, enabled: bool) -> Self {
        self.keeps_think_tags = enabled;
        self
    }

    /// Builds the model. No request is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the base URL, the API key, a header or another setting is invalid or
    /// missing.
    pub fn build(self) -> Result<ChatCompletions, BuildError> {
        let keeps_think_tags = self.keeps_think_tags;
        let client = self.build_client(|settings, _| {
            let quirks = &settings.quirks;
            let unsupported = OptionalParams::default()
                .with_if(OptionalParam::StreamOptions, !quirks.accepts_stream_options)
                .with_if(OptionalParam::UserAfterTool, !quirks.accepts_user_after_tool);
            let uses_max_completion_tokens = quirks.uses_max_completion_tokens;
            let unsupported = UnsupportedParams::new(unsupported);
            ChatCompletionsApi { unsupported, uses_max_completion_tokens, keeps_think_tags }
        })?;
        Ok(ChatCompletions(Arc::new(client)))
    }
}

#[async_trait]
impl ChatModel for ChatCompletions {
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

impl fmt::Debug for ChatCompletions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_debug("ChatCompletions", f)
    }
}

/// The [`Api`] implementation for Chat Completions.
struct ChatCompletionsApi {
    unsupported: UnsupportedParams,
    /// `true` if the first request sends the token limit as `max_completion_tokens` instead of
    /// `max_tokens`. If the server rejects one name, later requests use the alternative name.
    uses_max_completion_tokens: bool,
    /// `true` if a leading `<think>` block stays in the text of a reply.
    keeps_think_tags: bool,
}

/// The settings of one HTTP request: streaming, and the parameters to omit or replace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestVariant {
    is_streamed: bool,
    /// The parameters that are omitted from the request, or replaced.
    omitted: OptionalParams,
    /// `true` if the token limit is sent as `max_completion_tokens` instead of `max_tokens`.
    uses_max_completion_tokens: bool,
}

/// The parameters that can be omitted, with their names in the API. If the server rejects a
/// parameter, later requests omit it.
const OPTIONAL_PARAMS: [(&str, OptionalParam); 9] = [
    ("stream_options", OptionalParam::StreamOptions),
    ("stop", OptionalParam::Stop),
    ("seed", OptionalParam::Seed),
    ("random_seed", OptionalParam::Seed),
    ("temperature", OptionalParam::Temperature),
    ("top_p", OptionalParam::TopP),
    ("parallel_tool_calls", OptionalParam::ParallelToolCalls),
    ("prompt_cache_breakpoint", OptionalParam::CacheBreakpoints),
    ("prompt_cache_key", OptionalParam::PromptCacheKey),
];

impl ChatCompletionsApi {
    fn variant_without(&self, is_streamed: bool, omitted: OptionalParams) -> RequestVariant {
        let uses_max_completion_tokens =
            self.uses_max_completion_tokens != omitted.has(OptionalParam::TokenLimitName);
        RequestVariant { is_streamed, omitted, uses_max_completion_tokens }
    }
}

impl Api for ChatCompletionsApi {
    const PATH: &'static str = "/chat/completions";
    const BODY_FIELDS: &'static [&'static str] = request::FIELDS;
    const MAX_CALL_ID_BYTES: usize = 40;
    const HAS_HOSTED_TOOLS: bool = false;
    type Variant = RequestVariant;
    type Accumulator = ChatAccumulator;

    fn first_variant(&self, is_streamed: bool) -> RequestVariant {
        self.variant_without(is_streamed, self.unsupported.get())
    }

    fn variant_without_rejected(
        &self,
        variant: &RequestVariant,
        rejection: &RequestError,
    ) -> Option<RequestVariant> {
        let message = rejection.rejection()?;
        let omitted = if rejects_user_after_tool(message) {
            variant.omitted.with_if_absent(OptionalParam::UserAfterTool)
        } else if !variant.uses_max_completion_tokens && message.contains("max_completion_tokens") {
            // The server rejected `max_tokens`, and its message names the replacement.
            variant.omitted.with_if_absent(OptionalParam::TokenLimitName)
        } else if variant.uses_max_completion_tokens && rejection.rejects("max_completion_tokens") {
            variant.omitted.with_if_absent(OptionalParam::TokenLimitName)
        } else {
            variant.omitted.with_rejected(rejection, &OPTIONAL_PARAMS)
        };
        Some(self.variant_without(variant.is_streamed, omitted?))
    }

    fn remember_rejected(&self, accepted: &RequestVariant, rejected: &RequestVariant) {
        self.unsupported.add(accepted.omitted, rejected.omitted);
    }

    fn build_request<'a>(
        client: &'a Client<Self>,
        request: &'a ChatRequest,
        variant: &mut RequestVariant,
    ) -> (impl Serialize + Send + Sync + 'a, impl FnOnce() -> ChatAccumulator + Send + 'a) {
        let accumulator =
            || ChatAccumulator::new(&client.encoding).keep_think_tags(client.api.keeps_think_tags);
        (Body::new(client, request, variant), accumulator)
    }
}

/// Returns `true` if `message` is the error of a chat template, such as Mistral's, that rejects a
/// user message after a tool result.
fn rejects_user_after_tool(message: &str) -> bool {
    ["after role 'tool'", "after role tool", "after role \"tool\""]
        .iter()
        .any(|order| message.contains(order))
}
