//! The question back.

use haft_core::{
    Message, Timestamp, Transcript,
    agent::{RunAnswer, Steps, StopReason},
    usage::Usage,
};
use serde_json::Map;

use super::RouteTable;
use crate::run::clarification;

/// Asks which of the candidates is meant, or of all routes where there are none.
pub(super) fn question(table: &RouteTable, candidates: &[String]) -> String {
    if let Some(question) = &table.question {
        return question.clone();
    }
    let is_asked = |name: &str| candidates.is_empty() || candidates.iter().any(|candidate| candidate == name);
    let asked = table.routes.iter().filter(|route| is_asked(&route.name));
    let descriptions: Vec<_> = asked.map(|route| route.description.trim_end_matches('.')).collect();
    match descriptions.as_slice() {
        [] => "What do you want?".to_owned(),
        [only] => format!("Do you want {only}?"),
        [first @ .., last] => format!("Do you want {} or {last}?", first.join(", ")),
    }
}

/// The answer of a run that only asks back.
pub(super) fn answer(mut transcript: Transcript, question: String, usage: Usage) -> RunAnswer {
    transcript.push(clarification(Message::assistant(question.as_str())).at(Timestamp::now()));
    RunAnswer {
        text: question,
        outputs: Map::new(),
        steps: Steps::default(),
        usage,
        stop_reason: StopReason::Clarification,
        agent: None,
        transcript,
    }
}
