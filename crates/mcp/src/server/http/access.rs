use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

use ::http::{HeaderMap, HeaderValue, header};
use haft_core::tool::Principal;
use lru::LruCache;
use subtle::ConstantTimeEq as _;

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
}

/// The header with the id of a session.
const SESSION_HEADER: &str = "mcp-session-id";
/// The maximum number of sessions whose principal is known. The session of a request must be one of
/// them.
const MAX_SESSIONS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// The authentication of requests.
pub(super) struct Access {
    tokens: BearerTokens,
    /// The ids of the principals that opened the sessions.
    owners: Mutex<LruCache<String, String>>,
}

impl Access {
    pub(super) fn new(tokens: BearerTokens) -> Self {
        Self { tokens, owners: Mutex::new(LruCache::new(MAX_SESSIONS)) }
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
    ///
    /// # Errors
    ///
    /// Returns the value of `WWW-Authenticate` if the request has no permitted token.
    pub(super) fn authenticate(&self, headers: &HeaderMap) -> Result<Option<&Principal>, HeaderValue> {
        if self.tokens.0.is_empty() {
            return Ok(None);
        }
        let Some(token) = bearer_token(headers) else {
            return Err(HeaderValue::from_static("Bearer"));
        };
        // All tokens are compared, so that the time does not depend on the position.
        let mut found = None;
        for (known, principal) in &self.tokens.0 {
            if bool::from(known.as_bytes().ct_eq(token.as_bytes())) {
                found = Some(principal);
            }
        }
        match found {
            Some(principal) => Ok(Some(principal)),
            None => Err(HeaderValue::from_static("Bearer error=\"invalid_token\"")),
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
mod tests {
    use ::http::{HeaderMap, HeaderValue, header};
    use haft_core::tool::Principal;

    use super::{Access, BearerTokens};

    #[test]
    fn session_belongs_to_its_principal() {
        let access = Access::new(BearerTokens::default());
        let principal = |id: &str| Principal { id: id.to_owned(), ..Principal::default() };
        let headers: HeaderMap = [("mcp-session-id", "1")]
            .map(|(name, id)| (name.parse().unwrap(), HeaderValue::from_static(id)))
            .into_iter()
            .collect();
        assert!(access.may_use_session(&HeaderMap::new(), &principal("ann")));
        assert!(!access.may_use_session(&headers, &principal("ann")));
        access.record_session(&headers, &principal("ann"));
        assert!(access.may_use_session(&headers, &principal("ann")));
        assert!(!access.may_use_session(&headers, &principal("ben")));
    }

    #[test]
    fn only_permitted_tokens_are_accepted() {
        let mut tokens = BearerTokens::default();
        for id in ["ann", "ben"] {
            tokens.add(format!("token-of-{id}"), Principal { id: id.to_owned(), ..Principal::default() });
        }
        let access = Access::new(tokens);
        let check = |value: Option<&'static str>| {
            let headers: HeaderMap = value
                .map(|value| (header::AUTHORIZATION, HeaderValue::from_static(value)))
                .into_iter()
                .collect();
            access.authenticate(&headers).map(|principal| principal.map(|principal| principal.id.clone()))
        };
        assert_eq!(check(Some("Bearer token-of-ben")), Ok(Some("ben".to_owned())));
        assert_eq!(check(Some("bearer  token-of-ann")), Ok(Some("ann".to_owned())));
        assert_eq!(check(None).unwrap_err(), "Bearer");
        for wrong in ["Bearer token-of-be", "Bearer token-of-bent"] {
            assert_eq!(check(Some(wrong)).unwrap_err(), "Bearer error=\"invalid_token\"", "{wrong}");
        }
        for other in ["Basic token-of-ben", "Bearer ", "token-of-ben"] {
            assert_eq!(check(Some(other)).unwrap_err(), "Bearer", "{other}");
        }
    }
}
