//! The model's decision to call a tool, to answer, or to end the reply.

use haft_core::model::{ChatRequest, ToolChoice};
use llguidance::api::TopLevelGrammar;

use super::dialogue::{ANSWER, NEED_LABEL, NO_TOOL, TOOL};

/// The model's decision on the next step of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The model calls `tool` to satisfy `need`.
    Call { need: String, tool: String },
    /// The model answers without a further call. `need` is the stated need, for which the model
    /// chose no tool. It is `None` if the model answers directly, which is possible only after tool
    /// results.
    Answer { need: Option<String> },
    /// The model ends the reply after its calls.
    NoMoreCalls,
}

/// The position in the conversation at which the model chooses a [`NextStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The beginning of a reply to a question.
    AfterQuestion,
    /// The beginning of a reply to tool results.
    AfterResults,
    /// The end of a call, after which further calls may follow in the same reply.
    Call,
}

/// Creates the grammar for the model's decision at `stage`. `terminals` contains the rules that
/// define the terminal `NEED`.
pub(super) fn decision_grammar(request: &ChatRequest, stage: Stage, terminals: &str) -> TopLevelGrammar {
    let must_call = !matches!(request.tool_choice, ToolChoice::Auto);
    let none = if must_call { String::new() } else { format!(" | \"{NO_TOOL}\\n\"") };
    let start = match (stage, must_call) {
        (Stage::Call, _) => "need?".to_owned(),
        (Stage::AfterResults, false) => format!("\"{}\" | need", ANSWER.trim_end()),
        _ => "need".to_owned(),
    };
    let names: Vec<_> = match &request.tool_choice {
        ToolChoice::Tool(name) => vec![format!("\"{name}(\"")],
        _ => request.tools.names().map(|name| format!("\"{name}(\"")).collect(),
    };
    TopLevelGrammar::from_lark(format!(
        "start: {start}\n\
         need: \"{NEED_LABEL}\" NEED \"\\n{TOOL}\" (tool{none})\n\
         tool: {}\n\
         {terminals}\n",
        names.join(" | "),
    ))
}

/// Parses the decision from `written`, the text that the model generated under
/// [`decision_grammar`].
pub(super) fn parse_decision(written: &[u8]) -> NextStep {
    let written = String::from_utf8_lossy(written);
    if written.starts_with(ANSWER.trim_end()) {
        return NextStep::Answer { need: None };
    }
    let Some((need, tool)) = written.trim_start_matches(NEED_LABEL.trim_end()).split_once('\n') else {
        return NextStep::NoMoreCalls;
    };
    let need = need.trim().to_owned();
    match tool.trim_start_matches(TOOL.trim_end()).trim().strip_suffix('(') {
        Some(name) => NextStep::Call { need, tool: name.to_owned() },
        None => NextStep::Answer { need: Some(need) },
    }
}
