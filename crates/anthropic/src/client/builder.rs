#[cfg(test)]
mod tests;

use std::{env, fmt, sync::Arc, time::Duration};

use haft_core::model::{CallIds, ModelProfile, adapter::Origin};
use haft_http::{
    http_option_setters,
    model::{BuildError, HttpOptions, KeyHeader, ModelClient, address_of, parse_base_url},
};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use super::{Messages, MessagesApi, RejectedParams, Thinking, family::Family, request};
use crate::format::{CALL_IDS, EncodingOptions};

/// The base URL of Anthropic.
const BASE_URL: &str = "https://api.anthropic.com";

const API_KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";

/// The version of the API. A later version, 2026-10-21, has no `temperature` and no `top_p`, and
/// gateways do not have it yet.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The values of `effort` that the API accepts.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// The default of [`MessagesBuilder::tool_search_threshold`].
const TOOL_SEARCH_THRESHOLD: usize = 40;

/// A builder for [`Messages`].
///
/// # Examples
///
/// ```
/// use haft_anthropic::{Messages, Thinking};
///
/// let model = Messages::builder("claude-opus-5-5")
///     .api_key("sk-ant-1")
///     .thinking(Thinking::Adaptive)
///     .effort("medium")
///     .build()?;
/// # Ok::<(), haft_anthropic::BuildError>(())
/// ```
#[derive(Clone)]
pub struct MessagesBuilder {
    model: String,
    http: HttpOptions,
    bearer_token: Option<SecretString>,
    needs_key: bool,
    profile: Option<ModelProfile>,
    max_tokens: Option<u32>,
    cites_documents: bool,
    uses_prompt_cache: bool,
    cache_ttl: Option<Duration>,
    settings: Settings,
}

/// The settings of all requests to a model.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) max_tokens: u32,
    pub(super) thinking: Option<Thinking>,
    pub(super) effort: Option<String>,
    pub(super) strict_tools: bool,
    pub(super) tool_search_threshold: usize,
    /// The member `cache_control` of a block. `None` if the prompt cache is not used.
    pub(super) cache_control: Option<&'static str>,
    /// The value of the header `anthropic-beta` that the program has set.
    pub(super) beta: Option<SecretString>,
    pub(super) extra_fields: serde_json::Map<String, serde_json::Value>,
}

