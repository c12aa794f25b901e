use haft_core::model::ModelError;

use super::RequestError;

fn error(body: &str, param: &str) -> RequestError {
    let error = ModelError::Rejected { status: 400, body: body.to_owned() };
    RequestError { error, param: param.to_owned() }
}

#[test]
fn unsupported_parameter_is_recognized_in_many_wordings() {
    for (body, param) in [
        ("Unsupported parameter: 'stop' is not supported with this model.", ""),
        ("Unsupported parameter", "stop"),
        ("Extra inputs are not permitted", "body.stop"),
        ("Unrecognized request argument supplied: stop", ""),
        ("Model grok-4 does not support parameter stop.", ""),
        ("Argument not supported on this model: stop", ""),
        ("`stop` is deprecated for this model.", ""),
        (r#"[{"type":"extra_forbidden","loc":["body","stop"]}]"#, ""),
    ] {
        assert!(error(body, param).rejects("stop"), "{body}");
    }
}

#[test]
fn invalid_value_or_mere_mention_is_not_a_rejection() {
    for (body, param) in [
        ("Invalid 'stop': array too long. Expected an array with maximum length 4.", "stop"),
        ("This model is not supported. Please stop.", ""),
        ("Unsupported parameter: 'stop_token_ids'", "stop_token_ids"),
        ("Unknown model", "model"),
    ] {
        assert!(!error(body, param).rejects("stop"), "{body}");
    }
}
