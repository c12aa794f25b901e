use haft_core::model::ModelError;

use super::Refusal;

fn refusal(body: &str, parameter: &str) -> Refusal {
    let error = ModelError::Rejected { status: 400, body: body.to_owned() };
    Refusal { error, parameter: parameter.to_owned() }
}

#[test]
fn a_parameter_is_refused_in_many_words() {
    for (body, parameter) in [
        ("Unsupported parameter: 'stop' is not supported with this model.", ""),
        ("Unsupported parameter", "stop"),
        ("Extra inputs are not permitted", "body.stop"),
        ("Unrecognized request argument supplied: stop", ""),
        ("Model grok-4 does not support parameter stop.", ""),
        ("Argument not supported on this model: stop", ""),
        (r#"[{"type":"extra_forbidden","loc":["body","stop"]}]"#, ""),
    ] {
        assert!(refusal(body, parameter).is_of("stop"), "{body}");
    }
}

/// A wrong value is for its user to mend, and a word in a sentence is no parameter.
#[test]
fn not_all_that_is_said_of_a_parameter_refuses_it() {
    for (body, parameter) in [
        ("Invalid 'stop': array too long. Expected an array with maximum length 4.", "stop"),
        ("This model is not supported. Please stop.", ""),
        ("Unsupported parameter: 'stop_token_ids'", "stop_token_ids"),
        ("Unknown model", "model"),
    ] {
        assert!(!refusal(body, parameter).is_of("stop"), "{body}");
    }
}