impl MessagesBuilder {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            http: HttpOptions::default(),
            bearer_token: None,
            needs_key: false,
            profile: None,
            max_tokens: None,
            cites_documents: false,
            uses_prompt_cache: true,
            cache_ttl: None,
            settings: Settings {
                max_tokens: 0,
                thinking: None,
                effort: None,
                strict_tools: false,
                tool_search_threshold: TOOL_SEARCH_THRESHOLD,
                cache_control: None,
                beta: None,
                extra_fields: serde_json::Map::new(),
            },
        }
    }

    /// Reads the API key from `ANTHROPIC_API_KEY` and the base URL from `ANTHROPIC_BASE_URL`, unless
    /// they are set on the builder. A key is then required.
    #[must_use]
    pub fn read_env(self) -> Self {
        self.read_variables(|name| env::var(name).ok())
    }

    fn read_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let filled = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        self.needs_key = true;
        if self.http.api_key.is_none() && self.bearer_token.is_none() {
            self.http.api_key = filled(API_KEY_VARIABLE).map(SecretString::from);
        }
        self.http.base_url = self.http.base_url.take().or_else(|| filled("ANTHROPIC_BASE_URL"));
        self
    }

    /// Sets the base URL, such as `https://gateway.example.com/anthropic`. A `/v1` or `/v1/messages`
    /// at its end is ignored. Default: `https://api.anthropic.com`.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.http.base_url = Some(base_url.into());
        self
    }

    /// Sets the API key, which is sent in the header `x-api-key`.
    #[must_use]
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.http.api_key = Some(SecretString::from(api_key.into()));
        self
    }

    /// Sets a token that is sent in the header `Authorization` in place of an API key, for gateways
    /// and for the Messages API of Amazon Bedrock.
    #[must_use]
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.bearer_token = Some(SecretString::from(token.into()));
        self
    }

    http_option_setters!();

    /// Sets the profile of the model. The name in the profile is sent as the `model` of each
    /// request. By default, the profile is derived from the model name. A model with an unknown
    /// version has a context window of 200,000 tokens.
    #[must_use]
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets the maximum number of tokens in a reply, with its thinking, for requests without a limit
    /// of their own. The API requires a limit.
    ///
    /// Default: 32,000 for Claude 3.7 and later, 8,192 for Claude 3.5 and for unknown versions, 4,096
    /// for Claude 3. With [`Thinking::Budget`], at least 8,192 more than the budget, if the model
    /// permits it.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the thinking. By default, the field is not sent, and the default of the model applies.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> Self {
        self.settings.thinking = Some(thinking);
        self
    }

    /// Sets the effort of the model: `low`, `medium`, `high`, `xhigh` or `max`. By default, the field
    /// is not sent.
    #[must_use]
    pub fn effort(mut self, effort: impl Into<String>) -> Self {
        self.settings.effort = Some(effort.into());
        self
    }

    /// Enables or disables `strict` for tools whose schema is compatible: see
    /// [`SchemaTarget::AnthropicStrict`](haft_core::schema::SchemaTarget::AnthropicStrict). The
    /// arguments that the model writes are then always valid for the sent schema. Default: `false`.
    ///
    /// The API limits strict tools to 20 in a request, with 24 optional properties and 16
    /// alternatives. Tools beyond these limits are sent without `strict`, and a warning is logged.
    #[must_use]
    pub fn strict_tools(mut self, enabled: bool) -> Self {
        self.settings.strict_tools = enabled;
        self
    }

    /// Enables or disables citations of the documents in a request. Default: `false`. The API does
    /// not accept citations with a response schema, so the schema is then stated in the instructions.
    #[must_use]
    pub fn citations(mut self, enabled: bool) -> Self {
        self.cites_documents = enabled;
        self
    }

    /// Enables or disables the prompt cache. Default: `true`. A write costs more than other input, and
    /// a read much less: see the prices of the model.
    ///
    /// Each request writes its tools, its instructions and its messages to the cache, and reads what
    /// an earlier request has written. There are at most four breakpoints: the last tool, the last
    /// system block, and the ends of this request and of the previous one.
    #[must_use]
    pub fn prompt_cache(mut self, enabled: bool) -> Self {
        self.uses_prompt_cache = enabled;
        self
    }

    /// Sets the time for which the prompt cache keeps an entry after its last use: 5 minutes or 1
    /// hour. Default: 5 minutes. A write for 1 hour costs twice the input.
    #[must_use]
    pub fn prompt_cache_ttl(mut self, ttl: Duration) -> Self {
        self.cache_ttl = Some(ttl);
        self
    }

    /// Sets the number of tools up to which all of them are sent to the model. With more tools, the
    /// model sees the first 5 and searches the others (`defer_loading`), if it has the tool search:
    /// Claude 4.5 and later. Default: 40.
    #[must_use]
    pub fn tool_search_threshold(mut self, tools: usize) -> Self {
        self.settings.tool_search_threshold = tools;
        self
    }

    /// Builds the model. No request is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the base URL, the API key, a header or another setting is invalid or
    /// missing.
    pub fn build(mut self) -> Result<Messages, BuildError> {
        self.http.check_extra_fields(request::FIELDS)?;
        let url = self.server()?;
        let key = match (self.bearer_token.take(), self.http.api_key.take()) {
            (Some(token), _) => (KeyHeader::Bearer, token),
            (None, Some(key)) => (KeyHeader::Named("x-api-key"), key),
            (None, None) if self.needs_key => {
                return Err(BuildError::NoApiKey { base_url: address_of(&url), variable: API_KEY_VARIABLE });
            }
            (None, None) => (KeyHeader::Bearer, SecretString::default()),
        };
        let key = (key.0, &SecretString::from(key.1.expose_secret().trim()));
        let connection = self.http.connect(&url, key, &[VERSION], not_found_hint)?;
        let name = self.profile.as_ref().map_or(&self.model, |profile| &profile.name).clone();
        let family = Family::of(&name);
        let profile = self.profile.take().unwrap_or_else(|| family.profile(&name));
        let settings = self.check_settings(family)?;
        let address = connection.address();
        let encoding = Arc::new(EncodingOptions {
            sends_images: profile.supports_images,
            sends_documents: profile.supports_files,
            cites_documents: self.cites_documents,
            call_ids: CallIds::new(CALL_IDS, format!("{address} {name}")),
            origin: Origin::Server(address.into()),
        });
        let api = MessagesApi { profile, family, settings, encoding, rejected: RejectedParams::default() };
        Ok(Messages(Arc::new(ModelClient::new(api, connection))))
    }

    /// Returns the base URL without the path of the API.
    fn server(&self) -> Result<Url, BuildError> {
        let base_url = self.http.base_url.as_deref().unwrap_or(BASE_URL);
        let mut url = parse_base_url(base_url, BASE_URL)?;
        let copied = ["/v1/messages", "/v1"].iter().find_map(|end| url.path().strip_suffix(end));
        if let Some(path) = copied.map(|path| path.trim_end_matches('/').to_owned()) {
            url.set_path(&path);
        }
        Ok(url)
    }

    fn check_settings(&self, family: Family) -> Result<Settings, BuildError> {
        let mut settings = self.settings.clone();
        let invalid = |name, value: String, expected| BuildError::InvalidSetting { name, value, expected };
        settings.thinking.map_or(Ok(()), |thinking| thinking.check(family))?;
        if let Some(effort) = settings.effort.as_deref().filter(|effort| !EFFORTS.contains(effort)) {
            let expected = "it is one of low, medium, high, xhigh and max";
            return Err(invalid("effort", format!("{effort:?}"), expected));
        }
        if self.max_tokens == Some(0) {
            return Err(invalid("max_tokens", "0".to_owned(), "it is at least 1"));
        }
        let default = || Thinking::default_max_tokens(settings.thinking, family);
        settings.max_tokens = self.max_tokens.unwrap_or_else(default);
        let cache_control = match self.cache_ttl.map(|ttl| ttl.as_secs()) {
            None | Some(300) => r#""cache_control":{"type":"ephemeral"}"#,
            Some(3_600) => r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#,
            Some(other) => {
                return Err(invalid("prompt_cache_ttl", format!("{other} s"), "it is 5 minutes or 1 hour"));
            }
        };
        settings.cache_control = self.uses_prompt_cache.then_some(cache_control);
        let is_beta = |(name, _): &&(String, SecretString)| name.eq_ignore_ascii_case("anthropic-beta");
        settings.beta = self.http.headers.iter().rfind(is_beta).map(|(_, value)| value.clone());
        settings.extra_fields = self.http.extra_fields.clone();
        Ok(settings)
    }
}

impl fmt::Debug for MessagesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessagesBuilder").field("model", &self.model).finish_non_exhaustive()
    }
}

/// Returns a question about the base URL for the error 404, because a wrong base URL is its usual
/// cause.
fn not_found_hint(url: &str) -> &'static str {
    if url.starts_with(BASE_URL) { "" } else { " (should the base URL be without /v1/messages?)" }
}
