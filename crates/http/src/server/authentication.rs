use std::sync::Arc;

use haft_core::tool::Principal;
use http::{HeaderMap, header};
use subtle::ConstantTimeEq as _;

use super::{
    Rejection,
    authorization::{ProtectedResource, TokenError, bearer_challenge},
};

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

/// The authentication of requests.
pub(super) struct Authenticator {
    tokens: BearerTokens,
    resource: Option<ProtectedResource>,
}

impl Authenticator {
    pub(super) fn new(tokens: BearerTokens, resource: Option<ProtectedResource>) -> Self {
        Self { tokens, resource }
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
            Ok(principal) => {
                resource.check_scopes(&principal, resource.scopes())?;
                Ok(Some(principal))
            }
            Err(TokenError::Invalid(reason)) => Err(unauthorized(Some(&reason))),
            Err(TokenError::Unavailable(reason)) => {
                tracing::warn!(%reason, "cannot verify an access token");
                Err(Rejection::Unverifiable)
            }
        }
    }
}

/// Returns the token of the header `Authorization` (RFC 6750, section 2.1).
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
