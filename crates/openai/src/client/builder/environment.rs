use secrecy::SecretString;

use crate::client::provider::Provider;

/// What the environment says of servers and keys.
#[derive(Clone)]
pub(super) struct Environment {
    /// What `OPENAI_BASE_URL` says: then every name is one of a model there.
    pub(super) base_url: Option<String>,
    /// What `AZURE_OPENAI_ENDPOINT` says.
    pub(super) azure: Option<String>,
    keys: Vec<(Provider, SecretString)>,
}

impl Environment {
    /// Reads the variables that are set and not empty.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let filled = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let key =
            |provider: Provider| Some((provider, SecretString::from(filled(provider.key_variable()?)?)));
        Self {
            base_url: filled("OPENAI_BASE_URL"),
            azure: filled("AZURE_OPENAI_ENDPOINT"),
            keys: Provider::all().filter_map(key).collect(),
        }
    }

    /// The key for a provider; `OPENAI_API_KEY` is for servers of which nothing is known, too.
    pub(super) fn key(&self, provider: Option<Provider>) -> Option<&SecretString> {
        let provider = provider.unwrap_or(Provider::OpenAi);
        self.keys.iter().find(|(owner, _)| *owner == provider).map(|(_, key)| key)
    }
}
