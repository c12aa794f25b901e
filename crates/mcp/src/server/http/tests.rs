use bytes::Bytes;
use http::{HeaderMap, Request};
use serde_json::{Value, json};

use super::{accept::Accepted, check_body, check_singular_headers};

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

/// The default port of the scheme may be omitted in `Host` and in the target of a request.
#[test]
fn host_and_target_are_compared_without_the_default_port() {
    for (target, host, is_equal) in [
        ("http://h/mcp", "h", true),
        ("http://h:80/mcp", "h", true),
        ("http://h/mcp", "H:80", true),
        ("http://h:80/mcp", "h:", true),
        ("https://h:443/mcp", "h", true),
        ("http://[::1]:80/mcp", "[::1]", true),
        ("/mcp", "h", true),
        ("http://h:443/mcp", "h", false),
        ("https://h:80/mcp", "h", false),
        ("http://h:8080/mcp", "h:80", false),
        ("http://h:80/mcp", "g", false),
    ] {
        let request = Request::builder().uri(target).header("Host", host).body(()).unwrap();
        assert_eq!(check_singular_headers(&request).is_ok(), is_equal, "{target}, {host}");
    }
}
