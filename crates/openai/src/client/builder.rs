#[cfg(test)]
mod tests;

mod build_client;
mod environment;
mod error;
mod server;
mod settings;

use std::{env, fmt, marker::PhantomData, time::Duration};

use haft_core::{model::ModelProfile, schema::SchemaTarget};
use haft_http::{http_option_setters, model::HttpOptions};
use secrecy::SecretString;

use super::{provider::Provider, responses::ResponsesOptions};

use environment::Environment;

pub use error::BuildError;
pub(super) use settings::ClientSettings;

/// A builder for [`ChatCompletions`](crate::ChatCompletions) and [`Responses`](crate::Responses).
///
/// # Examples
///
/// ```
/// use haft_openai::ChatCompletions;
///
/// let model = ChatCompletions::builder("qwen2.5-coder").base_url("http://localhost:8080/v1/").build()?;
/// # Ok::<(), haft_openai::BuildError>(())
/// ```
#[derive(Clone)]
pub struct ModelBuilder<M> {
    model: String,
    provider: Option<Provider>,
    /// The settings of the connection. The base URL and the key depend on the provider.
    http: HttpOptions,
    profile: Option<ModelProfile>,
    sends_images: Option<bool>,
    uses_max_completion_tokens: Option<bool>,
    sends_reasoning: Option<bool>,
    effort: Option<String>,
    prompt_cache: bool,
    prompt_cache_ttl: Option<Duration>,
    prompt_cache_key: Option<String>,
    schema_target: Option<SchemaTarget>,
    environment: Option<Environment>,
    /// Settings of the Responses API. A builder for Chat Completions leaves the defaults unchanged.
    pub(super) options: ResponsesOptions,
    pub(super) keeps_think_tags: bool,
    model_type: PhantomData<fn() -> M>,
}

