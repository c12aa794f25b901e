use std::sync::Arc;

use ::http::{HeaderMap, HeaderValue, header};
use haft_core::tool::Principal;
use subtle::ConstantTimeEq as _;

use super::authorization::{ProtectedResource, TokenError, bearer_challenge, insufficient_scope};

/// The permitted bearer tokens and their principals.
#[derive(Clone, Default)]
pub(super) struct BearerTokens(Vec<(Arc<str>, Principal)>);

impl BearerTokens {
    pub(super) fn add(&mut self, token: String, principal: Principal) {
        self.0.push((token.into(), principal));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn find(&self, token: &str) -> Option<&Principal> {
        // All tokens are compared, so that the time does not depend on the position.
        let mut found = None;
        for (known, principal) in &self.0 {
            if bool::from(known.as_bytes().ct_eq(token.as_bytes())) {
                found = Some(principal);
            }
        }
        found
    }
}

/// The reason for the rejection of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// Status 401, with the value of `WWW-Authenticate`.
    Unauthorized(HeaderValue),
    /// Status 403, with the value of `WWW-Authenticate`.
    Forbidden(HeaderValue),
    /// Status 503: the token cannot be verified at present.
    Unavailable,
}

/// The authentication of requests.
pub(super) struct Access {
    tokens: BearerTokens,
    resource: Option<ProtectedResource>,
}

impl Access {
    pub(super) fn new(tokens: BearerTokens, resource: Option<ProtectedResource>) -> Self {
        Self { tokens, resource }
    }

    pub(super) fn resource(&self) -> Option<&ProtectedResource> {
        self.resource.as_ref()
    }

    /// Returns the principal of a request with `headers`, or `None` if no authentication is
    /// required.
    pub(super) async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Principal>, Rejection> {
        let resource = self.resource.as_ref();
        if self.tokens.0.is_empty() && resource.is_none() {
            return Ok(None);
        }
        let unauthorized = |fault: Option<&str>| Rejection::Unauthorized(bearer_challenge(resource, fault));
        let token = bearer_token(headers).ok_or_else(|| unauthorized(None))?;
        if let Some(principal) = self.tokens.find(token) {
            return Ok(Some(principal.clone()));
        }
        let Some(resource) = resource else { return Err(unauthorized(Some("the token is unknown"))) };
        match resource.verify(token).await {
            Ok(principal) if has_scopes(&principal, resource.scopes()) => Ok(Some(principal)),
            Ok(_) => {
                let scopes = resource.scopes().iter().map(String::as_str);
                Err(Rejection::Forbidden(insufficient_scope(resource, scopes)))
            }
            Err(TokenError::Invalid(reason)) => Err(unauthorized(Some(&reason))),
            Err(TokenError::Unavailable(reason)) => {
                tracing::warn!(%reason, "cannot verify an access token");
                Err(Rejection::Unavailable)
            }
        }
    }

    /// Checks that `principal` has the `scopes` of a tool.
    ///
    /// # Errors
    ///
    /// Returns a challenge with all scopes of the call. Without a protected resource, a client
    /// cannot request scopes: the pipeline denies the call, and the model reads the missing scope.
    pub(super) fn check_scopes(&self, principal: &Principal, scopes: &[String]) -> Result<(), Rejection> {
        match &self.resource {
            Some(resource) if !has_scopes(principal, scopes) => {
                let own = resource.scopes().iter().filter(|scope| !scopes.contains(scope));
                let scopes = own.chain(scopes).map(String::as_str);
                Err(Rejection::Forbidden(insufficient_scope(resource, scopes)))
            }
            _ => Ok(()),
        }
    }
}

fn has_scopes(principal: &Principal, scopes: &[String]) -> bool {
    scopes.iter().all(|scope| principal.scopes.contains(scope))
}

/// Returns the token of the header `Authorization` (RFC 6750, section 2.1).
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
