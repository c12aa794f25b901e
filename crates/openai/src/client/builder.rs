#[cfg(test)]
mod tests;

use std::{env, fmt, marker::PhantomData, time::Duration};

use haft_core::{BoxError, ModelProfile, Value, schema::WireProfile};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use secrecy::{ExposeSecret as _, SecretString};

use serde_json::Map;

use super::{
    Client,
    clock::Timeouts,
    endpoint::{Endpoint, read_base_url},
    profile::{Habits, REASONING_FIELD, Server, profile_of},
    responses::Options,
    retry::RetryPolicy,
    transport::Transport,
};
use crate::{
    format::{Reasoning, Style},
    origin::Origin,
};

const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

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
    base_url: String,
    api_key: SecretString,
    headers: Vec<(String, SecretString)>,
    timeouts: Timeouts,
    retry: RetryPolicy,
    profile: Option<ModelProfile>,
    max_completion_tokens: Option<bool>,
    reasoning: Option<bool>,
    effort: Option<String>,
    extra_body: Map<String, Value>,
    tool_schemas: Option<WireProfile>,
    has_read_env: bool,
    /// What only the Responses API knows.
    pub(super) options: Options,
    model_type: PhantomData<fn() -> M>,
}

/// Why a model cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The base URL is none.
    #[error(
        "the base URL {base_url:?} cannot be used ({reason}): give one such as \"http://localhost:8080/v1\""
    )]
    BaseUrl {
        /// The text in its place, without what may be credentials.
        base_url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// OpenAI's server is meant, and it takes nobody without a key.
    #[error(
        "there is no API key for {OPENAI_BASE_URL}: set OPENAI_API_KEY, or OPENAI_BASE_URL for another server"
    )]
    NoApiKey,
    /// The key has characters that cannot be sent, such as a line break.
    #[error("the API key has characters that no key has, such as a line break")]
    ApiKey,
    /// A header has characters that cannot be sent.
    #[error("the header {name:?} has characters that cannot be sent")]
    Header {
        /// Its name.
        name: String,
    },
    /// The HTTP client cannot be made, as on a system without certificates.
    #[error("the HTTP client cannot be made; does the system have its CA certificates?")]
    Http(#[source] BoxError),
}

