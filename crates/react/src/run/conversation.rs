//! Validation of the initial conversation of a run.

use haft_core::{
    Message, Timestamp, Transcript,
    agent::{AgentError, AgentErrorKind},
    usage::Usage,
};

use super::call_ids;

/// Appends the messages `new` to a copy of the conversation `earlier`, and checks that a run can
/// start with the result.
///
/// # Errors
///
/// Fails if the conversation is empty or a call has no result, because providers reject requests
/// with an empty conversation or an open call. The error contains the conversation without the new
/// messages.
pub fn append_to_conversation(earlier: &Transcript, new: Vec<Message>) -> Result<Transcript, AgentError> {
    let mut transcript = earlier.clone();
    transcript.extend(new.into_iter().map(Into::into));
    match find_problem(&transcript) {
        None => Ok(transcript),
        Some(problem) => Err(start_error(AgentErrorKind::InvalidInput(problem), earlier)),
    }
}

/// Creates the error of a run that cannot start. The error contains the conversation `earlier`.
pub(super) fn start_error(kind: AgentErrorKind, earlier: &Transcript) -> AgentError {
    AgentError::from(kind).with_transcript_and_usage(earlier.clone(), Usage::default())
}

/// Sets the creation time of each message that has none to the current time. Drivers call this
/// function before they create a run, because a run does not read the system clock.
pub fn set_timestamps(messages: &mut [Message]) {
    let now = Timestamp::now();
    for message in messages.iter_mut().filter(|message| message.created_at().is_none()) {
        *message = message.clone().with_created_at(now);
    }
}

fn find_problem(transcript: &Transcript) -> Option<String> {
    if transcript.is_empty() {
        return Some("there is nothing to say".to_owned());
    }
    let open = call_ids::open_calls(transcript.messages());
    if open.is_empty() {
        return None;
    }
    let open: Vec<_> = open.iter().map(|call| format!("{:?} ({})", call.id, call.name)).collect();
    Some(format!(
        "calls of the conversation are still open: {}; resume the run that waits with `RunInput::resume` and their \
         answers, or close them with `Run::cancel` and go on with the transcript of that run",
        open.join(", ")
    ))
}
