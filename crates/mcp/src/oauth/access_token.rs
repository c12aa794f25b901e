use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rmcp::transport::auth::{OAuthTokenResponse, StoredCredentials};
use serde_json::{Map, Value, json};

use super::endpoint_response::normalize_token;

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

impl AccessToken {
    /// Creates the token in `response`, the members of a token response, for the URL `server`.
    /// `requested` are the scopes of the request, which are granted if the response has none.
    ///
    /// # Errors
    ///
    /// Fails if the token is no bearer token.
    pub(super) fn new(
        mut response: Map<String, Value>,
        server: &str,
        issuer: Option<String>,
        requested: &[String],
    ) -> Result<Self, String> {
        normalize_token(&mut response);
        let text = |name: &str| response.get(name).and_then(Value::as_str);
        let value = text("access_token").filter(|value| !value.is_empty());
        let Some(value) = value.filter(|_| text("token_type") == Some("bearer")) else {
            return Err("the response of the token endpoint has no bearer token".to_owned());
        };
        let granted = text("scope").map(|scope| scope.split_whitespace().map(str::to_owned).collect());
        Ok(Self {
            server: server.to_owned(),
            issuer,
            value: value.to_owned(),
            scopes: granted.unwrap_or_else(|| requested.to_vec()),
            received_at: now(),
            expires_in: response.get("expires_in").and_then(Value::as_u64),
        })
    }

    /// Returns the token in `stored`, for the URL `server`.
    pub(super) fn from_stored(stored: &StoredCredentials, server: &str) -> Option<Self> {
        let response = serde_json::to_value(stored.token_response.as_ref()?).ok()?;
        let Value::Object(response) = response else { return None };
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
    use serde_json::json;

    use super::{AccessToken, now};

    fn token(expires_in: Option<u64>) -> AccessToken {
        let response = json!({"access_token": "a", "token_type": "Bearer", "expires_in": expires_in});
        let response = response.as_object().unwrap().clone();
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
