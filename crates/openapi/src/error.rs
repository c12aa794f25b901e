//! [`OpenApiError`]: the error of a document that yields no tool source.

/// An error from creating an [`OpenApiSource`](crate::OpenApiSource): a document that cannot be
/// used at all, an invalid option, or an HTTP client that cannot be created.
///
/// A fault in an operation is not an error: the operation is reported as a
/// [diagnostic](haft_core::toolset::Diagnostic) of the tool list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// A document from a text or a file is longer than the limit. A fetched document that is too
    /// long is [`Unreadable`](Self::Unreadable).
    #[error(
        "the document is longer than {limit} bytes: remove operations, or raise the limit `max_document_bytes` in a program"
    )]
    TooLarge {
        /// The maximum length in bytes.
        limit: usize,
    },
    /// The document is not valid JSON or YAML, or is nested too deep.
    #[error("the document is not valid {format}: {reason}")]
    Syntax {
        /// `JSON` or `YAML`.
        format: &'static str,
        /// The fault with its line and column.
        reason: String,
    },
    /// The document declares no version, or a version that is not supported.
    #[error("{found}: expected a document of OpenAPI 3.0, 3.1 or 3.2, or of Swagger 2.0; convert it first")]
    UnsupportedVersion {
        /// The declared version, or its absence.
        found: String,
    },
    /// No operation has a server that may be called.
    #[error("{reason}")]
    NoServer {
        /// The fault and its remedy.
        reason: String,
    },
    /// An option has an invalid value.
    #[error("invalid option `{option}`: {reason}")]
    InvalidOption {
        /// The name of the option.
        option: &'static str,
        /// The fault and its remedy. It contains no secrets.
        reason: String,
    },
    /// The document cannot be read or fetched.
    #[error("cannot read the document from {location}: {reason}")]
    Unreadable {
        /// The path, or the URL without its query.
        location: String,
        /// The fault.
        reason: String,
    },
    /// The HTTP client cannot be created.
    #[error("cannot create the HTTP client: {reason}")]
    HttpClient {
        /// The fault.
        reason: String,
    },
}
