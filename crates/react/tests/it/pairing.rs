//! Assertions that each tool call has a result at the right position, as every provider requires.

use std::{collections::HashSet, sync::Arc};

use haft_core::{
    Message, Transcript,
    message::{MessageBody, TranscriptView},
    model::ChatRequest,
};

/// Asserts that the call ids in `transcript` are unique, and that each call has exactly one result.
/// The results must directly follow the reply with the calls, in call order.
#[track_caller]
pub(crate) fn assert_paired(transcript: &Transcript) {
    assert_all_paired(transcript.messages());
}

/// Applies the checks of [`assert_paired`] to the messages of a model request.
#[track_caller]
pub(crate) fn assert_request_paired(request: &ChatRequest) {
    assert_view_paired(&request.messages);
}

/// Applies the checks of [`assert_paired`] to a view of a transcript.
#[track_caller]
pub(crate) fn assert_view_paired(view: &TranscriptView) {
    assert_all_paired(&view.iter().cloned().collect::<Vec<_>>());
}

#[track_caller]
fn assert_all_paired(messages: &[Arc<Message>]) {
    let mut ids = HashSet::new();
    let mut messages = messages.iter();
    while let Some(message) = messages.next() {
        assert!(!matches!(message.body(), MessageBody::Tool(_)), "a result without a call: {message:?}");
        for call in message.tool_calls() {
            assert!(!call.id.is_empty() && ids.insert(&call.id), "the id {:?} is not unique", call.id);
            match messages.next().map(|message| message.body()) {
                Some(MessageBody::Tool(result)) => {
                    assert_eq!((&result.call_id, &result.name), (&call.id, &call.name));
                }
                other => panic!("{call:?} is followed by {other:?}"),
            }
        }
    }
}

/// Formats the messages of a model request as text, one message per line.
pub(crate) fn message_lines(request: &ChatRequest) -> String {
    let lines = request.messages.iter().map(|message| {
        let calls: Vec<_> =
            message.tool_calls().iter().map(|it| format!("{} {}{}", it.id, it.name, it.arguments)).collect();
        let (role, text) = match message.body() {
            MessageBody::System { .. } => ("system", message.text()),
            MessageBody::User { .. } => ("user", message.text()),
            MessageBody::Assistant(_) => ("assistant", [message.text(), calls.join("; ")].concat()),
            MessageBody::Tool(result) => ("tool", format!("{} {}", result.call_id, message.text())),
        };
        format!("{role}: {text}\n")
    });
    lines.collect()
}
