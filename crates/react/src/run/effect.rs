use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use haft_core::{
    Message, Timestamp, ToolCall,
    agent::{AgentErrorKind, AgentStep, RunAnswer},
    call::{PendingCall, ResumedCalls},
    message::TranscriptView,
    model::{ChatRequest, ChatSettings, ToolChoice},
    pipeline::{Batch, BatchCall},
    tool::{FailedAttempts, RunContext},
    toolset::ToolList,
};

use super::{InputCheck, Output, Run, RunBudget};
use crate::Dialect;

/// A function that changes the view of the conversation for a request. See
/// [`Step::history`].
pub type ViewChange<'a> =
    dyn Fn(TranscriptView, &Run) -> Result<TranscriptView, AgentErrorKind> + Send + Sync + 'a;

/// The inputs of one step. They are passed to [`Run::next`](super::Run::next) and are not saved
/// with the run.
///
/// Create a step with [`new`](Self::new), then set the optional fields.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Step<'a> {
    /// The tools that the model can call in this step.
    pub tools: &'a ToolList,
    /// The dialect that formats the requests for the model.
    pub dialect: &'a dyn Dialect,
    /// The system message, which precedes the conversation in the request. Default: none.
    pub instructions: Option<&'a Arc<Message>>,
    /// The tool choice of the next request, unless the model must answer in this request. Default:
    /// the tool choice of the [run](super::Run::tool_choice).
    pub tool_choice: Option<&'a ToolChoice>,
    /// The settings of the next request, such as the temperature. Default: the settings in the
    /// [configuration](super::RunConfig::settings) of the run.
    pub settings: Option<&'a ChatSettings>,
    /// The budget of the run, if the run can be nested in another run. The run takes its requests
    /// and calls from the budgets of the enclosing runs. Default: none.
    pub budget: Option<&'a RunBudget>,
    /// The change of the conversation's view for the request, such as
    /// [`ExtensionSet::process_history`](crate::extension::ExtensionSet::process_history). The
    /// transcript is not changed. Default: none.
    pub history: Option<&'a ViewChange<'a>>,
    /// The current time. Used as the creation time of new messages, and to measure the elapsed time
    /// of the run.
    pub now: Timestamp,
}

impl<'a> Step<'a> {
    /// Creates the inputs of a step without instructions, overrides or a budget.
    pub fn new(tools: &'a ToolList, dialect: &'a dyn Dialect, now: Timestamp) -> Self {
        Self {
            tools,
            dialect,
            instructions: None,
            tool_choice: None,
            settings: None,
            budget: None,
            history: None,
            now,
        }
    }
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("tools", &self.tools)
            .field("dialect", &self.dialect.name())
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// An action that a run requests from its driver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// List the tools, run the hooks, and pass the resulting [`Step`] to the next call to
    /// [`Run::next`](super::Run::next).
    ///
    /// The run is at a step boundary: all calls of the previous step have results, and messages can
    /// be [appended](super::Run::append). When suspended calls are resumed, however, this effect is
    /// returned while these calls are still open, because their tools must be listed again. The
    /// [state](super::Run::state) is then [`RunState::CallingTools`](super::RunState::CallingTools)
    /// instead of [`RunState::Preparing`](super::RunState::Preparing).
    Prepare,
    /// Check the input of the run with the input guardrails, and report the outcome with
    /// [`Run::on_input_check`](super::Run::on_input_check). Returned only if
    /// [`RunConfig::check_input`](super::RunConfig::check_input) or
    /// [`RunConfig::check_input_in_parallel`](super::RunConfig::check_input_in_parallel) is set.
    /// The run returns no [`Call`](Self::Call) and no answer before the outcome is reported.
    CheckInput(InputCheck),
    /// Send this request to the model, and report the reply with
    /// [`Run::on_chat`](super::Run::on_chat).
    Chat(Box<ChatRequest>),
    /// Execute these calls. Report the outcome of each call with
    /// [`Run::on_result`](super::Run::on_result) or [`Run::on_pending`](super::Run::on_pending), in
    /// any order.
    ///
    /// With call guardrails, first check the calls that are not [guarded](CallBatch::guarded) and
    /// not [denied](CallBatch::denied), if there are any: return the calls with
    /// [`Run::return_calls`](super::Run::return_calls), and report each check with
    /// [`Run::on_call_check`](super::Run::on_call_check). The run then returns the effect again.
    Call(CallBatch),
    /// Summarize these messages, because the context is too long. Report the summary with
    /// [`Run::on_compact`](super::Run::on_compact).
    Compact(TranscriptView),
    /// Validate this output, and report the result with [`Run::on_check`](super::Run::on_check).
    Check(Box<Output>),
    /// Decide about the next action after these calls of one reply, and report it with
    /// [`Run::on_review`](super::Run::on_review). All calls have results, which may be failures.
    /// Returned only if [`RunConfig::review_calls`](super::RunConfig::review_calls) is set.
    Review(Vec<AgentStep>),
    /// Wait for a decision about at least one of these calls. Report each decision with
    /// [`Run::on_decision`](super::Run::on_decision).
    Wait(Vec<PendingCall>),
    /// Stop driving the run. It is finished, and this is its answer.
    Done(Box<RunAnswer>),
}

/// A batch of calls to execute. Calls that do not [conflict](haft_core::tool::TouchFn) can be
/// executed in parallel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallBatch {
    /// The calls to execute, in the order in which they were made.
    pub calls: Vec<ToolCall>,
    /// The decisions for previously suspended calls of this batch, by call id.
    pub resumed: ResumedCalls,
    /// The failed attempts of the called tools since their last success, by tool name. The tools
    /// read the number of the [attempt](haft_core::ToolContext::attempt).
    pub failed_attempts: BTreeMap<String, FailedAttempts>,
    /// The calls beyond the [maximum number](haft_core::tool::ToolPolicy::max_calls) of calls to
    /// their tool, with the reason, by call id. A [`Batch`] denies them. A driver without a batch
    /// reports a failure with this reason, and does not execute the call.
    pub denied: BTreeMap<String, String>,
    /// The calls whose arguments the [call guardrails](crate::Guardrail::call) have checked, by
    /// call id. Their arguments do not change after the check.
    pub guarded: BTreeSet<String>,
    /// The calls of the same reply that still wait for a decision. Do not execute them. A
    /// [`Batch`] postpones the calls that conflict with [them](Batch::suspended).
    pub suspended: Vec<(usize, ToolCall)>,
}

impl CallBatch {
    /// Converts the calls to a [`Batch`] for the pipeline. `tools` are the tools of the request
    /// that the model replied to.
    pub fn into_batch(mut self, tools: ToolList, run_context: Arc<RunContext>) -> Batch {
        let calls = self.calls.into_iter().map(|call| BatchCall {
            resumed: self.resumed.remove(&call.id),
            failed_attempts: self.failed_attempts.get(&call.name).copied().unwrap_or_default(),
            denied: self.denied.remove(&call.id),
            is_repaired: self.guarded.contains(&call.id),
            ..BatchCall::new(call)
        });
        Batch { run_context, suspended: self.suspended, ..Batch::new(tools, calls) }
    }
}
