use std::sync::Arc;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::Instant,
};

use super::{super::TokenError, KeyCache, MAX_AGE, MAX_KEYS, REFRESH_PAUSE, parse_keys};

fn key_set(id: &str) -> String {
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": "AAAA"}]}).to_string()
}

/// Starts an issuer with the key `id`, and returns its URL.
async fn issuer(id: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let metadata = json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}).to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let is_keys = request[..length].starts_with(b"GET /keys ");
            let body = if is_keys { key_set(id) } else { metadata.clone() };
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    });
    issuer
}

/// A new key of the issuer is fetched after the pause, and replaces the earlier one.
#[tokio::test]
async fn rotated_key_is_fetched_after_the_pause() {
    let cache = Arc::new(KeyCache::new(issuer("2").await));
    cache.fill(key_set("1").as_bytes());
    assert!(cache.find(Some("1")).await.is_ok());
    assert!(matches!(cache.find(Some("2")).await, Err(TokenError::Invalid(_))));
    cache.lock().fetched = Instant::now().checked_sub(REFRESH_PAUSE);
    assert!(cache.find(Some("2")).await.is_ok());
    assert!(matches!(cache.find(Some("1")).await, Err(TokenError::Invalid(_))));
}

/// If the issuer does not respond, the known keys are used until they are too old.
#[tokio::test]
async fn known_keys_are_used_while_the_issuer_is_away() {
    // Nothing listens at port 1.
    let cache = Arc::new(KeyCache::new("http://127.0.0.1:1".to_owned()));
    cache.fill(key_set("1").as_bytes());
    let set_age = |age| {
        let mut state = cache.lock();
        let since = Instant::now().checked_sub(age).unwrap();
        (state.keys.as_mut().unwrap().1, state.fetched) = (since, None);
    };
    set_age(MAX_AGE / 2);
    assert!(cache.find(Some("1")).await.is_ok());
    set_age(MAX_AGE);
    assert!(matches!(cache.find(Some("1")).await, Err(TokenError::Unavailable(_))));
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
