use haft_core::BoxError;

use crate::client::provider::Provider;

/// Why a model cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The base URL is none.
    #[error(
        "the base URL {base_url:?} cannot be used ({reason}): give one such as \"http://localhost:8080/v1\""
    )]
    BaseUrl {
        /// The text in its target, without what may be credentials.
        base_url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name of a model begins with what is no provider, and there is no other server that could have such a model.
    #[error(
        "there is no provider {prefix:?}: known are {}; set OPENAI_BASE_URL for another server",
        Provider::names()
    )]
    UnknownProvider {
        /// What stands before the first `/`.
        prefix: String,
    },
    /// The provider has no base URL that is the same for all of its users, and none was given.
    #[error("{provider} has a base URL for each of its users: give yours")]
    NoBaseUrl {
        /// Its name.
        provider: &'static str,
    },
    /// A server is meant that takes nobody without a key.
    #[error("there is no API key for {base_url}: set {variable}, or OPENAI_BASE_URL for another server")]
    NoApiKey {
        /// Where the server is.
        base_url: String,
        /// The variable of the environment that has none.
        variable: &'static str,
    },
    /// The key has characters that cannot be sent, such as a line break.
    #[error("the API key has characters that no key has, such as a line break")]
    ApiKey,
    /// A header has characters that cannot be sent.
    #[error("the header {name:?} has characters that cannot be sent")]
    Header {
        /// Its name.
        name: String,
    },
    /// A field was added to the body that is there already.
    #[error("the field {name:?} is sent by haft: set it by the builder, or by the settings of a request")]
    OwnField {
        /// Its name.
        name: String,
    },
    /// The proxy is none.
    #[error("the proxy is no address: give one such as \"http://localhost:3128\"")]
    Proxy,
    /// The HTTP client cannot be made, as on a system without certificates.
    #[error("the HTTP client cannot be made; does the system have its CA certificates?")]
    Http(#[source] BoxError),
}
