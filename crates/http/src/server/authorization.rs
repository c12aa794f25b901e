//! The server as an OAuth 2.0 protected resource: access tokens of authorization servers.
//!
//! A [`ProtectedResource`] is a server that accepts the access tokens of one or several
//! authorization servers, as the MCP specification requires (*Authorization*, revisions 2025-11-25
//! and 2026-07-28). It has the public URL of the server, which is its resource identifier, the
//! issuers of the tokens, and the scopes that every request must have.
//!
//! # Protocol
//!
//! - **Metadata** (RFC 9728): [`Access`](super::Access) responds to
//!   `/.well-known/oauth-protected-resource` and to the same path with the path of the resource,
//!   such as `/.well-known/oauth-protected-resource/mcp`. If it is a route of a router, mount it
//!   there as well.
//! - **Status 401**: a request without a valid token. `WWW-Authenticate` has the URL of the
//!   metadata and the required scopes.
//! - **Status 403**: a token without a required scope. `WWW-Authenticate` has
//!   `error="insufficient_scope"` and all scopes that the request needs, so that the client can
//!   request them (step-up). A call needs the scopes of the resource, and those in the
//!   [policy](haft_core::tool::ToolPolicy::required_scopes) of its tool, which a server checks with
//!   [`ProtectedResource::check_scopes`].
//! - **Status 503**: a token that cannot be verified at present, for example because the keys of
//!   its issuer cannot be fetched.
//!
//! # Principal
//!
//! The calls of a token have a [principal](Principal) with the scopes of the token. The `id` that a
//! `JwtVerifier` (feature `oauth`) assigns is `ISSUER#SUB`, from the claims `iss` and `sub`. An
//! issuer has no fragment (RFC 8414, section 2), so ids of different issuers are different.
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "oauth")]
//! # fn main() -> Result<(), haft_http::server::authorization::InvalidUrl> {
//! use haft_http::server::{AccessConfig, authorization::ProtectedResource};
//!
//! let resource = ProtectedResource::new("https://tools.example.org/mcp")?
//!     .with_issuer("https://auth.example.org")?
//!     .with_required_scopes(["tools"]);
//! let config = AccessConfig::default().with_protected_resource(resource);
//! assert!(config.requires_authentication());
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "oauth"))]
//! # fn main() {}
//! ```

mod challenge;
#[cfg(feature = "oauth")]
mod jwt;

use std::{borrow::Cow, fmt, sync::Arc};

use async_trait::async_trait;
use haft_core::tool::Principal;
use http::Uri;
use serde_json::{Value, json};

pub(super) use self::challenge::bearer_challenge;
use self::challenge::insufficient_scope;
#[cfg(feature = "oauth")]
pub use self::jwt::JwtVerifier;
pub use super::RejectedRequest;
use super::Rejection;

/// The path of the metadata of a resource (RFC 9728, section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The maximum length of an access token, in bytes. A JWT with many claims has a few KiB.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// A verifier of access tokens, for example by introspection (RFC 7662) or by a database.
///
/// `JwtVerifier` (feature `oauth`) verifies tokens that are JWTs.
///
/// # Examples
///
/// ```
/// use async_trait::async_trait;
/// use haft_core::tool::Principal;
/// use haft_http::server::authorization::{ProtectedResource, TokenError, TokenVerifier};
///
/// struct Database;
///
/// #[async_trait]
/// impl TokenVerifier for Database {
///     async fn verify(&self, token: &str) -> Result<Principal, TokenError> {
///         match token {
///             "token-of-ann" => Ok(Principal { id: "ann".to_owned(), scopes: ["tools".to_owned()].into() }),
///             _ => Err(TokenError::invalid("the token is unknown")),
///         }
///     }
/// }
///
/// # fn main() -> Result<(), haft_http::server::authorization::InvalidUrl> {
/// let resource = ProtectedResource::new("https://tools.example.org/mcp")?
///     .with_verifier("https://auth.example.org", Database)?;
/// # drop(resource);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait TokenVerifier: Send + Sync + 'static {
    /// Returns the principal of `token`, with the scopes of the token.
    ///
    /// An implementation must check that the token was issued for this resource (MCP
    /// specification, *Access Token Usage*, "Token Handling"): otherwise another service that
    /// receives a token of the same issuer can use it here. It must not log the token.
    ///
    /// # Errors
    ///
    /// [`TokenError::Invalid`] if the token is not valid, and [`TokenError::Unavailable`] if it
    /// cannot be verified at present.
    async fn verify(&self, token: &str) -> Result<Principal, TokenError>;
}

/// The error of a [`TokenVerifier`]. The text must not contain parts of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The token is malformed, expired, revoked, or not for this resource. The client gets the
    /// text in `error_description` with status 401.
    #[error("{0}")]
    Invalid(Cow<'static, str>),
    /// The token cannot be verified at present. The client gets status 503, and the text is logged.
    #[error("{0}")]
    Unavailable(Cow<'static, str>),
}

impl TokenError {
    /// Creates an error for a token that is not valid.
    pub fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Invalid(reason.into())
    }

    /// Creates an error for a token that cannot be verified at present.
    pub fn unavailable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable(reason.into())
    }
}

/// The error for a URL that cannot identify a resource or an issuer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the URL {url:?} {reason}: write one such as https://tools.example.org/mcp")]
#[non_exhaustive]
pub struct InvalidUrl {
    /// The URL.
    pub url: String,
    /// The fault.
    pub reason: &'static str,
}

