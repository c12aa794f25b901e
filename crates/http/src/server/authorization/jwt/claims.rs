use haft_core::tool::Principal;
use serde::Deserialize;

use super::TokenError;

/// The permitted difference between the clocks of the issuer and of this server, in seconds.
const LEEWAY_SECONDS: f64 = 60.0;

/// The claims of an access token (RFC 9068, section 2.2).
#[derive(Deserialize)]
pub(super) struct Claims {
    iss: String,
    aud: OneOrMany,
    /// Seconds since 1970, as `nbf`.
    exp: f64,
    nbf: Option<f64>,
    sub: String,
    /// The scopes, separated by spaces.
    scope: Option<OneOrMany>,
    /// The scopes in tokens of Okta (a list) and of Microsoft Entra (separated by spaces).
    scp: Option<OneOrMany>,
}

/// A string, or a list of strings.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
        }
    }
}

impl Claims {
    /// Checks that the token was issued by `issuer` for `audience`.
    pub(super) fn check_parties(&self, issuer: &str, audience: &str) -> Result<(), TokenError> {
        if self.iss != issuer {
            return Err(TokenError::invalid("the token is from another issuer"));
        }
        let normalize = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
        let audience = normalize(audience);
        if !self.aud.as_slice().iter().any(|aud| normalize(aud) == audience) {
            return Err(TokenError::invalid("the token is for another resource"));
        }
        Ok(())
    }

    /// Checks that the token is valid at `now`, in seconds since 1970.
    pub(super) fn check_time(&self, now: f64) -> Result<(), TokenError> {
        if self.exp + LEEWAY_SECONDS <= now {
            return Err(TokenError::invalid("the token has expired"));
        }
        if self.nbf.is_some_and(|nbf| nbf - LEEWAY_SECONDS > now) {
            return Err(TokenError::invalid("the token is not valid yet"));
        }
        Ok(())
    }

    pub(super) fn into_principal(self, issuer: &str) -> Result<Principal, TokenError> {
        if self.sub.is_empty() {
            return Err(TokenError::invalid("the subject of the token is empty"));
        }
        let claim = self.scope.as_ref().or(self.scp.as_ref());
        let scopes = claim.map(OneOrMany::as_slice).unwrap_or_default();
        let scopes = scopes.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned);
        Ok(Principal { id: format!("{issuer}#{}", self.sub), scopes: scopes.collect() })
    }
}
