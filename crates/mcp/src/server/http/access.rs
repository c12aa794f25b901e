use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use ::http::{HeaderMap, HeaderValue, header};
use haft_core::tool::Principal;
use lru::LruCache;
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

/// The header with the id of a session.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";
/// The maximum number of sessions whose principal is known. The session of a request must be one of
/// them.
const MAX_SESSIONS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

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
    /// The ids of the principals that opened the sessions.
    owners: Mutex<LruCache<String, String>>,
}

impl Access {
    pub(super) fn new(
        tokens: BearerTokens,
        resource: Option<ProtectedResource>,
        max_sessions: usize,
    ) -> Self {
        let owners = NonZeroUsize::new(max_sessions).unwrap_or(MAX_SESSIONS).max(MAX_SESSIONS);
        Self { tokens, resource, owners: Mutex::new(LruCache::new(owners)) }
    }

    pub(super) fn resource(&self) -> Option<&ProtectedResource> {
        self.resource.as_ref()
    }

    /// Returns `true` if a request with `headers` has no session, or one of `principal`.
    pub(super) fn may_use_session(&self, headers: &HeaderMap, principal: &Principal) -> bool {
        let Some(session) = headers.get(SESSION_HEADER) else { return true };
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        session
            .to_str()
            .ok()
            .and_then(|session| owners.get(session))
            .is_some_and(|owner| *owner == principal.id)
    }

    /// Records that `principal` uses the session in `headers`, the headers of a response.
    pub(super) fn record_session(&self, headers: &HeaderMap, principal: &Principal) {
        let session = headers.get(SESSION_HEADER).and_then(|session| session.to_str().ok());
        if let Some(session) = session {
            let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
            owners.put(session.to_owned(), principal.id.clone());
        }
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
