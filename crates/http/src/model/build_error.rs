use haft_core::call::BoxError;

/// The error returned when the client of a model cannot be built, because its configuration is
/// invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The base URL is invalid.
    #[error("the base URL {base_url:?} cannot be used ({reason}): give one such as \"{example}\"")]
    InvalidBaseUrl {
        /// The rejected base URL. Its credentials and its query are redacted.
        base_url: String,
        /// The reason why the base URL is rejected.
        reason: String,
        /// A valid base URL.
        example: &'static str,
    },
    /// The server requires an API key, and neither the builder nor the environment has one.
    #[error("there is no API key for {base_url}: set {variable}")]
    NoApiKey {
        /// The base URL of the server, without credentials and query.
        base_url: String,
        /// The name of the environment variable for the API key.
        variable: &'static str,
    },
    /// The API key has characters that are forbidden in HTTP headers, such as a line break.
    #[error("the API key has invalid characters, such as a line break")]
    InvalidApiKey,
    /// The name or value of an HTTP header has invalid characters.
    #[error("the header {name:?} has characters that cannot be sent")]
    InvalidHeader {
        /// The name of the rejected header.
        name: String,
    },
    /// An extra field of the request body has the name of a field that haft sends itself.
    #[error("the field {name:?} is sent by haft: set it by the builder, or by the settings of a request")]
    ReservedField {
        /// The name of the rejected field.
        name: String,
    },
    /// A setting of the builder has a value that the API does not accept.
    #[error("the setting {name} cannot be {value}: {expected}")]
    InvalidSetting {
        /// The name of the setter.
        name: &'static str,
        /// The rejected value.
        value: String,
        /// A description of the accepted values.
        expected: &'static str,
    },
    /// The proxy is not a valid URL.
    #[error("the proxy is not a URL: give one such as \"http://localhost:3128\"")]
    InvalidProxy,
    /// The HTTP client cannot be built, for example because the system has no CA certificates.
    #[error("the HTTP client cannot be built; does the system have its CA certificates?")]
    HttpClient(#[source] BoxError),
}
