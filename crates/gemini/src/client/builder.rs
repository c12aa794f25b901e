#[cfg(test)]
mod tests;

use std::{env, fmt, sync::Arc};

use haft_core::model::{HostedToolKind, ModelProfile, adapter::Origin};
use haft_http::{
    http_option_setters,
    model::{BuildError, HttpOptions, KeyHeader, ModelClient, address_of, parse_base_url},
};
use secrecy::{ExposeSecret as _, SecretString};

use super::{
    Client, Gemini, SafetySetting, ThinkingLevel,
    body::Settings,
    generate_content::{self, GenerateContent},
    interactions::{self, Interactions},
    profile::{is_gemini_3_or_later, profile_of},
};
use crate::format::{EncodingOptions, WireApi};

/// The base URL of Google's server.
const GOOGLE: &str = "https://generativelanguage.googleapis.com";

/// The names of the variables for the API key. The first that is set is used.
const KEY_VARIABLES: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];

/// The form of Gemini's API.
///
/// | | [`GenerateContent`](Self::GenerateContent) | [`Interactions`](Self::Interactions) |
/// |---|---|---|
/// | path | `/v1beta/models/NAME:generateContent` | `/v1/interactions` |
/// | servers | Google and gateways, Vertex AI | Google |
/// | thinking | level or budget | level |
/// | an MCP server as a hosted tool | without `allowed_tools` | yes |
///
/// `GenerateContent` is the default, because more servers and models support it. Use `Interactions`
/// for models and tools that Google offers only there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Api {
    /// `generateContent` and `streamGenerateContent`. The version is `v1beta`, because `v1` lacks
    /// tools and structured output for some models.
    #[default]
    GenerateContent,
    /// The Interactions API. The server stores nothing (`store: false`), and each request contains
    /// the whole conversation.
    Interactions,
}

/// A builder for [`Gemini`].
///
/// # Examples
///
/// ```
/// use haft_gemini::{Api, Gemini};
///
/// let model = Gemini::builder("gemini-3-flash").api_key("key").api(Api::Interactions).build()?;
/// # Ok::<(), haft_gemini::BuildError>(())
/// ```
#[derive(Clone)]
pub struct GeminiBuilder {
    model: String,
    api: Api,
    http: HttpOptions,
    key_header: KeyHeader,
    environment: Option<Environment>,
    profile: Option<ModelProfile>,
    thinking_level: Option<ThinkingLevel>,
    thinking_budget: Option<i32>,
    includes_thoughts: bool,
    validates_calls: bool,
    safety_settings: Vec<SafetySetting>,
}

/// The server and the key from environment variables.
#[derive(Clone)]
struct Environment {
    base_url: Option<String>,
    key: Option<SecretString>,
}

impl GeminiBuilder {
    pub(super) fn new(model: String) -> Self {
        Self {
            model,
            api: Api::default(),
            http: HttpOptions::default(),
            key_header: KeyHeader::Named("x-goog-api-key"),
            environment: None,
            profile: None,
            thinking_level: None,
            thinking_budget: None,
            includes_thoughts: false,
            validates_calls: false,
            safety_settings: Vec::new(),
        }
    }

    /// Reads environment variables for settings that are not set on the builder: the API key from
    /// `GEMINI_API_KEY` or else `GOOGLE_API_KEY`, and the base URL from `GOOGLE_GEMINI_BASE_URL`. The
    /// key is **sent to the server** at the base URL, also if it is not Google's.
    #[must_use]
    pub fn read_env(self) -> Self {
        self.read_variables(|name| env::var(name).ok())
    }

    fn read_variables(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let filled = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        self.environment = Some(Environment {
            base_url: filled("GOOGLE_GEMINI_BASE_URL"),
            key: KEY_VARIABLES.into_iter().find_map(filled).map(SecretString::from),
        });
        self
    }

    /// Sets the form of the API. Default: [`Api::GenerateContent`].
    #[must_use]
    pub fn api(mut self, api: Api) -> Self {
        self.api = api;
        self
    }

