mod claims;
mod keys;
mod signature;

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use haft_core::tool::Principal;
use serde::Deserialize;

use self::{claims::Claims, keys::KeyCache, signature::Algorithm};
use super::{InvalidUrl, TokenError, TokenVerifier, parse_identifier};

/// A verifier of JWT access tokens (RFC 9068) of one authorization server.
///
/// # Checks
///
/// - The signature, with a key of the issuer. The algorithms are RS256, RS384, RS512, PS256, PS384,
///   PS512, ES256, ES384 and EdDSA with Ed25519. RSA keys have 2,048 to 8,192 bits. `none` and the
///   symmetric algorithms are rejected.
/// - `iss` is the issuer, and `aud` contains the audience. A slash at the end of the audience is
///   ignored.
/// - `exp` is in the future, and `nbf`, if present, in the past, with a leeway of one minute.
/// - `sub` is present.
/// - The header `typ`, if present, is `at+jwt` or `JWT`. A header `crit` is rejected (RFC 7515,
///   section 4.1.11).
///
/// The scopes are those in `scope` (RFC 8693), or in `scp`, which some servers use.
///
/// # Keys
///
/// The first token causes the discovery of the issuer's metadata (RFC 8414, or OpenID Connect
/// Discovery 1.0), and of its keys (`jwks_uri`). The keys are fetched again if they are older than
/// ten minutes, or if a token names an unknown key, but at most every 30 seconds. If this fails,
/// the known keys are used for at most an hour. A fetch takes at most ten seconds, its responses
/// have at most 1 MiB, and a key set at most 100 keys. The metadata of a public issuer cannot
/// direct requests to loopback, private or link-local addresses, and that of an `https` issuer only
/// to `https` URLs.
///
/// # Examples
///
/// For an issuer whose tokens have another audience than the URL of the server:
///
/// ```
/// use haft_http::server::authorization::{JwtVerifier, ProtectedResource};
///
/// # fn main() -> Result<(), haft_http::server::authorization::InvalidUrl> {
/// let issuer = "https://auth.example.org";
/// let verifier = JwtVerifier::new(issuer, "api://tools")?;
/// let resource =
///     ProtectedResource::new("https://mcp.example.org/mcp")?.with_verifier(issuer, verifier)?;
/// # drop(resource);
/// # Ok(())
/// # }
/// ```
pub struct JwtVerifier {
    issuer: String,
    audience: String,
    keys: Arc<KeyCache>,
}

/// The parameters in the header of a JWT (RFC 7515, section 4.1).
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<serde::de::IgnoredAny>,
}

/// A token before the check of its signature.
struct UnverifiedToken<'a> {
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Claims,
    message: &'a str,
    signature: Vec<u8>,
}

impl JwtVerifier {
    /// Creates a verifier for the tokens of `issuer` with `audience` in the claim `aud`, usually
    /// the URL of the server.
    ///
    /// # Errors
    ///
    /// Fails if `issuer` is no absolute `http` or `https` URL, or if it has a user name, a query or
    /// a fragment.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, InvalidUrl> {
        let (issuer, audience) = (issuer.into(), audience.into());
        parse_identifier(&issuer)?;
        let keys = Arc::new(KeyCache::new(issuer.clone()));
        Ok(Self { issuer, audience, keys })
    }
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier")
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl TokenVerifier for JwtVerifier {
    async fn verify(&self, token: &str) -> Result<Principal, TokenError> {
        let token = UnverifiedToken::parse(token)?;
        // Checked before the signature: a token of another issuer causes no request.
        token.claims.check_parties(&self.issuer, &self.audience)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        token.claims.check_time(now.as_secs_f64())?;
        let keys = self.keys.find(token.key_id.as_deref()).await?;
        if !keys.verify(&token) {
            return Err(TokenError::invalid("the signature of the token is wrong"));
        }
        token.claims.into_principal(&self.issuer)
    }
}

impl<'a> UnverifiedToken<'a> {
    fn parse(token: &'a str) -> Result<Self, TokenError> {
        let malformed = || TokenError::invalid("the token is no signed JWT");
        let (message, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = message.split_once('.').ok_or_else(malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed());
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
        if header.crit.is_some() {
            return Err(TokenError::invalid("the token has critical extensions"));
        }
        if header.typ.as_deref().is_some_and(|typ| !is_access_token_type(typ)) {
            return Err(TokenError::invalid("the token is no access token"));
        }
        let algorithm = Algorithm::from_name(&header.alg)
            .ok_or_else(|| TokenError::invalid("the algorithm of the token is not permitted"))?;
        let claims = serde_json::from_slice(&decode(claims)?)
            .map_err(|_| TokenError::invalid("the claims of the token are missing or invalid"))?;
        let signature = decode(signature)?;
        Ok(Self { algorithm, key_id: header.kid, claims, message, signature })
    }
}

/// Returns `true` for the media type of an access token (RFC 9068, section 2.1), and for the
/// general type `JWT`, which several servers use. An ID token of type `JWT` has another audience.
fn is_access_token_type(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "at+jwt" | "jwt")
}

#[cfg(test)]
mod tests;
