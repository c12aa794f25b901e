use super::{MAX_KEYS, metadata_urls, parse_keys};

fn urls(issuer: &str) -> Vec<String> {
    metadata_urls(issuer).unwrap().iter().map(ToString::to_string).collect()
}

/// The paths of the specification, *Authorization Server Metadata Discovery*.
#[test]
fn metadata_is_requested_at_the_well_known_urls() {
    assert_eq!(
        urls("https://auth.example.org"),
        [
            "https://auth.example.org/.well-known/oauth-authorization-server",
            "https://auth.example.org/.well-known/openid-configuration",
        ]
    );
    assert_eq!(
        urls("https://auth.example.org/tenant1"),
        [
            "https://auth.example.org/.well-known/oauth-authorization-server/tenant1",
            "https://auth.example.org/.well-known/openid-configuration/tenant1",
            "https://auth.example.org/tenant1/.well-known/openid-configuration",
        ]
    );
}

#[test]
fn key_set_is_bounded_and_unknown_keys_are_skipped() {
    let set = |keys: &[&str]| parse_keys(format!("{{\"keys\": [{}]}}", keys.join(",")).as_bytes());
    let ed25519 = r#"{"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "x5c": ["x"]}"#;
    assert_eq!(set(&[ed25519, r#"{"kty": "AKP"}"#, "1", r#"{"kty": "RSA", "n": "!"}"#]).unwrap().len(), 1);
    assert_eq!(set(&vec![ed25519; MAX_KEYS]).unwrap().len(), MAX_KEYS);
    assert!(set(&vec![ed25519; MAX_KEYS + 1]).is_err_and(|error| error.contains("more than 100")));
    assert!(parse_keys(b"[]").is_err());
}
