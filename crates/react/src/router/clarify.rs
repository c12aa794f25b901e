//! The clarifying questions of a router, for tasks without a clear route.

use haft_core::{
    Message, Timestamp, Transcript,
    agent::{RunAnswer, StopReason},
    usage::Usage,
};
use serde_json::{Map, Value};

use super::RouteTable;

/// Metadata key that marks an assistant message as a clarifying question.
const CLARIFICATION_KEY: &str = "clarification";

/// Returns `true` if `message` is a clarifying question of a router.
pub(super) fn is_clarification(message: &Message) -> bool {
    message.metadata_value(CLARIFICATION_KEY) == Some(&Value::Bool(true))
}

/// Returns the clarifying question of `table` if it is set. Otherwise, returns a question that
/// lists the descriptions of the routes in `candidates`, or of all routes if `candidates` is empty.
pub(super) fn clarifying_question(table: &RouteTable, candidates: &[String]) -> String {
    if let Some(question) = &table.question {
        return question.clone();
    }
    let is_candidate =
        |name: &str| candidates.is_empty() || candidates.iter().any(|candidate| candidate == name);
    let routes = table.routes.iter().filter(|route| is_candidate(&route.name));
    let descriptions: Vec<_> = routes.map(|route| route.description.trim_end_matches('.')).collect();
    match descriptions.as_slice() {
        [] => "What do you want?".to_owned(),
        [only] => format!("Do you want {only}?"),
        [first @ .., last] => format!("Do you want {} or {last}?", first.join(", ")),
    }
}

/// Returns an answer with the clarifying question `question` as its text. The transcript of the
/// answer is `transcript` with the question appended. `usage` is the usage of the classifier.
pub(super) fn clarifying_answer(mut transcript: Transcript, question: String, usage: Usage) -> RunAnswer {
    let metadata = Map::from_iter([(CLARIFICATION_KEY.to_owned(), Value::Bool(true))]);
    let message = Message::assistant(question.as_str()).with_metadata(metadata);
    transcript.push(message.with_created_at(Timestamp::now()));
    RunAnswer {
        text: question,
        outputs: Map::new(),
        value: None,
        steps: Vec::new(),
        usage,
        stop_reason: StopReason::Clarification,
        agent: None,
        guardrails: Vec::new(),
        transcript,
    }
}
