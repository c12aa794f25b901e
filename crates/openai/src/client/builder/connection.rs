use std::{env, sync::Arc};

use haft_core::{call::BoxError, model::ModelProfile, schema::SchemaTarget};
use percent_encoding::percent_decode_str;
use reqwest::{
    Proxy, Request, Response, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use secrecy::{ExposeSecret as _, SecretString};
use tower::{Layer, Service};

use super::{BuildError, ModelBuilder};
use crate::{
    client::{
        Api, Client,
        endpoint::{Endpoint, parse_base_url},
        profile::{ClientSettings, needs_thought_signatures, profile_of},
        provider::{Provider, Quirks, REASONING_CONTENT_FIELD},
        tls::{self, RootCertificates},
        transport::{HttpService, Transport},
    },
    format::{EncodingOptions, ReasoningField, WarnOnce},
    origin::Origin,
};

/// The server of a model: its base URL, provider and API key.
pub(super) struct Server {
    pub(super) url: Url,
    pub(super) provider: Option<Provider>,
    pub(super) key: SecretString,
}

impl<M> ModelBuilder<M> {
    /// Adds a `tower` layer around each HTTP request, for example to count, log, limit or change
    /// requests. The last added layer is the outermost.
    ///
    /// - Each HTTP request passes through the layer, including each retry. The time that the layer
    ///   takes counts towards the timeouts.
    /// - The inner service returns the response head. The body is read after the layer has
    ///   returned.
    /// - The service is cloned for each request. The clones must share their state, like those of
    ///   `ConcurrencyLimit`. Wrap a service without shared state, such as `RateLimit`, in a
    ///   `Buffer`.
    /// - A [`ModelError`](haft_core::model::ModelError) from a layer is handled like an error from
    ///   the server. Any other error, except those from `reqwest`, becomes
    ///   [`ModelError::Failed`](haft_core::model::ModelError::Failed).
    /// - The API key is in a request header that is marked as sensitive.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_openai::ChatCompletions;
    /// use tower::limit::ConcurrencyLimitLayer;
    ///
    /// let model = ChatCompletions::builder("m").base_url("http://localhost:8080/v1").layer(ConcurrencyLimitLayer::new(2));
    /// # model.build()?;
    /// # Ok::<(), haft_openai::BuildError>(())
    /// ```
    #[must_use]
    pub fn layer<L, S>(mut self, layer: L) -> Self
    where
        L: Layer<HttpService, Service = S> + Send + Sync + 'static,
        S: Service<Request, Response = Response> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
    {
        self.middleware.add(layer);
        self
    }

    /// Sets the HTTP client. Its settings for connections, redirects and proxies replace those of
    /// this builder. Disable redirects in the client, because a redirect may send the API key to
    /// another host.
    #[must_use]
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http_client = Some(client);
        self
    }

    /// Sets an HTTP proxy, such as `http://user:password@localhost:3128`. By default, the
    /// environment variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` apply. The
    /// credentials are redacted in errors.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(SecretString::from(url.into()));
        self
    }

    /// Builds the client for the API `A`. `api` creates the [`Api`] implementation from the quirks
    /// of the server.
    pub(in crate::client) fn build_client<A: Api>(
        mut self,
        api: impl FnOnce(&Quirks) -> A,
    ) -> Result<Client<A>, BuildError> {
        if let Some(name) = self.extra_body.keys().find(|name| A::BODY_FIELDS.contains(&name.as_str())) {
            return Err(BuildError::ReservedField { name: name.clone() });
        }
        let target = self.resolve_server()?;
        let (endpoint, http) = self.build_endpoint(&target, A::PATH)?;
        let defaults = self.client_settings(target.provider);
        let usual = ModelProfile {
            supports_json_schema: defaults.quirks.accepts_json_schema,
            ..profile_of(&self.model)
        };
        let mut profile = self.profile.unwrap_or(usual);
        profile.supports_images = self.sends_images.unwrap_or(profile.supports_images);
        let encoding = Arc::new(EncodingOptions {
            sends_images: profile.supports_images,
            sends_audio: profile.supports_audio,
            sends_documents: profile.supports_files,
            reasoning_field: defaults.quirks.reasoning,
            server_stores_reasoning: self.options.stores_responses(),
            // A fixed thought signature is sent only to Google and to unknown servers. Other known
            // providers of Gemini models, such as OpenRouter, handle thought signatures themselves.
            needs_signatures: target.provider.is_none_or(|it| it == Provider::Gemini)
                && needs_thought_signatures(&self.model),
            call_ids: defaults.quirks.call_ids,
            origin: Origin::Server(endpoint.address().into()),
            media_warning: WarnOnce::default(),
        });
        let transport = Transport::new(endpoint, http, self.middleware);
        let api = api(&defaults.quirks);
        Ok(Client { api, profile, defaults, encoding, transport, retry: self.retry, timeouts: self.timeouts })
    }

    /// Selects the server by the settings of the builder, or else by `OPENAI_BASE_URL`, or else by
    /// the prefix of the model name. If none of them selects a server, the server is OpenAI's. A
    /// prefix that selects the provider is removed from the model name.
    pub(super) fn resolve_server(&mut self) -> Result<Server, BuildError> {
        let environment = self.environment.as_ref();
        let env_base_url = environment.and_then(|environment| environment.base_url.as_ref());
        let may_have_prefix = environment.is_some() && self.base_url.is_none() && self.provider.is_none();
        if may_have_prefix
            && env_base_url.is_none()
            && let Some((prefix, model)) = self.model.split_once('/')
        {
            // The names of OpenAI models contain no `/`, so an unknown prefix is an error.
            let unknown = |_| BuildError::UnknownProvider { prefix: prefix.to_owned() };
            self.provider = Some(prefix.parse().map_err(unknown)?);
            self.model = model.to_owned();
        }
        let base_url = match (&self.base_url, self.provider) {
            (Some(base_url), _) => base_url.as_str(),
            (None, Some(provider)) => {
                let azure = || environment?.azure_base_url.as_deref().filter(|_| provider == Provider::Azure);
                let base_url = provider.base_url().or_else(azure);
                base_url.ok_or(BuildError::NoBaseUrl { provider: provider.name() })?
            }
            (None, None) => {
                env_base_url.map(String::as_str).or(Provider::OpenAi.base_url()).unwrap_or_default()
            }
        };
        let mut url = parse_base_url(base_url)?;
        let provider = self.provider.or_else(|| Provider::of_url(&url));
        // The URL from Azure's portal and in `AZURE_OPENAI_ENDPOINT` has no path, so the path of
        // the API is added here.
        if provider == Some(Provider::Azure) && url.path() == "/" {
            url.set_path("/openai/v1");
        }
        let key = self.find_api_key(provider);
        let variable = provider.and_then(Provider::api_key_variable);
        if let (None, None, Some(_), Some(variable)) = (&key, &self.api_key, environment, variable) {
            return Err(BuildError::NoApiKey { base_url: address_of(&url), variable });
        }
        Ok(Server { url, provider, key: key.unwrap_or_default() })
    }

    /// Returns the API key from the builder, or else the key of `provider` from the environment. If
    /// both are missing, and neither the builder nor the prefix of the model name selects a
    /// provider, returns `OPENAI_API_KEY`. `None` if there is no key.
    fn find_api_key(&self, provider: Option<Provider>) -> Option<SecretString> {
        let environment = self.environment.as_ref();
        let own = || environment.and_then(|it| it.key(provider));
        let is_unnamed = self.provider.is_none();
        let openai = || environment.filter(|_| is_unnamed).and_then(|it| it.key(None));
        let key = self.api_key.as_ref().or_else(own).or_else(openai)?;
        let key = key.expose_secret().trim();
        (!key.is_empty()).then(|| SecretString::from(key))
    }

    pub(super) fn build_endpoint(
        &self,
        target: &Server,
        path: &str,
    ) -> Result<(Endpoint, reqwest::Client), BuildError> {
        let headers = self.build_headers(target)?;
        let http = match &self.http_client {
            Some(client) => client.clone(),
            None => self.build_http_client(&target.url)?,
        };
        let proxy = self.proxy.as_ref().and_then(|proxy| Url::parse(proxy.expose_secret()).ok());
        let hidden: Vec<_> =
            [Some(&target.url), proxy.as_ref()].into_iter().flatten().flat_map(url_secrets).collect();
        let endpoint = Endpoint::new(&target.url, path, headers, &hidden, &http);
        Ok((endpoint.map_err(|error| BuildError::HttpClient(error.without_url().into()))?, http))
    }

    fn build_http_client(&self, url: &Url) -> Result<reqwest::Client, BuildError> {
        // Redirects are disabled, because a redirect could change the method or send the API key to
        // another host.
        let builder =
            reqwest::Client::builder().connect_timeout(self.timeouts.connect).redirect(Policy::none());
        let builder = builder.user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")));
        let proxy = self.proxy.as_ref().map(|proxy| {
            let url = Url::parse(proxy.expose_secret()).ok().filter(Url::has_host);
            let proxy = url.and_then(|url| Proxy::all(url).ok());
            proxy.ok_or(BuildError::InvalidProxy)
        });
        // Small containers have no system certificates. A client for plain HTTP does not need them.
        let uses_tls = proxy.is_some() || may_use_tls(url, |name| env::var(name).ok());
        let roots = if uses_tls { RootCertificates::System } else { RootCertificates::None };
        let tls = tls::client_config(&roots).map_err(|error| BuildError::HttpClient(error.into()))?;
        let builder = builder.tls_backend_preconfigured(tls);
        let builder = match proxy {
            Some(proxy) => builder.proxy(proxy?),
            None => builder,
        };
        builder.build().map_err(|error| BuildError::HttpClient(error.without_url().into()))
    }

    pub(super) fn client_settings(&self, provider: Option<Provider>) -> ClientSettings {
        let usual = Provider::quirks(provider);
        // Fine-tuned models do not support all keywords of strict schemas.
        let is_fine_tuned = self.model.starts_with("ft:");
        let usual_schemas = if is_fine_tuned { SchemaTarget::OpenAi } else { usual.schema_target };
        let quirks = Quirks {
            uses_max_completion_tokens: self
                .uses_max_completion_tokens
                .unwrap_or(usual.uses_max_completion_tokens),
            reasoning: match self.sends_reasoning {
                None => usual.reasoning,
                Some(false) => ReasoningField::Omitted,
                Some(true) if usual.reasoning == ReasoningField::Omitted => {
                    ReasoningField::Optional(REASONING_CONTENT_FIELD)
                }
                Some(true) => usual.reasoning,
            },
            schema_target: self.schema_target.unwrap_or(usual_schemas),
            ..usual
        };
        ClientSettings {
            provider,
            quirks,
            reasoning_effort: self.effort.clone(),
            extra_body: self.extra_body.clone(),
        }
    }

    fn build_headers(&self, target: &Server) -> Result<HeaderMap, BuildError> {
        let mut headers = HeaderMap::new();
        let key = target.key.expose_secret();
        if target.provider == Some(Provider::Azure) && !key.is_empty() && !is_jwt(key) {
            headers.insert("api-key", sensitive_header_value(key).ok_or(BuildError::InvalidApiKey)?);
        } else if !key.is_empty() {
            let value = sensitive_header_value(&format!("Bearer {key}")).ok_or(BuildError::InvalidApiKey)?;
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            let header = HeaderName::try_from(name).ok().zip(sensitive_header_value(value.expose_secret()));
            let (key, value) = header.ok_or_else(|| BuildError::InvalidHeader { name: name.clone() })?;
            headers.insert(key, value);
        }
        Ok(headers)
    }
}

