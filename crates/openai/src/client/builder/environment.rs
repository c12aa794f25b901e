use secrecy::SecretString;

use crate::client::provider::Provider;

/// Server addresses and API keys from environment variables.
#[derive(Clone)]
pub(super) struct Environment {
    /// The value of `OPENAI_BASE_URL`. If it is set, a prefix such as `groq/` is part of the model
    /// name and does not select the provider.
    pub(super) base_url: Option<String>,
    /// The value of `AZURE_OPENAI_ENDPOINT`, the base URL of an Azure resource.
    pub(super) azure_base_url: Option<String>,
    keys: Vec<(Provider, SecretString)>,
}

impl Environment {
    /// Reads the environment. `variable` returns the value of an environment variable. Empty
    /// variables are ignored.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let filled = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let key =
            |provider: Provider| Some((provider, SecretString::from(filled(provider.api_key_variable()?)?)));
        Self {
            base_url: filled("OPENAI_BASE_URL"),
            azure_base_url: filled("AZURE_OPENAI_ENDPOINT"),
            keys: Provider::all().filter_map(key).collect(),
        }
    }

    /// Returns the API key of `provider`, or `OPENAI_API_KEY` if `provider` is `None`. Returns
    /// `None` if the environment variable is not set, or if `provider` has no variable.
    pub(super) fn key(&self, provider: Option<Provider>) -> Option<&SecretString> {
        let provider = provider.unwrap_or(Provider::OpenAi);
        self.keys.iter().find(|(owner, _)| *owner == provider).map(|(_, key)| key)
    }
}