/// An OAuth 2.0 protected resource: the identifier of a server, its issuers, and its scopes. See
/// the [module](self).
#[derive(Clone)]
pub struct ProtectedResource {
    url: String,
    host: String,
    /// The URL of the metadata, and its path.
    metadata_url: String,
    metadata_path: String,
    issuers: Vec<String>,
    scopes: Vec<String>,
    verifiers: Vec<Arc<dyn TokenVerifier>>,
}

impl ProtectedResource {
    /// Creates a resource with the identifier `url`, the public URL of the server. Clients
    /// request tokens for this URL (RFC 8707), so it must be the URL that they connect to.
    ///
    /// Without a verifier, every token is rejected.
    ///
    /// # Errors
    ///
    /// Fails if `url` is no absolute `http` or `https` URL, or if it has a user name, a query or a
    /// fragment.
    pub fn new(url: impl Into<String>) -> Result<Self, InvalidUrl> {
        let url = url.into();
        let parsed = parse_identifier(&url)?;
        let authority = parsed.authority().map(ToString::to_string).unwrap_or_default();
        let host = parsed.host().unwrap_or_default().to_owned();
        let path = parsed.path().trim_end_matches('/');
        let metadata_path = format!("{WELL_KNOWN}{path}");
        let metadata_url = format!("{}://{authority}{metadata_path}", parsed.scheme_str().unwrap_or("https"));
        let (issuers, scopes, verifiers) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { url, host, metadata_url, metadata_path, issuers, scopes, verifiers })
    }

    /// Accepts the JWT access tokens of the authorization server `issuer` whose audience is this
    /// resource; see [`JwtVerifier`].
    ///
    /// # Errors
    ///
    /// Fails if `issuer` is no absolute `http` or `https` URL, or if it has a user name, a query or
    /// a fragment.
    #[cfg(feature = "oauth")]
    pub fn with_issuer(self, issuer: impl Into<String>) -> Result<Self, InvalidUrl> {
        let issuer = issuer.into();
        let verifier = JwtVerifier::new(issuer.clone(), self.url.clone())?;
        self.with_verifier(issuer, verifier)
    }

    /// Accepts the access tokens of the authorization server `issuer` that `verifier` accepts.
    /// `verifier` must check the audience of the token.
    ///
    /// # Errors
    ///
    /// Fails if `issuer` is no absolute `http` or `https` URL, or if it has a user name, a query or
    /// a fragment.
    pub fn with_verifier(
        mut self,
        issuer: impl Into<String>,
        verifier: impl TokenVerifier,
    ) -> Result<Self, InvalidUrl> {
        let issuer = issuer.into();
        parse_identifier(&issuer)?;
        self.issuers.push(issuer);
        self.verifiers.push(Arc::new(verifier));
        Ok(self)
    }

    /// Adds `scopes` to the scopes that the token of every request must have.
    #[must_use]
    pub fn with_required_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Checks that `principal` has `scopes`, for example those of a tool. The scopes of the
    /// resource are checked with the token: the principal of a fixed token needs none.
    ///
    /// # Errors
    ///
    /// Fails with [`Rejection::InsufficientScope`]. Its challenge names `scopes` and those of the
    /// resource, so that the client can request a token with all of them.
    pub fn check_scopes(&self, principal: &Principal, scopes: &[String]) -> Result<(), Rejection> {
        if scopes.iter().all(|scope| principal.scopes.contains(scope)) {
            return Ok(());
        }
        let own = self.scopes.iter().filter(|scope| !scopes.contains(scope));
        let all = own.chain(scopes).map(String::as_str);
        Err(Rejection::InsufficientScope(insufficient_scope(self, all)))
    }

    /// The scopes that every request must have.
    pub(super) fn scopes(&self) -> &[String] {
        &self.scopes
    }

    pub(super) fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    /// Returns `true` if `path` is a path of the metadata, for a router.
    pub fn is_metadata_path(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        path == WELL_KNOWN || path == self.metadata_path
    }

    /// Returns the metadata (RFC 9728, section 2).
    pub(super) fn metadata(&self) -> Value {
        let mut metadata = json!({
            "resource": self.url,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
        });
        if !self.scopes.is_empty() {
            metadata["scopes_supported"] = json!(self.scopes);
        }
        metadata
    }

    /// Returns the principal of `token`, from the first verifier that accepts it.
    pub(super) async fn verify(&self, token: &str) -> Result<Principal, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::invalid("the token is too long"));
        }
        let mut failure = None;
        for verifier in &self.verifiers {
            match verifier.verify(token).await {
                Ok(principal) => return Ok(principal),
                Err(error @ TokenError::Unavailable(_)) => failure = Some(error),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| TokenError::invalid("no issuer is accepted")))
    }
}

impl fmt::Debug for ProtectedResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtectedResource")
            .field("url", &self.url)
            .field("issuers", &self.issuers)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Parses the identifier of a resource (RFC 8707, section 2) or of an issuer (RFC 8414, section 2).
fn parse_identifier(url: &str) -> Result<Uri, InvalidUrl> {
    let invalid = |reason| InvalidUrl { url: url.to_owned(), reason };
    if url.contains('#') {
        return Err(invalid("has a fragment"));
    }
    // A quotation mark cannot be in `WWW-Authenticate`, and no URL contains these characters.
    if url.contains(['"', '\\']) {
        return Err(invalid("is no URL"));
    }
    let parsed: Uri = url.parse().map_err(|_| invalid("is no URL"))?;
    if !matches!(parsed.scheme_str(), Some("http" | "https")) {
        return Err(invalid("does not begin with http:// or https://"));
    }
    match parsed.authority() {
        Some(authority) if authority.as_str().contains('@') => Err(invalid("has a user name")),
        _ if parsed.query().is_some() => Err(invalid("has a query")),
        _ => Ok(parsed),
    }
}

#[cfg(test)]
mod tests;
