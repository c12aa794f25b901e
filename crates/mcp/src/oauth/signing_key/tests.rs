use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};
use serde_json::Value;

use super::SigningKey;

/// Keys that OpenSSL 3.0 wrote.
const P256: &str = include_str!("tests/p256.pem");
const OTHERS: [(&str, &str); 3] = [
    ("ES384", include_str!("tests/p384.pem")),
    ("EdDSA", include_str!("tests/ed25519.pem")),
    ("RS256", include_str!("tests/rsa2048.pem")),
];

#[test]
fn assertion_identifies_the_client() {
    let key = SigningKey::from_pem(P256).unwrap();
    let assertion = key.assertion("client-1", "https://auth.example.org").unwrap();
    let (message, signature) = assertion.rsplit_once('.').unwrap();
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let (header, claims) = message.split_once('.').unwrap();
    let [header, claims] =
        [header, claims].map(|part| serde_json::from_slice::<Value>(&decode(part)).unwrap());
    assert_eq!(header["alg"], "ES256");
    assert_eq!((&claims["iss"], &claims["sub"]), (&"client-1".into(), &"client-1".into()));
    assert_eq!(claims["aud"], "https://auth.example.org");
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 60);
    let SigningKey::Es256(pair) = &key else { panic!("a key of P-256") };
    let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key());
    public.verify(message.as_bytes(), &decode(signature)).unwrap();
    let other = key.assertion("client-1", "https://auth.example.org").unwrap();
    assert_ne!(assertion.split('.').nth(1), other.split('.').nth(1), "each assertion has its own id");
}

#[test]
fn algorithm_depends_on_the_key() {
    for (algorithm, pem) in OTHERS {
        let key = SigningKey::from_pem(pem).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        assert!(key.assertion("client-1", "https://auth.example.org").is_some(), "{algorithm}");
    }
}

#[test]
fn other_keys_are_rejected() {
    for pem in ["", "secret", include_str!("tests/rsa1024.pem"), &P256.replace("PRIVATE", "PUBLIC")] {
        assert!(SigningKey::from_pem(pem).is_none());
    }
}
