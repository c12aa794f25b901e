use haft_core::{ModelError, json};

use super::{Complaint, excerpt};

fn error(status: u16, body: &str) -> ModelError {
    Complaint::of_body(body).into_error(status, None)
}

#[track_caller]
fn check(status: u16, body: &str, text: &str) {
    assert_eq!(error(status, body).to_string(), text);
}

#[test]
fn the_message_is_found_in_each_form() {
    let text = "the model's server refused the request (status 404): no such model";
    check(404, r#"{"error": {"message": "no such model", "type": "not_found", "code": null}}"#, text);
    check(404, r#"{"error": "no such model"}"#, text);
    check(404, r#"{"message": "no such model"}"#, text);
    check(404, r#"{"detail": "no such model"}"#, text);
    check(404, "no such model\n", text);
}

#[test]
fn what_has_no_message_is_shown_as_it_is() {
    check(
        404,
        r#"{"errors": [1]}"#,
        r#"the model's server refused the request (status 404): {"errors": [1]}"#,
    );
}

#[test]
fn statuses_that_may_pass() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        assert!(error(status, "no").is_transient(), "{status}");
    }
    for status in [301, 400, 401, 402, 403, 404, 405, 413, 422] {
        assert!(!error(status, "no").is_transient(), "{status}");
    }
}

/// The length of the conversation is no matter of the key or of the rate.
#[test]
fn the_status_comes_before_the_words() {
    let body = "the context window is full";
    assert!(matches!(error(400, body), ModelError::ContextTooLong(_)));
    assert!(matches!(error(500, body), ModelError::ContextTooLong(_)));
    assert!(matches!(error(401, body), ModelError::Unauthorized(_)));
    assert!(matches!(error(429, body), ModelError::RateLimited { .. }));
}

#[test]
fn an_error_in_a_reply_may_have_a_status() {
    let limited = Complaint::in_band(&json!({"message": "slow down", "code": 429}));
    assert!(matches!(limited, ModelError::RateLimited { .. }));
    let limited = Complaint::in_band(&json!({"message": "slow down", "code": "429"}));
    assert!(matches!(limited, ModelError::RateLimited { .. }));
    let failed = Complaint::in_band(&json!({"message": "boom", "code": 1}));
    assert!(matches!(failed, ModelError::Server { status: None, .. }));
    assert_eq!(Complaint::in_band(&json!(["boom"])).to_string(), r#"the model's server failed: ["boom"]"#);
}

#[test]
fn an_excerpt_ends_between_characters() {
    let cut = excerpt(&"ü".repeat(1000));
    assert_eq!(cut.len(), 1003);
    assert_eq!(excerpt(&format!("x{}", "ü".repeat(1000))).len(), 1002);
    assert_eq!(excerpt(" x \n"), "x");
}
