//! Tests of the requests of dialects.

use haft_core::{
    message::TranscriptView,
    model::{ChatSettings, ModelProfile, ToolChoice},
};
use haft_dialect::{Dialect as _, Prompt, TextReact, dialect_for};

use crate::calculator;

/// OpenAI accepts at most four stop sequences. If there are more, the dialect must omit its own
/// stop sequences, but never those of the caller.
#[test]
fn stop_sequences_of_the_caller_have_precedence() {
    for (stops, sent) in [(0, 2), (2, 4), (3, 4), (4, 4), (5, 5)] {
        let stop: Vec<_> = (0..stops).map(|stop| stop.to_string()).collect();
        let settings = ChatSettings { stop: stop.clone(), ..ChatSettings::default() };
        let request = TextReact.build_request(&Prompt {
            messages: TranscriptView::default(),
            tools: &calculator(),
            instructions: None,
            outputs: None,
            must_answer: false,
            tool_choice: &ToolChoice::Auto,
            settings: &settings,
        });
        let stop_sequences = &request.settings.stop;
        assert!(stop_sequences.starts_with(&stop) && stop_sequences.len() == sent, "{stop_sequences:?}");
    }
}

#[test]
fn dialect_depends_on_the_capabilities_of_the_model() {
    let name = |supports_native_tools, supports_json_schema| {
        let profile = ModelProfile::new("any");
        dialect_for(&ModelProfile { supports_native_tools, supports_json_schema, ..profile }).name()
    };
    assert_eq!([name(true, true), name(false, true), name(false, false)], ["native", "json", "text"]);
}
