use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
        RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::json;

/// The lifetime of an assertion. A token endpoint reads it at once.
const LIFETIME: Duration = Duration::from_secs(60);
/// The minimum length of an RSA key, in bytes (RFC 7518, section 3.3).
const MIN_RSA_BYTES: usize = 2048 / 8;

/// A private key that signs the assertions of a client.
pub(super) enum SigningKey {
    Es256(EcdsaKeyPair),
    Es384(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

impl SigningKey {
    /// Reads a key in the form PKCS#8 and PEM. Returns `None` if it is invalid or not supported.
    pub(super) fn from_pem(pem: &str) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
        let (der, random) = (der.secret_pkcs8_der(), SystemRandom::new());
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            return Some(Self::Es256(key));
        }
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &random) {
            return Some(Self::Es384(key));
        }
        if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Some(Self::EdDsa(key));
        }
        let key = RsaKeyPair::from_pkcs8(der).ok()?;
        (key.public().modulus_len() >= MIN_RSA_BYTES).then_some(Self::Rs256(key))
    }

    /// Returns the name of the algorithm (RFC 7518, section 3.1).
    pub(super) fn algorithm(&self) -> &'static str {
        match self {
            Self::Es256(_) => "ES256",
            Self::Es384(_) => "ES384",
            Self::EdDsa(_) => "EdDSA",
            Self::Rs256(_) => "RS256",
        }
    }

    /// Returns a signed assertion of the identity of `client_id` for the authorization server
    /// `issuer` (RFC 7523, section 3). Returns `None` if the system has no source of randomness.
    pub(super) fn assertion(&self, client_id: &str, issuer: &str) -> Option<String> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let header = json!({"alg": self.algorithm(), "typ": "JWT"});
        let claims = json!({
            "iss": client_id, "sub": client_id, "aud": issuer,
            "iat": now, "exp": now + LIFETIME.as_secs(), "jti": URL_SAFE_NO_PAD.encode(id),
        });
        let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = self.sign(message.as_bytes())?;
        Some(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(key) | Self::Es384(key) => Some(key.sign(&random, message).ok()?.as_ref().to_vec()),
            Self::EdDsa(key) => Some(key.sign(message).as_ref().to_vec()),
            Self::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests;