/// Returns `true` if a client for `url` may open TLS connections, either to the server or to an
/// HTTPS proxy from the environment. `variable` returns the value of an environment variable.
pub(super) fn may_use_tls(url: &Url, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_https = |proxy: String| proxy.trim_start().to_ascii_lowercase().starts_with("https:");
    let proxies = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    url.scheme() != "http" || proxies.into_iter().filter_map(variable).any(is_https)
}

/// Returns `url` without its credentials and its query, for error messages.
fn address_of(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/'))
}

/// Returns the password of `url`, or the user name if there is no password. The secret is returned
/// twice, percent-encoded and decoded, because errors may contain either form.
fn url_secrets(url: &Url) -> Vec<SecretString> {
    let encoded = url.password().unwrap_or(url.username());
    let decoded = percent_decode_str(encoded).decode_utf8_lossy();
    vec![SecretString::from(encoded), SecretString::from(decoded.as_ref())]
}

/// Returns `true` if `key` has the form of a JWT, as Entra tokens do. Azure requires tokens in the
/// header `Authorization`, but keys in the header `api-key`.
fn is_jwt(key: &str) -> bool {
    key.starts_with("eyJ") && key.split('.').count() == 3
}

/// Creates a header value that is marked as sensitive. Returns `None` if `text` has invalid
/// characters.
fn sensitive_header_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
