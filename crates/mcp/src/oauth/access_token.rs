use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::transport::auth::{OAuthTokenResponse, StoredCredentials};
use serde::Deserialize;
use serde_json::json;

/// The time before its expiry at which a token is renewed, at most half of its lifetime. rmcp uses
/// the same time.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);

/// The access token of a client that acts for itself.
#[derive(Clone)]
pub(super) struct AccessToken {
    /// The URL of the server that the token is for.
    pub(super) server: String,
    pub(super) issuer: Option<String>,
    pub(super) value: String,
    pub(super) scopes: Vec<String>,
    /// Seconds since 1970.
    received_at: u64,
    /// The lifetime in seconds.
    expires_in: Option<u64>,
}

/// A successful response of a token endpoint (RFC 6749, section 5.1).
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
    scope: Option<String>,
}

impl AccessToken {
    /// Creates the token in `response` for the URL `server`. `requested` are the scopes of the
    /// request, which are granted if the response has none.
    ///
    /// # Errors
    ///
    /// Fails if the token is no bearer token.
    pub(super) fn new(
        response: TokenResponse,
        server: &str,
        issuer: Option<String>,
        requested: &[String],
    ) -> Result<Self, String> {
        if !response.token_type.eq_ignore_ascii_case("bearer") || response.access_token.is_empty() {
            return Err("the response of the token endpoint has no bearer token".to_owned());
        }
        let granted = response.scope.map(|scope| scope.split_whitespace().map(str::to_owned).collect());
        Ok(Self {
            server: server.to_owned(),
            issuer,
            value: response.access_token,
            scopes: granted.unwrap_or_else(|| requested.to_vec()),
            received_at: now(),
            expires_in: response.expires_in,
        })
    }

    /// Returns the token in `stored`, for the URL `server`.
    pub(super) fn from_stored(stored: &StoredCredentials, server: &str) -> Option<Self> {
        let response = serde_json::to_value(stored.token_response.as_ref()?).ok()?;
        let response: TokenResponse = serde_json::from_value(response).ok()?;
        let received_at = stored.token_received_at.unwrap_or_default();
        let token = Self::new(response, server, stored.issuer.clone(), &stored.granted_scopes).ok()?;
        Some(Self { received_at, ..token })
    }

    /// Returns the form in which rmcp stores tokens, for the client `client_id`. `scopes` are those
    /// of the next request.
    pub(super) fn to_stored(&self, client_id: &str, scopes: Vec<String>) -> StoredCredentials {
        let mut response = json!({"access_token": self.value, "token_type": "bearer"});
        if let Some(seconds) = self.expires_in {
            response["expires_in"] = seconds.into();
        }
        let response = serde_json::from_value::<OAuthTokenResponse>(response).ok();
        StoredCredentials::new(client_id.to_owned(), response, scopes, Some(self.received_at))
            .with_issuer(self.issuer.clone())
    }

    /// Returns `true` if the token is not about to expire.
    pub(super) fn is_usable(&self) -> bool {
        let Some(lifetime) = self.expires_in else { return true };
        let age = now().saturating_sub(self.received_at);
        let margin = RENEWAL_MARGIN.as_secs().min(lifetime / 2).max(1);
        lifetime.saturating_sub(age) >= margin
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::{AccessToken, TokenResponse, now};

    fn token(expires_in: Option<u64>) -> AccessToken {
        let (access_token, token_type) = ("a".to_owned(), "Bearer".to_owned());
        let response = TokenResponse { access_token, token_type, expires_in, scope: None };
        AccessToken::new(response, "http://localhost/mcp", None, &["tools".to_owned()]).unwrap()
    }

    #[test]
    fn token_is_renewed_before_it_expires() {
        for (lifetime, age, is_usable) in [
            (None, 1_000_000, true),
            (Some(3600), 3500, true),
            (Some(3600), 3580, false),
            (Some(10), 4, true),
            (Some(10), 7, false),
            (Some(0), 0, false),
        ] {
            let token = AccessToken { received_at: now() - age, ..token(lifetime) };
            assert_eq!(token.is_usable(), is_usable, "{lifetime:?} {age}");
        }
    }

    #[test]
    fn stored_token_is_read_again() {
        let stored = token(Some(60)).to_stored("client-1", vec!["tools".to_owned()]);
        let read = AccessToken::from_stored(&stored, "http://localhost/mcp").unwrap();
        assert_eq!((read.value.as_str(), read.expires_in), ("a", Some(60)));
        assert_eq!(read.scopes, ["tools"]);
    }
}
