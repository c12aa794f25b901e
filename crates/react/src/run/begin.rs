//! What a run can begin with.

use haft_core::{
    Message, Timestamp, Transcript,
    agent::{AgentError, AgentErrorKind},
    usage::Usage,
};

use super::ids;

/// A conversation with what is new in it.
///
/// # Errors
///
/// Fails where a provider would: when nothing is said, or a call has no result. The error has the conversation as it was before.
pub(crate) fn conversation(earlier: &Transcript, new: Vec<Message>) -> Result<Transcript, AgentError> {
    let mut transcript = earlier.clone();
    transcript.extend(new.into_iter().map(Into::into));
    match problem(&transcript) {
        None => Ok(transcript),
        Some(problem) => Err(refused(AgentErrorKind::InvalidInput(problem), earlier)),
    }
}

/// The error of a run that does not begin: nothing was said and done in it.
pub(super) fn refused(kind: AgentErrorKind, earlier: &Transcript) -> AgentError {
    AgentError::from(kind).with_run(earlier.clone(), Usage::default())
}

/// Notes on new messages when they were said, where that is not known.
pub(crate) fn date(messages: &mut [Message]) {
    let now = Timestamp::now();
    for message in messages.iter_mut().filter(|message| message.created_at().is_none()) {
        *message = message.clone().at(now);
    }
}

fn problem(transcript: &Transcript) -> Option<String> {
    if transcript.is_empty() {
        return Some("there is nothing to say".to_owned());
    }
    let open = ids::open_calls(transcript.messages());
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
