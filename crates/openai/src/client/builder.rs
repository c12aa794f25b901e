#[cfg(test)]
mod tests;

mod connection;
mod environment;
mod error;

use std::{env, fmt, marker::PhantomData, time::Duration};

use haft_core::{model::ModelProfile, schema::WireProfile};
use secrecy::SecretString;
use serde_json::Map;
use serde_json::Value;

use super::{
    clock::Timeouts, provider::Provider, responses::Options, retry::RetryPolicy, transport::Middleware,
};

use environment::Environment;

pub use error::BuildError;

/// Describes a model: [`ChatCompletions`](crate::ChatCompletions) or [`Responses`](crate::Responses).
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
    base_url: Option<String>,
    api_key: Option<SecretString>,
    headers: Vec<(String, SecretString)>,
    proxy: Option<SecretString>,
    http_client: Option<reqwest::Client>,
    middleware: Middleware,
    timeouts: Timeouts,
    retry: RetryPolicy,
    profile: Option<ModelProfile>,
    images: Option<bool>,
    max_completion_tokens: Option<bool>,
    reasoning: Option<bool>,
    effort: Option<String>,
    extra_body: Map<String, Value>,
    tool_schemas: Option<WireProfile>,
    environment: Option<Environment>,
    /// What only the Responses API knows.
    pub(super) options: Options,
    pub(super) keeps_think_tags: bool,
    model_type: PhantomData<fn() -> M>,
}

impl<M> ModelBuilder<M> {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            provider: None,
            base_url: None,
            api_key: None,
            headers: Vec::new(),
            proxy: None,
            http_client: None,
            middleware: Middleware::default(),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            profile: None,
            images: None,
            max_completion_tokens: None,
            reasoning: None,
            effort: None,
            extra_body: Map::new(),
            tool_schemas: None,
            environment: None,
            options: Options::default(),
            keeps_think_tags: false,
            model_type: PhantomData,
        }
    }

    /// Takes from the environment what is not set here: the keys of the known providers, and `OPENAI_BASE_URL`. A name
    /// such as `groq/llama-3.3-70b-versatile` means the model of that provider then, unless a server is named otherwise.
    #[must_use]
    pub fn read_env(self) -> Self {
        self.read_variables(|name| env::var(name).ok())
    }

    fn read_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        self.environment = Some(Environment::read(variable));
        self
    }

    /// Sets who runs the server, or which program it is: where it is, unless that is set, and what it knows.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets where the server is, up to and with the version, such as `http://localhost:8080/v1`. A query, such as
    /// `?api-version=preview`, is sent with each request.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = Some(base_url.into());
        self
    }

    /// Sets the key, which is sent as a bearer token, and at Azure as `api-key` unless it is a token of Entra's. Many local servers
    /// need none.
    #[must_use]
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.api_key = Some(SecretString::from(api_key.into()));
        self
    }

    /// Adds a header to each request. Its value is never shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), SecretString::from(value.into())));
        self
    }

    /// Sets how long a request may take. [`Timeouts`] has the defaults.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how often a request is tried again that failed by what may pass: 3 times by default. The [limits](crate#limits) say which
    /// failures those are.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.retry.retries = retries;
        self
    }

    /// Sets the wait before the first retry, half a second by default. It doubles with each further one, up to 20 s,
    /// and is never shorter than the server asks for.
    #[must_use]
    pub fn retry_wait(mut self, wait: Duration) -> Self {
        self.retry.wait = wait;
        self
    }

    /// Sets what the model can do, its name included. By default that is told by the name, for families that are known; any other
    /// model takes tools and schemas, and reads text.
    #[must_use]
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets whether the model reads pictures, whatever its profile says. A picture for one that does not is described by its kind
    /// and size, with a warning the first time.
    #[must_use]
    pub fn images(mut self, whether: bool) -> Self {
        self.images = Some(whether);
        self
    }

    /// Sets whether a limit of tokens is sent as `max_completion_tokens`, which OpenAI's newer models require, or as
    /// `max_tokens`, which other servers know. By default the first only at OpenAI, Azure OpenAI and Groq, and at a server
    /// that refused the second and named the first.
    #[must_use]
    pub fn use_max_completion_tokens(mut self, whether: bool) -> Self {
        self.max_completion_tokens = Some(whether);
        self
    }

    /// Sets whether the model's reasoning is sent back beside its calls, as `reasoning_content` or what the provider calls
    /// it. By default only where the provider is known to want it: DeepSeek and Moonshot require it of a model that
    /// thinks, llama.cpp, vLLM and Ollama can use it, others may refuse the field.
    #[must_use]
    pub fn send_reasoning(mut self, whether: bool) -> Self {
        self.reasoning = Some(whether);
        self
    }

    /// Sets how much the model is to think before it answers, such as `low` or `high`, where it knows that.
    #[must_use]
    pub fn reasoning_effort(mut self, effort: impl Into<String>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// Adds a field to the body of each request, for what only some server knows. One that haft may send itself is an
    /// [error](BuildError::OwnField) when the model is made: it would be there twice.
    #[must_use]
    pub fn extra_body(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra_body.insert(name.into(), value.into());
        self
    }

    /// Sets what the server can read of the schemas of tools, and of replies. By default [`OpenAiStrict`](WireProfile::OpenAiStrict) at OpenAI,
    /// but not for a fine-tuned model; [`Gemini`](WireProfile::Gemini) at Google; elsewhere [`OpenAi`](WireProfile::OpenAi).
    /// A small model on a server of your own does better with [`Small`](WireProfile::Small).
    ///
    /// What is lost is in the trace, and calls are held against the whole schema. A tool whose schema cannot be strict is
    /// sent without `strict`, with a warning: see [`strict_tools`](crate::strict_tools). Under `strict`, the model writes
    /// `null` for an optional argument that it leaves out. The pipeline takes that as absent, unless it has
    /// [`RepairPolicy::Strict`](haft_core::schema::RepairPolicy::Strict): then choose another profile.
    ///
    /// A reply that is to be of a schema is asked for by `OpenAiStrict` or `Gemini` in the same way, and otherwise by the schema as it is. Where the
    /// root must be an object, any other root is put into one, which is taken off the reply.
    #[must_use]
    pub fn tool_schemas(mut self, profile: WireProfile) -> Self {
        self.tool_schemas = Some(profile);
        self
    }
}

impl<M> fmt::Debug for ModelBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelBuilder").field("model", &self.model).finish_non_exhaustive()
    }
}
