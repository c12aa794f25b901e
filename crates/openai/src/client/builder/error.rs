use haft_http::model::BuildError as HttpError;

use crate::client::provider::Provider;

/// The error returned when a model cannot be built, for example because its configuration is
/// invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The model name has the prefix of an unknown provider, and no base URL is set.
    #[error(
        "unknown provider {prefix:?}: known are {}; set OPENAI_BASE_URL for another server",
        Provider::names()
    )]
    UnknownProvider {
        /// The text before the first `/` of the model name.
        prefix: String,
    },
    /// The provider has a different base URL for each user, and no base URL is set.
    #[error("{provider} has a base URL per user: set yours")]
    NoBaseUrl {
        /// The name of the provider.
        provider: &'static str,
    },
    /// The provider requires an API key, and neither the builder nor the environment has one. Only
    /// returned after [`read_env`](crate::ModelBuilder::read_env).
    #[error("there is no API key for {base_url}: set {variable}, or OPENAI_BASE_URL for another server")]
    NoApiKey {
        /// The base URL of the server, without credentials and query.
        base_url: String,
        /// The name of the environment variable for the API key.
        variable: &'static str,
    },
    /// A setting of the connection is invalid.
    #[error(transparent)]
    Http(#[from] HttpError),
}
