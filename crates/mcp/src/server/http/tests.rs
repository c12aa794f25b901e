use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use super::{accept::Accepted, check_body};

/// rmcp receives an error for a response with a number that cannot be held exactly, so that the
/// request of the server fails.
#[test]
fn inexact_response_of_a_client_is_an_error() {
    let body = |number: &str| {
        let result = format!(r#"{{"action":"accept","content":{{"x":{number}}}}}"#);
        Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":5,"result":{result}}}"#))
    };
    let checked = |body| check_body(body, Accepted::of(&HeaderMap::new())).unwrap().1;
    assert_eq!(checked(body("7")), body("7"));
    let error: Value = serde_json::from_slice(&checked(body("123456789012345678901"))).unwrap();
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(5), &json!(-32700)));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.contains("123456789012345678901"), "{message}");
}