impl<M> ModelBuilder<M> {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            provider: None,
            http: HttpOptions::default(),
            profile: None,
            sends_images: None,
            uses_max_completion_tokens: None,
            sends_reasoning: None,
            effort: None,
            prompt_cache: true,
            prompt_cache_ttl: None,
            prompt_cache_key: None,
            schema_target: None,
            environment: None,
            options: ResponsesOptions::default(),
            keeps_think_tags: false,
            model_type: PhantomData,
        }
    }

    /// Reads environment variables for settings that are not set on the builder: the API keys of
    /// the known providers, `OPENAI_BASE_URL` and `AZURE_OPENAI_ENDPOINT`. If neither the builder
    /// nor `OPENAI_BASE_URL` sets a server, the prefix of a model name such as
    /// `groq/llama-3.3-70b-versatile` selects the provider.
    ///
    /// # API key
    ///
    /// The key is read from the variable of the provider, such as `GROQ_API_KEY`. The provider is
    /// identified by its name, or by the host in the base URL. If the provider is unknown,
    /// `OPENAI_API_KEY` is **sent to the server** at [`base_url`](Self::base_url) or
    /// `OPENAI_BASE_URL`. A provider that is identified only by its host also receives
    /// `OPENAI_API_KEY` if its own variable is not set.
    ///
    /// If a server must not receive `OPENAI_API_KEY`, pass the server's own key to
    /// [`api_key`](Self::api_key), or an empty string to send no key.
    #[must_use]
    pub fn read_env(self) -> Self {
        self.read_variables(|name| env::var(name).ok())
    }

    fn read_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        self.environment = Some(Environment::read(variable));
        self
    }

    /// Sets the provider or server program. The provider determines the quirks of the requests, and
    /// also the base URL unless [`base_url`](Self::base_url) is set.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets the base URL, including the API version, such as `http://localhost:8080/v1`. A query
    /// such as `?api-version=preview` is sent with each request. With [`read_env`](Self::read_env),
    /// the server may receive `OPENAI_API_KEY`.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.http.base_url = Some(base_url.into());
        self
    }

    /// Sets the API key, which is sent as a bearer token. For Azure, a key is sent in the header
    /// `api-key`, and an Entra token is sent as a bearer token. Many local servers require no key.
    #[must_use]
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.http.api_key = Some(SecretString::from(api_key.into()));
        self
    }

    http_option_setters!();

    /// Sets the profile of the model. The name in the profile is sent as the `model` of each
    /// request. By default, the profile is derived from the model name. A model of an unknown
    /// family is assumed to support tools, but no media. Response schemas are assumed to be
    /// supported by all servers except DeepSeek.
    #[must_use]
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Enables or disables images, regardless of the profile. If images are disabled, each image is
    /// replaced by a text with its media type and size. A warning about omitted media is logged
    /// once.
    #[must_use]
    pub fn send_images(mut self, enabled: bool) -> Self {
        self.sends_images = Some(enabled);
        self
    }

    /// Sets the name of the request field for the token limit: `max_completion_tokens` if `enabled`
    /// is `true`, `max_tokens` if it is `false`. Newer OpenAI models require
    /// `max_completion_tokens`.
    ///
    /// Default: `true` for OpenAI, Azure OpenAI and Groq. If the server rejects one of the two
    /// names, the request is repeated with the other name, and later requests use that name from
    /// the start. [`Responses`](crate::Responses) ignores this setting.
    #[must_use]
    pub fn use_max_completion_tokens(mut self, enabled: bool) -> Self {
        self.uses_max_completion_tokens = Some(enabled);
        self
    }

    /// Enables or disables sending back the reasoning of earlier replies that contain tool calls.
    /// The reasoning is sent in the field `reasoning_content`, unless the provider uses another
    /// field.
    ///
    /// Default: `true` for DeepSeek and Moonshot, which require it, and for llama.cpp, vLLM and
    /// Ollama. Other servers may reject the field. [`Responses`](crate::Responses) ignores this
    /// setting.
    #[must_use]
    pub fn send_reasoning(mut self, enabled: bool) -> Self {
        self.sends_reasoning = Some(enabled);
        self
    }

    /// Sets the reasoning effort, for example `low` or `high`. The request field is
    /// `reasoning_effort` in Chat Completions, and `reasoning.effort` in Responses.
    #[must_use]
    pub fn reasoning_effort(mut self, effort: impl Into<String>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// Enables or disables the use of OpenAI's prompt cache. Default: `true`. Other providers cache
    /// by themselves, or not at all, and get none of these fields.
    ///
    /// - Requests to OpenAI and Azure have a `prompt_cache_key`: equal for all requests of a
    ///   conversation.
    /// - For GPT-5.6 and later, the instructions, the first message and the last message of the
    ///   previous request end with a `prompt_cache_breakpoint`. The next request of an agent, and
    ///   another conversation with the same instructions, find their prefix.
    ///
    /// If the server rejects one of the fields, it is omitted from then on.
    #[must_use]
    pub fn prompt_cache(mut self, enabled: bool) -> Self {
        self.prompt_cache = enabled;
        self
    }

    /// Sets the minimum lifetime of cache breakpoints: 30 minutes, the default of OpenAI, or 12
    /// hours.
    #[must_use]
    pub fn prompt_cache_ttl(mut self, ttl: Duration) -> Self {
        self.prompt_cache_ttl = Some(ttl);
        self
    }

    /// Sets the `prompt_cache_key` of all requests. Use it if many conversations share a long prefix
    /// and together send fewer than 15 requests a minute.
    #[must_use]
    pub fn prompt_cache_key(mut self, key: impl Into<String>) -> Self {
        self.prompt_cache_key = Some(key.into());
        self
    }

    /// Sets the JSON Schema subset that the server supports, for tools and response schemas.
    ///
    /// The default depends on the server: [`OpenAiStrict`](SchemaTarget::OpenAiStrict) for OpenAI,
    /// [`Gemini`](SchemaTarget::Gemini) for Google, and [`OpenAi`](SchemaTarget::OpenAi) for all
    /// other servers and for fine-tuned models. Use [`SmallModel`](SchemaTarget::SmallModel) for a
    /// small model on your own server.
    ///
    /// Constraints that are lost in the conversion are logged, and calls are validated against the
    /// original schema. A tool with an incompatible schema is sent without `strict`, and a warning
    /// is logged: see [`encode_strict_tools`](crate::encode_strict_tools). Under `strict`, the
    /// model writes `null` in place of an omitted argument. The pipeline removes the `null`, except
    /// under [`RepairPolicy::Strict`]. Do not use `OpenAiStrict` with that policy.
    ///
    /// Response schemas are converted only for `OpenAiStrict` and `Gemini`. If the server requires
    /// an object at the root, a schema with a different root is wrapped in an object, and the reply
    /// is unwrapped.
    ///
    /// [`RepairPolicy::Strict`]: haft_core::schema::RepairPolicy::Strict
    #[must_use]
    pub fn tool_schema_target(mut self, target: SchemaTarget) -> Self {
        self.schema_target = Some(target);
        self
    }
}

impl<M> fmt::Debug for ModelBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelBuilder").field("model", &self.model).finish_non_exhaustive()
    }
}