impl<M> ModelBuilder<M> {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            base_url: OPENAI_BASE_URL.into(),
            api_key: SecretString::default(),
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            profile: None,
            max_completion_tokens: None,
            reasoning: None,
            effort: None,
            extra_body: Map::new(),
            tool_schemas: None,
            has_read_env: false,
            options: Options::default(),
            model_type: PhantomData,
        }
    }

    /// Takes `OPENAI_BASE_URL` and `OPENAI_API_KEY` from the environment, where they are set and not empty.
    #[must_use]
    pub fn read_env(self) -> Self {
        self.read_variables(|name| env::var(name).ok())
    }

    fn read_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let filled = |name| variable(name).filter(|value| !value.trim().is_empty());
        self.base_url = filled("OPENAI_BASE_URL").unwrap_or(self.base_url);
        self.api_key = filled("OPENAI_API_KEY").map_or(self.api_key, SecretString::from);
        self.has_read_env = true;
        self
    }

    /// Sets where the server is, up to and with the version, such as `http://localhost:8080/v1`. A query, such as
    /// `?api-version=preview`, is sent with each request.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// Sets the key, which is sent as a bearer token. Many local servers need none.
    #[must_use]
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.api_key = SecretString::from(api_key.into());
        self
    }

    /// Adds a header to each request. Its value is never shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), SecretString::from(value.into())));
        self
    }

    /// Sets how long a request may take.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how often a request that failed is tried again: 3 times by default.
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

    /// Sets what the model can do, where its name does not tell.
    #[must_use]
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets whether a limit of tokens is sent as `max_completion_tokens`, which OpenAI's newer models require, or as
    /// `max_tokens`, which other servers know. By default the first only at OpenAI and Azure OpenAI.
    #[must_use]
    pub fn use_max_completion_tokens(mut self, whether: bool) -> Self {
        self.max_completion_tokens = Some(whether);
        self
    }

    /// Sets whether the model's reasoning is sent back beside its calls, as `reasoning_content`. By default only at
    /// DeepSeek and Moonshot, which require it of a model that thinks; others may refuse the field.
    #[must_use]
    pub fn send_reasoning(mut self, whether: bool) -> Self {
        self.reasoning = Some(whether);
        self
    }

    /// Sets what the server can read of the schemas of tools. By default [`OpenAiStrict`](WireProfile::OpenAiStrict) at OpenAI,
    /// but not for a fine-tuned model; [`Gemini`](WireProfile::Gemini) at Google; elsewhere [`OpenAi`](WireProfile::OpenAi).
    /// A small model on a server of your own does better with [`Small`](WireProfile::Small).
    ///
    /// What is lost is in the trace, and calls are held against the whole schema. A tool whose schema cannot be strict is
    /// sent without `strict`, with a warning: see [`strict_tools`](crate::strict_tools). Under `strict`, the model writes
    /// `null` for an optional argument that it leaves out. The pipeline takes that as absent, unless it has
    /// [`RepairPolicy::Strict`](haft_core::RepairPolicy::Strict): then choose another profile.
    #[must_use]
    pub fn tool_schemas(mut self, profile: WireProfile) -> Self {
        self.tool_schemas = Some(profile);
        self
    }

    /// Sets how much the model is to think before it answers, such as `low` or `high`, where it knows that.
    #[must_use]
    pub fn reasoning_effort(mut self, effort: impl Into<String>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// Adds a field to the body of each request, for what only some server knows. One that haft sends itself is not
    /// for here.
    #[must_use]
    pub fn extra_body(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra_body.insert(name.into(), value.into());
        self
    }

    /// Makes what the models of all APIs are made of.
    pub(super) fn connect<A>(self, api: A) -> Result<Client<A>, BuildError> {
        let url = read_base_url(&self.base_url)?;
        let (endpoint, http) = self.connection(&url)?;
        let habits = self.habits(&url);
        let profile = self.profile.unwrap_or_else(|| profile_of(&self.model));
        let style = Style {
            images: profile.images,
            audio: profile.audio,
            files: profile.files,
            reasoning: habits.reasoning,
            signatures: false,
            origin: Origin::new(endpoint.address()),
        };
        let transport = Transport::new(endpoint, http);
        Ok(Client { api, profile, habits, style, transport, retry: self.retry, timeouts: self.timeouts })
    }

    fn connection(&self, url: &Url) -> Result<(Endpoint, reqwest::Client), BuildError> {
        let key = self.api_key.expose_secret().trim();
        if self.has_read_env && Server::at(url).is_openai() && key.is_empty() {
            return Err(BuildError::NoApiKey);
        }
        let headers = self.header_map()?;
        let http = self.http_client(url).map_err(|error| BuildError::Http(error.into()))?;
        let endpoint = Endpoint::new(url, SecretString::from(key), headers, &http);
        Ok((endpoint.map_err(|error| BuildError::Http(error.without_url().into()))?, http))
    }

    fn http_client(&self, url: &Url) -> reqwest::Result<reqwest::Client> {
        // A redirect would turn the request into another one, or take the key elsewhere.
        let client =
            reqwest::Client::builder().connect_timeout(self.timeouts.connect).redirect(Policy::none());
        // Without TLS there is no need for the system's certificates, which a small container does not have.
        let needs_no_tls = url.scheme() == "http";
        if needs_no_tls { client.tls_certs_only([]).build() } else { client.build() }
    }

    fn habits(&self, url: &Url) -> Habits {
        let usual = Server::at(url).habits();
        // Fine-tuned models know fewer keywords.
        let is_fine_tuned = self.model.starts_with("ft:");
        let usual_schemas = if is_fine_tuned { WireProfile::OpenAi } else { usual.tool_schemas };
        Habits {
            max_completion_tokens: self.max_completion_tokens.unwrap_or(usual.max_completion_tokens),
            reasoning: match self.reasoning {
                None => usual.reasoning,
                Some(false) => Reasoning::Left,
                Some(true) if usual.reasoning == Reasoning::Left => Reasoning::Sent(REASONING_FIELD),
                Some(true) => usual.reasoning,
            },
            tool_schemas: self.tool_schemas.unwrap_or(usual_schemas),
            effort: self.effort.clone(),
            extra_body: self.extra_body.clone(),
        }
    }

    fn header_map(&self) -> Result<HeaderMap, BuildError> {
        let mut headers = HeaderMap::new();
        let key = self.api_key.expose_secret().trim();
        if !key.is_empty() {
            let value = secret_value(&format!("Bearer {key}")).ok_or(BuildError::ApiKey)?;
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            let header = HeaderName::try_from(name).ok().zip(secret_value(value.expose_secret()));
            let (key, value) = header.ok_or_else(|| BuildError::Header { name: name.clone() })?;
            headers.insert(key, value);
        }
        Ok(headers)
    }
}

/// A value that no log shows.
fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl<M> fmt::Debug for ModelBuilder<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelBuilder").field("model", &self.model).finish_non_exhaustive()
    }
}
