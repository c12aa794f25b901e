use haft_http::oauth::{IssuerClient, fetch_metadata, is_same_issuer};
use reqwest::Url;
use rmcp::transport::auth::AuthorizationMetadata;

/// The fault of an authorization server that a server names.
pub(super) enum IssuerError {
    /// The server names another authorization server than the expected one.
    Other { expected: String, found: String },
    /// The metadata of the authorization server is missing or invalid.
    Invalid(String),
}

impl From<IssuerError> for String {
    fn from(error: IssuerError) -> Self {
        match error {
            IssuerError::Other { expected, found } => {
                format!("the server names the authorization server {found:?}, not {expected:?}")
            }
            IssuerError::Invalid(reason) => reason,
        }
    }
}

/// Returns the metadata of the authorization server that a server names with `found`. `expected` is
/// the issuer that the user has set, or that of the stored credentials.
///
/// Only the issuer in `found` is used. A server can name a document at any URL, and a document can
/// name any issuer, so the endpoints are those at the well-known URLs of the issuer (RFC 8414,
/// section 3.3).
///
/// # Errors
///
/// Fails if `found` has no issuer or another one than `expected`, and if the issuer has no valid
/// metadata.
pub(super) async fn trusted_metadata(
    http: &IssuerClient,
    found: &AuthorizationMetadata,
    expected: Option<&str>,
) -> Result<AuthorizationMetadata, IssuerError> {
    let named = found.issuer.as_deref().unwrap_or_default();
    match expected {
        Some(expected) if !is_same_issuer(named, expected) => {
            Err(IssuerError::Other { expected: expected.to_owned(), found: named.to_owned() })
        }
        None if named.is_empty() => {
            Err(IssuerError::Invalid("the metadata of the authorization server has no issuer".to_owned()))
        }
        expected => issuer_metadata(http, expected.unwrap_or(named)).await.map_err(IssuerError::Invalid),
    }
}

/// Fetches the metadata of the authorization server `issuer` from its well-known URLs.
///
/// # Errors
///
/// Returns a description of the fault, also if the token endpoint is no `https` URL. The token
/// endpoint of a server with an `http` URL may be an `http` URL.
pub(super) async fn issuer_metadata(
    http: &IssuerClient,
    issuer: &str,
) -> Result<AuthorizationMetadata, String> {
    let metadata: AuthorizationMetadata = fetch_metadata(http, issuer).await?;
    let endpoint = Url::parse(&metadata.token_endpoint)
        .map_err(|error| format!("invalid token endpoint of {issuer:?}: {error}"))?;
    http.check_scheme(&endpoint).map_err(|error| format!("the token endpoint of {issuer:?}: {error}"))?;
    Ok(metadata)
}
