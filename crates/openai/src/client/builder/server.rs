use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use super::{BuildError, ModelBuilder};
use haft_http::model::{KeyHeader, address_of, parse_base_url};

use crate::client::provider::Provider;

/// The server of a model: its base URL, provider and API key.
pub(super) struct Server {
    pub(super) url: Url,
    pub(super) provider: Option<Provider>,
    pub(super) key: SecretString,
}

impl<M> ModelBuilder<M> {
    /// Selects the server by the settings of the builder, or else by `OPENAI_BASE_URL`, or else by
    /// the prefix of the model name. If none of them selects a server, requests are sent to OpenAI.
    /// A prefix that selects the provider is removed from the model name.
    pub(super) fn resolve_server(&mut self) -> Result<Server, BuildError> {
        let environment = self.environment.as_ref();
        let env_base_url = environment.and_then(|environment| environment.base_url.as_ref());
        let may_have_prefix =
            environment.is_some() && self.http.base_url.is_none() && self.provider.is_none();
        if may_have_prefix
            && env_base_url.is_none()
            && let Some((prefix, model)) = self.model.split_once('/')
        {
            // The names of OpenAI models contain no `/`, so an unknown prefix is an error.
            let unknown = |_| BuildError::UnknownProvider { prefix: prefix.to_owned() };
            self.provider = Some(prefix.parse().map_err(unknown)?);
            self.model = model.to_owned();
        }
        let base_url = match (&self.http.base_url, self.provider) {
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
        let mut url = parse_base_url(base_url, "http://localhost:8080/v1")?;
        // A trailing `/chat/completions` or `/responses` is removed, so the URL may also be that of an
        // endpoint.
        let copied = ["/chat/completions", "/responses"].iter().find_map(|end| url.path().strip_suffix(end));
        if let Some(path) = copied.map(|path| path.trim_end_matches('/').to_owned()) {
            url.set_path(&path);
        }
        let provider = self.provider.or_else(|| Provider::of_url(&url));
        // The URL from Azure's portal and in `AZURE_OPENAI_ENDPOINT` has no path, so the path of
        // the API is added here.
        if provider == Some(Provider::Azure) && url.path() == "/" {
            url.set_path("/openai/v1");
        }
        let key = self.find_api_key(provider);
        let variable = provider.and_then(Provider::api_key_variable);
        if let (None, None, Some(_), Some(variable)) = (&key, &self.http.api_key, environment, variable) {
            return Err(BuildError::NoApiKey { base_url: address_of(&url), variable });
        }
        Ok(Server { url, provider, key: key.unwrap_or_default() })
    }

    /// Returns the API key from the builder, or else the key of `provider` from the environment. If
    /// both are missing, and neither the builder nor the prefix of the model name selects a
    /// provider, returns `OPENAI_API_KEY`. `None` if there is no key, or if the key from the
    /// builder is empty.
    fn find_api_key(&self, provider: Option<Provider>) -> Option<SecretString> {
        let environment = self.environment.as_ref();
        let own = || environment.and_then(|it| it.key(provider));
        let is_unnamed = self.provider.is_none();
        let openai = || environment.filter(|_| is_unnamed).and_then(|it| it.key(None));
        let key = self.http.api_key.as_ref().or_else(own).or_else(openai)?;
        let key = key.expose_secret().trim();
        (!key.is_empty()).then(|| SecretString::from(key))
    }
}

impl Server {
    /// Returns the header for the key. Azure requires Entra tokens, which are JWTs, in the header
    /// `Authorization`, but keys in the header `api-key`.
    pub(super) fn key_header(&self) -> KeyHeader {
        let key = self.key.expose_secret();
        let is_jwt = key.starts_with("eyJ") && key.split('.').count() == 3;
        if self.provider == Some(Provider::Azure) && !is_jwt {
            KeyHeader::Named("api-key")
        } else {
            KeyHeader::Bearer
        }
    }
}
