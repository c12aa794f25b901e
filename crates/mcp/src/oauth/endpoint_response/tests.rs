use reqwest::StatusCode;
use serde_json::{Map, Value, json};

use super::{registration_response, token_response};

fn read(body: &Value) -> Result<Map<String, Value>, String> {
    token_response(StatusCode::OK, body.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn lifetime_is_read_in_all_forms() {
    for (value, expected) in [
        (json!(3600), Some(3600)),
        (json!(3599.9), Some(3599)),
        (json!("3600"), Some(3600)),
        (json!(" 3600.5 "), Some(3600)),
        (json!("3.6e3"), Some(3600)),
        (json!(0), Some(0)),
        (json!(null), None),
        (json!(""), None),
        (json!(-1), None),
        (json!("-1"), None),
        (json!("never"), None),
        (json!("NaN"), None),
        (json!("inf"), None),
        (json!(1e300), None),
        (json!(true), None),
        (json!([3600]), None),
        (json!({"seconds": 3600}), None),
    ] {
        let members =
            read(&json!({"access_token": "a", "token_type": "bearer", "expires_in": value})).unwrap();
        assert_eq!(members.get("expires_in").and_then(Value::as_u64), expected, "{value}");
        assert_eq!(members.contains_key("expires_in"), expected.is_some(), "{value}");
    }
}

#[test]
fn scope_is_a_text_or_a_list() {
    for (value, expected) in [
        (json!("read write"), Some("read write")),
        (json!(["read", "write"]), Some("read write")),
        (json!(["read write", "", 7]), Some("read write")),
        (json!([]), None),
        (json!(""), None),
        (json!(null), None),
        (json!(7), None),
    ] {
        let members = read(&json!({"access_token": "a", "scope": value})).unwrap();
        assert_eq!(members.get("scope").and_then(Value::as_str), expected, "{value}");
    }
}

#[test]
fn bearer_is_the_default_type() {
    for (value, expected) in [
        (json!("Bearer"), "bearer"),
        (json!("BEARER"), "bearer"),
        (json!(" bearer "), "bearer"),
        (json!(null), "bearer"),
        (json!(""), "bearer"),
        (json!("DPoP"), "DPoP"),
    ] {
        let members = read(&json!({"access_token": "a", "token_type": value})).unwrap();
        assert_eq!(members["token_type"], expected, "{value}");
    }
    let members = read(&json!({"access_token": "a", "refresh_token": null})).unwrap();
    assert_eq!(Value::from(members), json!({"access_token": "a", "token_type": "bearer"}));
}

/// The error names the member, and has no secret.
#[test]
fn fault_of_a_token_response_names_the_member() {
    for (status, body, expected) in [
        (
            200,
            json!({"refresh_token": "s3cret"}),
            "the member \"access_token\" of the token response is missing",
        ),
        (
            200,
            json!({"access_token": ["s3cret"]}),
            "the member \"access_token\" of the token response is no text",
        ),
        (200, json!({"access_token": ""}), "the member \"access_token\" of the token response is empty"),
        (
            200,
            json!({"access_token": "s3cret", "token_type": 1}),
            "the member \"token_type\" of the token response is no text",
        ),
        (200, json!(["s3cret"]), "the token response is no JSON object"),
        (200, json!("s3cret"), "the token response is no JSON object"),
        (
            200,
            json!({"error": "invalid_grant", "error_description": "co\u{1b}de\u{202e} used"}),
            "invalid_grant: code used",
        ),
        (200, json!({"error": "denied", "access_token": null}), "denied"),
        (400, json!({"error": "invalid_grant", "error_description": null}), "invalid_grant"),
        (400, json!({"error": {"code": "expired", "message": "too late"}}), "expired: too late"),
        (400, json!({"access_token": "s3cret"}), "the token endpoint returned HTTP 400 Bad Request"),
        (502, json!("s3cret"), "the token endpoint returned HTTP 502 Bad Gateway"),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let error = token_response(status, body.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{body}");
        assert!(!error.to_json().to_string().contains("s3cret"), "{body}");
    }
    let members = read(&json!({"access_token": "a", "error": ""})).unwrap();
    assert_eq!(members["access_token"], "a");
}

#[test]
fn registration_is_read_in_all_forms() {
    for body in [
        json!({"client_id": "7", "client_secret": "s", "client_secret_expires_at": "0", "client_id_issued_at": "1"}),
        json!({"client_id": 7, "client_secret": "s", "client_secret_expires_at": null, "redirect_uris": null}),
        json!({"client_id": "7", "client_secret": "s", "client_name": null, "redirect_uris": "http://127.0.0.1"}),
        json!({"client_id": "7", "client_secret": "s", "client_secret_expires_at": 1.5, "error": null}),
    ] {
        let members = registration_response(StatusCode::CREATED, body.to_string().as_bytes()).unwrap();
        let expected = json!({"client_id": "7", "client_secret": "s", "redirect_uris": []});
        assert_eq!(Value::from(members), expected, "{body}");
    }
    for (body, expected) in [
        (
            json!({"client_secret": "s3cret"}),
            "the member \"client_id\" of the registration response is missing",
        ),
        (
            json!({"client_id": "7", "client_secret": 73}),
            "the member \"client_secret\" of the registration response is no text",
        ),
        (json!({"error": "invalid_redirect_uri"}), "invalid_redirect_uri"),
    ] {
        let error = registration_response(StatusCode::OK, body.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
