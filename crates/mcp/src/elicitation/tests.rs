use serde_json::{Value, json};

use super::{Elicitation, ElicitationKind, ElicitationResponse};

fn parse(params: Value) -> Result<Elicitation, String> {
    Elicitation::parse(&params)
}

#[test]
fn mode_is_optional_before_2025_11_25() {
    let form = json!({"message": "Name?", "requestedSchema": {"type": "object", "properties": {}}});
    let ElicitationKind::Form { schema } = parse(form).unwrap().kind else { panic!("a form") };
    assert_eq!(schema.as_value()["type"], "object");
}

#[test]
fn keywords_of_the_schema_are_kept() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 5}}});
    let question = parse(json!({"mode": "form", "message": "n?", "requestedSchema": schema})).unwrap();
    assert_eq!(
        question.encode(ElicitationResponse::accept(json!({"n": 10}))).unwrap(),
        json!({"action": "accept", "content": {"n": 10}})
    );
    let error = question.encode(ElicitationResponse::accept(json!({"n": 7}))).unwrap_err();
    assert!(error.contains("/n"), "{error}");
}

#[test]
fn invalid_elicitation_is_rejected() {
    let fault = |params: Value| parse(params).unwrap_err();
    assert!(fault(json!({"mode": "form", "message": "?"})).contains("`requestedSchema` is missing"));
    assert!(fault(json!({"mode": "url", "message": "?"})).contains("`url` is missing"));
    assert!(fault(json!({"mode": "voice", "message": "?"})).contains("\"voice\" is not supported"));
    assert!(fault(json!({"requestedSchema": {}})).contains("message"));
    for url in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data://x/y",
        "https://",
        "https://a b/",
        "http:/x",
        "https://a@b/",
        "https://a\u{200b}.b/",
    ] {
        let error = fault(json!({"mode": "url", "message": "?", "url": url}));
        assert!(error.contains("is not an HTTP URL"), "{url}: {error}");
    }
    parse(json!({"mode": "url", "message": "?", "url": "HTTPS://example.org/x"})).unwrap();
}

#[test]
fn hidden_characters_are_removed_from_the_message() {
    let schema = json!({"type": "object", "properties": {}});
    let question = parse(json!({"message": "Pay\u{202e}me\u{200b}?", "requestedSchema": schema})).unwrap();
    assert_eq!(question.message, "Payme?");
}
