//! What an older format becomes.
//!
//! Format 1 grew while it was the only one: a run of it may lack where its own first message is and what the model is
//! shown, and of a call that was answered know the answer alone.

use haft_core::{
    ToolCall, Transcript,
    call::{Answer, Pending, PendingKind, Resumed},
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{context::Shown, pieces::is_said, steps::arguments};

/// Makes the head of a run of format 1 one of today. What is no head stays as it is, for the reader to say.
pub(super) fn head(head: &mut Value, transcript: &Transcript) {
    let messages = transcript.messages();
    let Some(head) = head.as_object_mut() else { return };
    let start = head.get("start").and_then(Value::as_u64).and_then(|start| usize::try_from(start).ok());
    let start = start.unwrap_or_default().min(messages.len());
    let said = messages.iter().skip(start).take_while(|message| is_said(message)).count();
    let first = start + said;
    head.entry("first").or_insert_with(|| json!(first));
    let begun = messages.get(..first).unwrap_or_default();
    head.entry("shown").or_insert_with(|| json!(Shown::of(begun, start)));
    let calls = head.get_mut("phase").and_then(|phase| phase.get_mut("calls")).and_then(Value::as_array_mut);
    for open in calls.into_iter().flatten() {
        answered(open);
    }
}

/// Puts what a call waited for beside its answer.
fn answered(open: &mut Value) {
    let Some(call) = open.get("call").and_then(|call| ToolCall::deserialize(call).ok()) else { return };
    let Some(state) = open.get_mut("state").and_then(Value::as_object_mut) else { return };
    let Some(answer) = state.get("answer").and_then(|answer| Answer::deserialize(answer).ok()) else {
        return;
    };
    if let Some(resumed) = resumed(&call, answer) {
        state.shift_remove("answer");
        state.insert("resumed".to_owned(), json!(resumed));
    }
}

fn resumed(call: &ToolCall, answer: Answer) -> Option<Resumed> {
    let kind = match &answer {
        Answer::Approved { .. } | Answer::Denied { .. } => {
            PendingKind::Approval { arguments: arguments(call) }
        }
        Answer::Input { .. } => PendingKind::input(""),
        Answer::Output { .. } | Answer::Failed { .. } => PendingKind::External,
        // Nothing waited for others then.
        _ => return None,
    };
    Pending::new(kind).answered(answer).ok()
}
