use std::{
    fmt::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use expect_test::expect;
use haft_core::tool::Principal;
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::{
    super::{TokenError, TokenVerifier as _},
    JwtVerifier,
};

const ISSUER: &str = "https://auth.example.org";
const RESOURCE: &str = "https://mcp.example.org/mcp";

/// An issuer with one key of P-256.
struct Issuer {
    key: EcdsaKeyPair,
    verifier: JwtVerifier,
}

impl Issuer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        let verifier = JwtVerifier::new(ISSUER, RESOURCE).unwrap();
        let issuer = Self { key, verifier };
        issuer.publish(json!({}));
        issuer
    }

    /// Publishes the key, with `changes` of its members.
    fn publish(&self, changes: Value) {
        let (_, point) = self.key.public_key().as_ref().split_at(1);
        let (x, y) = point.split_at(32);
        let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
        let jwk = merge(json!({"kty": "EC", "crv": "P-256", "kid": "1", "x": x, "y": y}), changes);
        self.verifier.keys.fill(json!({"keys": [jwk]}).to_string().as_bytes());
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    async fn check(&self, token: &str) -> Result<Principal, TokenError> {
        self.verifier.verify(token).await
    }
}

fn message(header: &Value, claims: &Value) -> String {
    [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".")
}

/// Replaces the members of `value` by those of `changes`. `null` removes a member.
fn merge(mut value: Value, changes: Value) -> Value {
    for (key, change) in changes.as_object().unwrap() {
        match change {
            Value::Null => drop(value.as_object_mut().unwrap().shift_remove(key)),
            change => value[key] = change.clone(),
        }
    }
    value
}

fn header(changes: Value) -> Value {
    merge(json!({"alg": "ES256", "kid": "1", "typ": "at+jwt"}), changes)
}