    /// Sets the base URL. Default: `https://generativelanguage.googleapis.com`. The version of the
    /// API is added to it, unless its path contains a version, as in
    /// `https://aiplatform.googleapis.com/v1/projects/P/locations/L/publishers/google`.
    #[must_use]
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.http.base_url = Some(base_url.into());
        self
    }

    /// Sets the API key, which is sent in the header `x-goog-api-key`. An empty key is not sent.
    #[must_use]
    pub fn api_key(mut self, api_key: impl Into<String>) -> Self {
        self.http.api_key = Some(SecretString::from(api_key.into()));
        self.key_header = KeyHeader::Named("x-goog-api-key");
        self
    }

    /// Sets a bearer token in place of an API key, for Vertex AI and gateways.
    #[must_use]
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.http.api_key = Some(SecretString::from(token.into()));
        self.key_header = KeyHeader::Bearer;
        self
    }

    http_option_setters!();

    /// Sets the profile of the model. The name in the profile is sent as the name of the model. By
    /// default, the profile is derived from the name. A model of an unknown family is assumed to
    /// support tools, but no media.
    #[must_use]
    pub fn profile(mut self, profile: ModelProfile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets the amount of thinking, for Gemini 3 and later.
    #[must_use]
    pub fn thinking_level(mut self, level: ThinkingLevel) -> Self {
        self.thinking_level = Some(level);
        self
    }

    /// Sets the maximum number of tokens for thinking, for Gemini 2.5. A budget of 0 disables
    /// thinking, and -1 lets the model decide. The Interactions API has no budget.
    #[must_use]
    pub fn thinking_budget(mut self, tokens: i32) -> Self {
        self.thinking_budget = Some(tokens);
        self
    }

    /// Requests summaries of the model's thoughts, which become the reasoning of a reply. Default:
    /// `false`.
    #[must_use]
    pub fn include_thoughts(mut self, enabled: bool) -> Self {
        self.includes_thoughts = enabled;
        self
    }

    /// Requests that the server checks optional calls against their schemas: the mode `VALIDATED` in
    /// place of `AUTO`. Default: `false`.
    #[must_use]
    pub fn validate_calls(mut self, enabled: bool) -> Self {
        self.validates_calls = enabled;
        self
    }

    /// Sets the thresholds of content filters. A category without a threshold has the default of the
    /// server.
    #[must_use]
    pub fn safety_settings(mut self, settings: impl IntoIterator<Item = SafetySetting>) -> Self {
        self.safety_settings = settings.into_iter().collect();
        self
    }

    /// Builds the model. No request is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the base URL, the API key, a header or another setting is invalid or
    /// missing.
    pub fn build(self) -> Result<Gemini, BuildError> {
        let reserved = match self.api {
            Api::GenerateContent => generate_content::FIELDS,
            Api::Interactions => interactions::FIELDS,
        };
        self.http.check_extra_fields(reserved)?;
        self.check_settings()?;
        let environment = self.environment.as_ref();
        let base_url = self.http.base_url.as_deref();
        let base_url = base_url.or_else(|| environment?.base_url.as_deref()).unwrap_or(GOOGLE);
        let url = parse_base_url(base_url, GOOGLE)?;
        let key = self.http.api_key.as_ref().or_else(|| environment?.key.as_ref());
        if let (None, Some(_), true) = (key, environment, base_url == GOOGLE) {
            let [variable, _] = KEY_VARIABLES;
            return Err(BuildError::NoApiKey { base_url: address_of(&url), variable });
        }
        let key = SecretString::from(key.map(|key| key.expose_secret().trim()).unwrap_or_default());
        let connection = self.http.connect(&url, (self.key_header, &key), &[], not_found_hint)?;
        let has_version = url.path().split('/').any(is_version);
        let settings = self.into_settings(Origin::Server(connection.address().into()));
        let client = match settings.encoding.api {
            WireApi::GenerateContent => Client::GenerateContent(ModelClient::new(
                GenerateContent::new(settings, has_version),
                connection,
            )),
            WireApi::Interactions => {
                Client::Interactions(ModelClient::new(Interactions::new(settings, has_version), connection))
            }
        };
        Ok(Gemini(Arc::new(client)))
    }

    fn check_settings(&self) -> Result<(), BuildError> {
        let name = self.profile.as_ref().map_or(&self.model, |profile| &profile.name);
        if name.is_empty() || name.contains(['?', '#', ':']) || name.contains(char::is_whitespace) {
            let expected = "a name without `?`, `#`, `:` and spaces";
            return Err(BuildError::InvalidSetting { name: "builder", value: format!("{name:?}"), expected });
        }
        if let (Api::Interactions, Some(budget)) = (self.api, self.thinking_budget) {
            let expected = "the Interactions API has only levels";
            return Err(BuildError::InvalidSetting {
                name: "thinking_budget",
                value: budget.to_string(),
                expected,
            });
        }
        Ok(())
    }

    fn into_settings(self, origin: Origin) -> Settings {
        let hosted_tools = vec![
            HostedToolKind::WebSearch,
            HostedToolKind::CodeExecution,
            HostedToolKind::FileSearch,
            HostedToolKind::McpServer,
        ];
        let profile =
            self.profile.unwrap_or_else(|| ModelProfile { hosted_tools, ..profile_of(&self.model) });
        let api = match self.api {
            Api::GenerateContent => WireApi::GenerateContent,
            Api::Interactions => WireApi::Interactions,
        };
        let is_newer = is_gemini_3_or_later(&profile.name);
        let encoding = EncodingOptions {
            api,
            sends_images: profile.supports_images,
            sends_audio: profile.supports_audio,
            sends_documents: profile.supports_files,
            sends_result_media: is_newer,
            needs_signatures: is_newer,
            origin,
        };
        Settings {
            profile,
            encoding: Arc::new(encoding),
            thinking_level: self.thinking_level,
            thinking_budget: self.thinking_budget,
            includes_thoughts: self.includes_thoughts,
            validates_calls: self.validates_calls,
            safety_settings: self.safety_settings,
            extra_fields: self.http.extra_fields,
        }
    }
}

/// Returns `true` if `segment`, a part of a path, is a version such as `v1` or `v1beta1`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|first: char| first.is_ascii_digit())
}

/// Returns a question for the error 404.
fn not_found_hint(_: &str) -> &'static str {
    ""
}

impl fmt::Debug for GeminiBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeminiBuilder")
            .field("model", &self.model)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}
