//! The model's decision to call a tool, to answer, or to end the reply.

use haft_core::{
    ToolCall,
    model::{ChatRequest, ToolChoice},
};
use llguidance::api::TopLevelGrammar;

use super::dialogue::{ANSWER, NEED_LABEL, TOOL};

/// The model's decision on the next step of the conversation.
#[derive(Debug, Clone)]
pub(super) enum NextStep {
    /// The model makes `call` to satisfy `need`. The prompt contains the call.
    Call { need: String, call: ToolCall },
    /// The model answers without a further call. `need` is the stated need, for which the model
    /// chose no tool. It is `None` if the model answers directly, which is possible only after tool
    /// results.
    Answer { need: Option<String> },
    /// `need` is a statement. Its values are arguments of a planned call, so no call is made for
    /// it.
    PlannedStatement { need: String },
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

/// Creates the grammar for the model's [`Plan`] at `stage`. If `must_call` is `true`, the plan is a
/// need. `need_rules` contains the rules that define the terminal `NEED`.
pub(super) fn plan_grammar(stage: Stage, must_call: bool, need_rules: &str) -> TopLevelGrammar {
    let start = match (stage, must_call) {
        (Stage::Call, false) => "need?".to_owned(),
        (Stage::AfterResults, false) => format!("\"{}\" | need", ANSWER.trim_end()),
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

/// Returns the names of the tools that the model may call.
pub(super) fn callable_tools(request: &ChatRequest) -> Vec<String> {
    match &request.tool_choice {
        ToolChoice::Tool(name) => vec![name.to_string()],
        _ => request.tools.names().map(ToString::to_string).collect(),
    }
}

/// Returns the text that follows `Tool:` in a call of `name`, up to a token after which the name
/// cannot continue.
pub(super) fn call_beginning(request: &ChatRequest, name: &str) -> String {
    let schema = request.tools.get(name).map(|tool| tool.definition().input_schema().clone());
    let has_parameters = schema.is_some_and(|schema| schema.properties().next().is_some());
    if has_parameters { format!(" {name}({{\"") } else { format!(" {name}({{}})") }
}