fn claims(changes: Value) -> Value {
    let scope = "tools read";
    merge(json!({"iss": ISSUER, "sub": "ann", "aud": RESOURCE, "exp": now() + 60, "scope": scope}), changes)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Tokens that PyJWT signed are valid, with each algorithm. The token of one algorithm is not valid
/// with the key of another.
#[tokio::test]
async fn tokens_of_each_algorithm_are_verified() {
    let vectors: Value = serde_json::from_str(include_str!("tests/vectors.json")).unwrap();
    let verifier = JwtVerifier::new(ISSUER, RESOURCE).unwrap();
    verifier.keys.fill(json!({"keys": vectors["keys"]}).to_string().as_bytes());
    let ann = Principal {
        id: "https://auth.example.org#ann".to_owned(),
        scopes: ["read", "tools"].map(str::to_owned).into(),
    };
    for (algorithm, token) in vectors["tokens"].as_object().unwrap() {
        let token = token.as_str().unwrap();
        assert_eq!(verifier.verify(token).await, Ok(ann.clone()), "{algorithm}");
        // A changed byte of the signature.
        let (rest, last) = token.split_at(token.len() - 10);
        let changed = format!("{rest}{}", if last.starts_with('A') { "B" } else { "A" }) + &last[1..];
        assert!(verifier.verify(&changed).await.is_err(), "{algorithm}");
    }
}

#[tokio::test]
async fn claims_are_those_of_the_principal() {
    let issuer = Issuer::new();
    for (changes, scopes) in [
        (json!({}), vec!["read", "tools"]),
        (json!({"scope": null}), vec![]),
        (json!({"scope": null, "scp": ["read", "write"]}), vec!["read", "write"]),
        (json!({"aud": ["https://other.example", "https://mcp.example.org/mcp/"]}), vec!["read", "tools"]),
        (json!({"exp": now() - 30, "nbf": now() + 30}), vec!["read", "tools"]),
    ] {
        let principal = issuer.check(&issuer.sign(&header(json!({})), &claims(changes))).await.unwrap();
        assert_eq!(principal.id, "https://auth.example.org#ann");
        assert_eq!(principal.scopes.iter().collect::<Vec<_>>(), scopes);
    }
    for changes in [json!({"kid": null}), json!({"typ": "JWT"}), json!({"typ": null})] {
        assert!(issuer.check(&issuer.sign(&header(changes), &claims(json!({})))).await.is_ok());
    }
}

#[tokio::test]
async fn forged_and_foreign_tokens_are_rejected() {
    let issuer = Issuer::new();
    let signed = |header_changes, claim_changes| issuer.sign(&header(header_changes), &claims(claim_changes));
    let unsigned = |name: &str| format!("{}.", message(&header(json!({"alg": name})), &claims(json!({}))));
    let with_hmac = {
        let message = message(&header(json!({"alg": "HS256"})), &claims(json!({})));
        let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.key.public_key().as_ref());
        let tag = hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
    };
    let other_key = Issuer::new().sign(&header(json!({})), &claims(json!({})));
    let changed_claims = {
        let token = signed(json!({}), json!({}));
        let signature = token.rsplit_once('.').unwrap().1;
        format!("{}.{signature}", message(&header(json!({})), &claims(json!({"sub": "admin"}))))
    };
    let mut report = String::new();
    for (name, token) in [
        ("algorithm none", unsigned("none")),
        ("algorithm None", unsigned("None")),
        ("no signature", unsigned("ES256")),
        ("public key as a secret", with_hmac),
        ("key of another issuer", other_key),
        ("changed claims", changed_claims),
        ("algorithm of another key", signed(json!({"alg": "RS256"}), json!({}))),
        ("unknown key", signed(json!({"kid": "2"}), json!({}))),
        ("ID token", signed(json!({"typ": "id+jwt"}), json!({}))),
        ("critical extension", signed(json!({"crit": ["b64"], "b64": false}), json!({}))),
        ("another issuer", signed(json!({}), json!({"iss": "https://evil.example"}))),
        ("another resource", signed(json!({}), json!({"aud": "https://mcp.example.org/other"}))),
        ("resource as a prefix", signed(json!({}), json!({"aud": "https://mcp.example.org/mcp2"}))),
        ("no audience", signed(json!({}), json!({"aud": null}))),
        ("expired", signed(json!({}), json!({"exp": now() - 61}))),
        ("no expiry", signed(json!({}), json!({"exp": null}))),
        ("not valid yet", signed(json!({}), json!({"nbf": now() + 90}))),
        ("no subject", signed(json!({}), json!({"sub": null}))),
        ("empty subject", signed(json!({}), json!({"sub": ""}))),
        ("encrypted", "a.b.c.d.e".to_owned()),
        ("opaque", "abc".to_owned()),
        ("empty", "..".to_owned()),
    ] {
        let error = issuer.check(&token).await.unwrap_err();
        writeln!(report, "{name}: {error:?}").unwrap();
    }
    expect![[r#"
        algorithm none: Invalid("the algorithm of the token is not permitted")
        algorithm None: Invalid("the algorithm of the token is not permitted")
        no signature: Invalid("the signature of the token is wrong")
        public key as a secret: Invalid("the algorithm of the token is not permitted")
        key of another issuer: Invalid("the signature of the token is wrong")
        changed claims: Invalid("the signature of the token is wrong")
        algorithm of another key: Invalid("the signature of the token is wrong")
        unknown key: Invalid("the key of the token is unknown")
        ID token: Invalid("the token is no access token")
        critical extension: Invalid("the token has critical extensions")
        another issuer: Invalid("the token is from another issuer")
        another resource: Invalid("the token is for another resource")
        resource as a prefix: Invalid("the token is for another resource")
        no audience: Invalid("the claims of the token are missing or invalid")
        expired: Invalid("the token has expired")
        no expiry: Invalid("the claims of the token are missing or invalid")
        not valid yet: Invalid("the token is not valid yet")
        no subject: Invalid("the claims of the token are missing or invalid")
        empty subject: Invalid("the subject of the token is empty")
        encrypted: Invalid("the token is no signed JWT")
        opaque: Invalid("the token is no signed JWT")
        empty: Invalid("the token is no signed JWT")
    "#]]
    .assert_eq(&report);
}

/// A key verifies only the algorithm and the usage that its key set states.
#[tokio::test]
async fn key_is_used_as_its_key_set_states() {
    let issuer = Issuer::new();
    let token = issuer.sign(&header(json!({})), &claims(json!({})));
    for (changes, is_valid) in [
        (json!({"use": "sig", "alg": "ES256"}), true),
        (json!({"use": "enc"}), false),
        (json!({"alg": "ES384"}), false),
        (json!({"alg": "HS256"}), false),
        (json!({"kty": "oct", "k": "c2VjcmV0"}), false),
        (json!({"crv": "P-384"}), false),
    ] {
        issuer.publish(changes.clone());
        assert_eq!(issuer.check(&token).await.is_ok(), is_valid, "{changes}");
    }
}
