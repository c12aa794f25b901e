//! Validation of the initial conversation of a run.

use haft_core::{
    Message, Timestamp, Transcript,
    agent::{AgentError, AgentErrorKind},
    message::MessageBody,
    usage::Usage,
};

use super::history::UnpairedCalls;

/// Appends the messages `new` to a copy of the conversation `earlier`, and checks that a run can
/// start with the result.
///
/// # Errors
///
/// Fails if the conversation is empty, a call has no result, or a result does not follow its call,
/// because providers reject requests with an empty conversation or unpaired calls. The error
/// contains the conversation without the new messages.
pub(crate) fn append_to_conversation(
    earlier: &Transcript,
    new: Vec<Message>,
) -> Result<Transcript, AgentError> {
    append(earlier, new, false)
}

/// Like [`append_to_conversation`]. If `repairs` is `true`, accepts unpaired calls and results.
pub(crate) fn append(
    earlier: &Transcript,
    new: Vec<Message>,
    repairs: bool,
) -> Result<Transcript, AgentError> {
    let mut transcript = earlier.clone();
    transcript.extend(new.into_iter().map(Into::into));
    match find_problem(&transcript, repairs) {
        None => Ok(transcript),
        Some(problem) => Err(start_error(AgentErrorKind::InvalidInput(problem), earlier)),
    }
}

/// Fails if a run cannot continue `earlier` without a new message, because its last message is an
/// answer: providers require a message to answer, or take the answer as the start of the reply.
pub(crate) fn check_continued(earlier: &Transcript) -> Result<(), AgentError> {
    let last = earlier.messages().last().map(|message| message.body());
    let Some(MessageBody::Assistant(reply)) = last else { return Ok(()) };
    if !reply.tool_calls.is_empty() {
        return Ok(());
    }
    let problem =
        "the conversation ends with a message of the assistant; add a message with `RunInput::with_prompt`";
    Err(start_error(AgentErrorKind::InvalidInput(problem.to_owned()), earlier))
}

/// Creates the error of a run that cannot start. The error contains the conversation `earlier`.
pub(crate) fn start_error(kind: AgentErrorKind, earlier: &Transcript) -> AgentError {
    AgentError::from(kind).with_transcript_and_usage(earlier.clone(), Usage::default())
}

/// Sets the creation time of each message that has none to the current time. Drivers call this
/// function before they create a run, because a run does not read the system clock.
pub(crate) fn set_timestamps(messages: &mut [Message]) {
    let now = Timestamp::now();
    for message in messages.iter_mut().filter(|message| message.created_at().is_none()) {
        *message = message.clone().with_created_at(now);
    }
}

fn find_problem(transcript: &Transcript, repairs: bool) -> Option<String> {
    if transcript.is_empty() {
        return Some("the conversation has no messages".to_owned());
    }
    if repairs { None } else { UnpairedCalls::find(transcript.messages()).describe() }
}
