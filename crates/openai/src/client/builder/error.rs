use haft_core::call::BoxError;

use crate::client::provider::Provider;

/// An invalid configuration of a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The base URL is invalid.
    #[error(
        "the base URL {base_url:?} cannot be used ({reason}): give one such as \"http://localhost:8080/v1\""
    )]
    BaseUrl {
        /// The text, without possible credentials.
        base_url: String,
        /// The reason.
        reason: String,
    },
    /// The model name has the prefix of an unknown provider, and no base URL is set.
    #[error(
        "unknown provider {prefix:?}: known are {}; set OPENAI_BASE_URL for another server",
        Provider::names()
    )]
    UnknownProvider {
        /// The text before the first `/`.
        prefix: String,
    },
    /// The provider has a base URL for each user, and none is set.
    #[error("{provider} has a base URL per user: set yours")]
    NoBaseUrl {
        /// The name of the provider.
        provider: &'static str,
    },
    /// The provider requires a key, and none is set.
    #[error("there is no API key for {base_url}: set {variable}, or OPENAI_BASE_URL for another server")]
    NoApiKey {
        /// The base URL.
        base_url: String,
        /// The environment variable for the key.
        variable: &'static str,
    },
    /// The key has characters forbidden in headers, such as a line break.
    #[error("the API key has invalid characters, such as a line break")]
    ApiKey,
    /// A header has invalid characters.
    #[error("the header {name:?} has characters that cannot be sent")]
    Header {
        /// The name.
        name: String,
    },
    /// An extra field of the body has the name of a field sent by haft.
    #[error("the field {name:?} is sent by haft: set it by the builder, or by the settings of a request")]
    OwnField {
        /// The name.
        name: String,
    },
    /// The proxy is not a URL.
    #[error("the proxy is not a URL: give one such as \"http://localhost:3128\"")]
    Proxy,
    /// The HTTP client cannot be built, for example without system certificates.
    #[error("the HTTP client cannot be built; does the system have its CA certificates?")]
    Http(#[source] BoxError),
}
