//! A run between two steps is JSON.

use haft_core::{ChatResponse, RunInput, Timestamp, ToolList, json};
use haft_react::{Dialect as _, Effect, NativeCalls, Run, RunConfig, RunError, Step};

fn step(tools: &ToolList) -> Step<'_> {
    Step::new(tools, &NativeCalls, Timestamp::from_unix_millis(1))
}

/// BEHAVIOUR D39, for a newer format.
#[test]
fn a_newer_format_is_refused() {
    for newer in [json!({"head": {"quite": "different"}, "transcript": null}), json!({"run": "different"})] {
        let mut newer = newer;
        newer["version"] = json!(2);
        let error = serde_json::from_value::<Run>(newer).unwrap_err().to_string();
        assert_eq!(
            error,
            "run format 2 is not known here, only 1: read it with the version of haft that wrote it"
        );
    }
}

#[test]
fn an_effect_must_be_told_before_the_next() {
    let tools = ToolList::default();
    let mut run = Run::new(&RunConfig::default(), RunInput::new("Hi")).unwrap();
    assert!(run.on_chat(Ok(NativeCalls.fold(ChatResponse::new("too early"), None))).is_err());
    assert!(matches!(run.next(&step(&tools)).unwrap(), Effect::Chat(_)));
    let error = run.next(&step(&tools)).unwrap_err().to_string();
    assert!(error.contains(&RunError::RequestUnderWay.to_string()), "{error}");

    // A run whose request was lost with its process asks again.
    let saved = serde_json::to_string(&run).unwrap();
    let mut run: Run = serde_json::from_str(&saved).unwrap();
    run.recover(&tools);
    assert!(matches!(run.next(&step(&tools)).unwrap(), Effect::Chat(_)));
}

#[test]
fn nothing_to_say_is_an_error() {
    let mut input = RunInput::new("Hi");
    input.start = haft_core::RunStart::New { messages: Vec::new(), transcript: Default::default() };
    assert!(Run::new(&RunConfig::default(), input).is_err());
}
