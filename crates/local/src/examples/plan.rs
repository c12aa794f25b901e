//! The model's decision to call a tool, to answer, or to end the reply.

use haft_core::model::{ChatRequest, ToolChoice};
use llguidance::api::TopLevelGrammar;

use super::dialogue::{ANSWER, NEED, NO_TOOL, TOOL};

/// The model's decision on the next step of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// The model calls a tool.
    Call { need: String, tool: String },
    /// The model answers. A direct answer to a question states a need; an answer after tool results
    /// does not.
    Answer { need: Option<String> },
    /// The model makes no further call in this reply.
    Enough,
}

/// The position in the conversation at which the model makes its [`Decision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The model begins its reply to a question.
    Question,
    /// The model begins its reply to tool results.
    Results,
    /// The model has already made a call in this reply.
    Call,
}

/// Creates the grammar for the decision of the model at `stage`. `terminals` contains the grammar
/// rules that define the terminal `NEED`.
pub(super) fn decision_grammar(request: &ChatRequest, stage: Stage, terminals: &str) -> TopLevelGrammar {
    let must_call = !matches!(request.tool_choice, ToolChoice::Auto);
    let none = if must_call { String::new() } else { format!(" | \"{NO_TOOL}\\n\"") };
    let start = match (stage, must_call) {
        (Stage::Call, _) => "need?".to_owned(),
        (Stage::Results, false) => format!("\"{}\" | need", ANSWER.trim_end()),
        _ => "need".to_owned(),
    };
    let names: Vec<_> = match &request.tool_choice {
        ToolChoice::Tool(name) => vec![format!("\"{name}(\"")],
        _ => request.tools.names().map(|name| format!("\"{name}(\"")).collect(),
    };
    TopLevelGrammar::from_lark(format!(
        "start: {start}\n\
         need: \"{NEED}\" NEED \"\\n{TOOL}\" (tool{none})\n\
         tool: {}\n\
         {terminals}\n",
        names.join(" | "),
    ))
}

/// Parses the decision from `written`, the text that the model generated under
/// [`decision_grammar`].
pub(super) fn parse_decision(written: &[u8]) -> Decision {
    let written = String::from_utf8_lossy(written);
    if written.starts_with(ANSWER.trim_end()) {
        return Decision::Answer { need: None };
    }
    let Some((need, tool)) = written.trim_start_matches(NEED.trim_end()).split_once('\n') else {
        return Decision::Enough;
    };
    let need = need.trim().to_owned();
    match tool.trim_start_matches(TOOL.trim_end()).trim().strip_suffix('(') {
        Some(name) => Decision::Call { need, tool: name.to_owned() },
        None => Decision::Answer { need: Some(need) },
    }
}
