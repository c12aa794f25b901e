//! The model's decision to state a need, to answer, or to end the reply.

use llguidance::api::TopLevelGrammar;

use super::dialogue::{ANSWER, NEED_LABEL, TOOL};

/// The position in the conversation at which the model makes a [`Plan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The beginning of a reply to a question.
    Question,
    /// The beginning of a reply to tool results.
    Results,
    /// The end of a call, after which further calls may follow in the same reply.
    Call,
}

/// The model's decision before it chooses a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// The model states a need, for which it then chooses a tool.
    Need(String),
    /// The model answers, which is possible only after tool results.
    Answer,
    /// The model ends the reply after its calls.
    End,
}

/// Creates the grammar for the model's [`Plan`] at `stage`. If `must_call` is `true`, the first plan
/// of a reply is a need. `need_rules` contains the rules that define the terminal `NEED`.
pub(super) fn plan_grammar(stage: Stage, must_call: bool, need_rules: &str) -> TopLevelGrammar {
    let start = match (stage, must_call) {
        (Stage::Call, _) => "need?".to_owned(),
        (Stage::Results, false) => format!("\"{}\" | need", ANSWER.trim_end()),
        _ => "need".to_owned(),
    };
    TopLevelGrammar::from_lark(format!(
        "start: {start}\n\
         need: \"{NEED_LABEL}\" NEED \"\\n{}\"\n\
         {need_rules}\n",
        TOOL.trim_end(),
    ))
}

/// Parses the plan from `written`, the text that the model generated under [`plan_grammar`].
pub(super) fn parse_plan(written: &[u8]) -> Plan {
    let written = String::from_utf8_lossy(written);
    if written.starts_with(ANSWER.trim_end()) {
        return Plan::Answer;
    }
    match written.trim_start_matches(NEED_LABEL.trim_end()).split_once('\n') {
        Some((need, _)) => Plan::Need(need.trim().to_owned()),
        None => Plan::End,
    }
}
