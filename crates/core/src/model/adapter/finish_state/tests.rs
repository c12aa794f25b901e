use super::FinishKind::{Complete, Filter, Limit, Malformed, Rejected, Unknown};
use super::{FinishKind, FinishState};

/// All finish reasons of Gemini's API.
#[test]
fn reasons_of_gemini_have_kinds() {
    for (reason, kind) in [
        ("FINISH_REASON_UNSPECIFIED", Unknown),
        ("STOP", Complete),
        ("MAX_TOKENS", Limit),
        ("SAFETY", Filter),
        ("RECITATION", Filter),
        ("LANGUAGE", Filter),
        ("OTHER", Unknown),
        ("BLOCKLIST", Filter),
        ("PROHIBITED_CONTENT", Filter),
        ("SPII", Filter),
        ("MALFORMED_FUNCTION_CALL", Malformed),
        ("IMAGE_SAFETY", Filter),
        ("IMAGE_PROHIBITED_CONTENT", Filter),
        ("IMAGE_OTHER", Unknown),
        ("NO_IMAGE", Unknown),
        ("IMAGE_RECITATION", Filter),
        ("UNEXPECTED_TOOL_CALL", Malformed),
        ("TOO_MANY_TOOL_CALLS", Malformed),
        ("MISSING_THOUGHT_SIGNATURE", Rejected),
        ("MALFORMED_RESPONSE", Malformed),
        ("ESCALATION", Filter),
        ("PUP_LIMITED_DISABLED", Rejected),
        ("CONTINUATION", Limit),
        ("MODEL_ARMOR", Filter),
    ] {
        assert_eq!(FinishKind::of(reason), kind, "{reason}");
    }
}

#[test]
fn description_contains_the_message_of_the_server() {
    let mut state = FinishState::default();
    state.set_reason("MALFORMED_FUNCTION_CALL".to_owned());
    state.set_message(String::new());
    assert_eq!(state.describe(), "MALFORMED_FUNCTION_CALL");
    state.set_message("call:add{".to_owned());
    assert_eq!(state.describe(), "MALFORMED_FUNCTION_CALL: call:add{");
}
