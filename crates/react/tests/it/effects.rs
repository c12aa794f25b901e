//! Steps of a run without an agent.

use haft_core::{
    Timestamp, ToolResult, agent::AgentErrorKind, call::PendingCall, model::ChatRequest, toolset::ToolList,
};
use haft_react::{
    Dialect, Effect, Outcome, Run,
    dialect::{Prompt, Reply},
    run::{CheckVerdict, PreparedRequest},
};

/// Advances `run` to its next effect other than [`Effect::Prepare`], and returns this effect.
pub(crate) fn advance(run: &mut Run) -> Result<Effect, AgentErrorKind> {
    advance_at(run, 0)
}

/// Like [`advance`], at the time `millis`.
pub(crate) fn advance_at(run: &mut Run, millis: i64) -> Result<Effect, AgentErrorKind> {
    let now = Timestamp::from_unix_millis(millis);
    loop {
        match run.next(now)? {
            Effect::Prepare => run.apply(Outcome::Prepared(PreparedRequest::default()), now)?,
            effect => return Ok(effect),
        }
    }
}

/// Applies `outcome` at the time of [`advance`].
pub(crate) fn apply(run: &mut Run, outcome: Outcome) -> Result<(), AgentErrorKind> {
    apply_at(run, 0, outcome)
}

/// Applies `outcome` at the time `millis`.
pub(crate) fn apply_at(run: &mut Run, millis: i64, outcome: Outcome) -> Result<(), AgentErrorKind> {
    run.apply(outcome, Timestamp::from_unix_millis(millis))
}

/// Reports a reply of the model.
pub(crate) fn reply(run: &mut Run, reply: impl Into<Reply>) -> Result<(), AgentErrorKind> {
    apply(run, Outcome::replied(reply))
}

/// Reports the result of the call `id`.
pub(crate) fn finish(run: &mut Run, id: &str, result: ToolResult) -> Result<(), AgentErrorKind> {
    apply(run, Outcome::called(id, result))
}

/// Reports that a call waits for a decision.
pub(crate) fn suspend(run: &mut Run, pending: PendingCall) -> Result<(), AgentErrorKind> {
    apply(run, Outcome::Pending(Box::new(pending)))
}

/// Reports a verdict without reports.
pub(crate) fn judge(run: &mut Run, verdict: CheckVerdict) -> Result<(), AgentErrorKind> {
    apply(run, Outcome::Checked(verdict))
}

/// Returns the next request of `run`, formatted by `dialect`.
pub(crate) fn request(run: &Run, dialect: &dyn Dialect) -> ChatRequest {
    dialect.build_request(&Prompt {
        messages: run.view(),
        tools: &ToolList::default(),
        instructions: None,
        outputs: run.answer_schema(),
        must_answer: run.must_answer(),
        tool_choice: run.tool_choice(),
        settings: &run.config().settings,
    })
}
