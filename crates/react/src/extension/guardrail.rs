//! Guardrails: checks of the host program over inputs, answers, calls and results.

use std::{collections::BTreeSet, fmt, future::Future, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use haft_core::{
    Message, ToolOutput, ToolResult,
    agent::{GuardrailAction, GuardrailStage},
    call::BoxError,
};
use serde_json::Value;

use super::{Extension, StepContext};
use crate::{Output, run::RulingDecision};

/// A named check of the host program over the input, the answer, or the calls and results of a run.
///
/// A guardrail returns a [`Ruling`]: it passes the data, rewrites it, blocks it with a text, or
/// ends the run with [`AgentErrorKind::Guardrail`](haft_core::agent::AgentErrorKind::Guardrail).
/// Add guardrails with [`Extension::guardrail`] or
/// [`ReactAgentBuilder::guardrail`](crate::ReactAgentBuilder::guardrail).
///
/// Guardrails of one stage run in the order of the [extensions](Extension#order), each on its own
/// tokio task. Each guardrail receives the data that the previous guardrail returned. The first
/// guardrail that blocks the data or ends the run decides, and the later guardrails do not run.
/// Guardrails [in parallel](Self::in_parallel) with the request run concurrently. The reports of
/// all guardrails that decided are in the [answer](haft_core::agent::RunAnswer::guardrails) or in
/// the error.
///
/// A guardrail that fails, panics or exceeds its [timeout](Self::timeout) ends the run with
/// [`AgentErrorKind::HookFailed`](haft_core::agent::AgentErrorKind::HookFailed), unless it
/// [fails open](Self::fail_open).
///
/// # Examples
///
/// ```
/// use haft_core::agent::{AgentErrorKind, GuardrailStage};
/// use haft_react::{Guardrail, ReactAgent, extension::Ruling};
/// use haft_testing::ScriptedModel;
/// use serde_json::json;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let no_homework = Guardrail::input("no homework", |messages, _| async move {
///     let is_homework = messages.iter().any(|message| message.text().contains("homework"));
///     Ok(if is_homework { Ruling::end().with_information(json!({"topic": "homework"})) } else { Ruling::pass() })
/// });
/// let agent = ReactAgent::builder(ScriptedModel::new().reply_text("42."))
///     .guardrail(no_homework.in_parallel())
///     .build()?;
///
/// let error = agent.run("Do my homework.").await.unwrap_err();
/// let AgentErrorKind::Guardrail { report, .. } = &*error.kind else { panic!("{error}") };
/// assert_eq!((report.guardrail.as_str(), report.stage), ("no homework", GuardrailStage::Input));
/// assert_eq!(report.information["topic"], "homework");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Guardrail {
    pub(super) name: Arc<str>,
    pub(super) check: Check,
    pub(super) timeout: Option<Duration>,
    pub(super) fails_open: bool,
    pub(super) is_parallel: bool,
    tools: Option<Arc<BTreeSet<String>>>,
}

pub(super) type CheckFn<In, Out> =
    Arc<dyn Fn(In, StepContext) -> BoxFuture<'static, Result<Ruling<Out>, BoxError>> + Send + Sync>;

/// The function of a guardrail, by stage.
#[derive(Clone)]
pub(super) enum Check {
    Input(CheckFn<Vec<Arc<Message>>, Vec<Message>>),
    Answer(CheckFn<Output, Output>),
    Call(CheckFn<GuardedCall, Value>),
    Result(CheckFn<ToolResult, ToolOutput>),
}

/// The decision of a guardrail about a `T`, with information for the host program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ruling<T> {
    /// The decision.
    pub decision: RulingDecision<T>,
    /// Information for the [report](haft_core::agent::GuardrailReport) of the guardrail, such as a
    /// score. Not sent to the model. Default: `null`.
    pub information: Value,
}

/// A call, as passed to a [call guardrail](Guardrail::call).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GuardedCall {
    /// The id of the call.
    pub call_id: String,
    /// The name of the called tool.
    pub tool: String,
    /// The repaired and validated arguments.
    pub arguments: Value,
}

/// The failure of a guardrail. It is the source of
/// [`AgentErrorKind::HookFailed`](haft_core::agent::AgentErrorKind::HookFailed).
#[derive(Debug, thiserror::Error)]
#[error("in the guardrail {guardrail:?}")]
#[non_exhaustive]
pub struct GuardrailFailure {
    /// The name of the guardrail.
    pub guardrail: String,
    /// The error of the guardrail, its panic, or its timeout.
    pub source: BoxError,
}

impl Guardrail {
    /// Creates a guardrail over the input: the new messages of the user.
    ///
    /// It runs once for each new input, before the next model request: for the messages that start
    /// the run, for [enqueued](crate::Run::enqueue) messages, and for messages of an earlier run
    /// that have no reply yet. It does not run again for later requests or when a suspended run is
    /// resumed. In a [`HandoffGroup`](crate::HandoffGroup), only the guardrails of the agent that
    /// is active when the input arrives check it. Hints of the run are not checked.
    ///
    /// A ruling [rewrites](Ruling::rewrite) all messages, each to one user message. If it
    /// [blocks](Ruling::block) the input, no request is sent, and the answer of the run is the
    /// text, with the stop reason [`Blocked`](haft_core::agent::StopReason::Blocked). The
    /// transcript keeps the original messages. Requests, also those of later runs, contain the new
    /// text, or a note in place of messages that were blocked or ended the run.
    pub fn input<F, Fut>(name: impl Into<String>, check: F) -> Self
    where
        F: Fn(Vec<Arc<Message>>, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Ruling<Vec<Message>>, BoxError>> + Send + 'static,
    {
        Self::new(name.into(), Check::Input(Arc::new(move |messages, cx| check(messages, cx).boxed())))
    }

    /// Creates a guardrail over the answer. It runs after the [output
    /// validators](Extension::output_validator) have accepted the output, and before
    /// [`RunEvent::Done`](haft_core::RunEvent::Done). Refusals are not checked.
    ///
    /// A rewritten answer must fit the declared schema. If a ruling [blocks](Ruling::block) the
    /// answer, the user reads the text instead, with the stop reason
    /// [`Blocked`](haft_core::agent::StopReason::Blocked) and without structured data. The
    /// transcript keeps the original answer, and later requests contain the text of the guardrail.
    /// To make the model answer again, use an output validator.
    ///
    /// Streamed deltas of the answer precede the ruling, because the answer is complete only after
    /// its last delta. A reader that must not show a withheld answer waits for `Done`.
    pub fn answer<F, Fut>(name: impl Into<String>, check: F) -> Self
    where
        F: Fn(Output, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Ruling<Output>, BoxError>> + Send + 'static,
    {
        Self::new(name.into(), Check::Answer(Arc::new(move |output, cx| check(output, cx).boxed())))
    }

    /// Creates a guardrail over the arguments of calls. It runs after the repair and the validation
    /// of the arguments, also by [repair hooks](haft_core::pipeline::RepairHook), and before an
    /// approval is requested. No call of a reply starts before the guardrails have decided about
    /// all of its calls. Invalid calls, and calls beyond the [maximum
    /// number](haft_core::tool::ToolPolicy::max_calls), are not checked, because they do not run.
    /// Calls that a tool makes itself are not checked. Each call is checked once, also if it is
    /// postponed or repeated.
    ///
    /// A failed guardrail ends the run before any call of the reply has started. If the run is
    /// continued, the calls are checked again.
    ///
    /// Rewritten arguments are validated again. A suspended call shows them to its approver. If the
    /// approver changes the arguments, the guardrail checks the changed arguments, too. If a ruling
    /// [blocks](Ruling::block) the call, the tool does not run, and the model reads the text as a
    /// [denial](haft_core::call::FailureKind::Denied). If a ruling ends the run, no call of the
    /// reply runs.
    pub fn call<F, Fut>(name: impl Into<String>, check: F) -> Self
    where
        F: Fn(GuardedCall, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Ruling<Value>, BoxError>> + Send + 'static,
    {
        Self::new(name.into(), Check::Call(Arc::new(move |call, cx| check(call, cx).boxed())))
    }

    /// Creates a guardrail over the results of calls, including failures and results from the host
    /// program. It runs before the result is recorded and before the model or a reader of the
    /// events receives it. The text of a long result is already truncated.
    ///
    /// A rewritten output must fit the output schema of the tool. If a ruling
    /// [blocks](Ruling::block) the result, the model reads the text as a
    /// [failure](haft_core::call::FailureKind::Failed), and the result of a stop tool does not end
    /// the run. If a ruling ends the run, the other open calls are cancelled. A rewritten result of
    /// a [hand-off](crate::HandoffGroup) without structured data keeps its typed arguments.
    pub fn result<F, Fut>(name: impl Into<String>, check: F) -> Self
    where
        F: Fn(ToolResult, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Ruling<ToolOutput>, BoxError>> + Send + 'static,
    {
        Self::new(name.into(), Check::Result(Arc::new(move |result, cx| check(result, cx).boxed())))
    }

    fn new(name: String, check: Check) -> Self {
        Self { name: name.into(), check, timeout: None, fails_open: false, is_parallel: false, tools: None }
    }

    /// Runs an input guardrail concurrently with the model request, to hide its latency. Ignored
    /// for other stages. Default: before the request.
    ///
    /// Until the guardrail has passed the input, no call is executed, no answer is returned, and
    /// the events of the reply are held back. If the guardrail blocks the input or ends the run,
    /// the request is aborted and counted as a failed request. The guardrail must not rewrite the
    /// input, because the request is already sent.
    pub fn in_parallel(mut self) -> Self {
        self.is_parallel = true;
        self
    }

    /// Sets the maximum duration of each check. Default: the [hook
    /// timeout](crate::ReactAgentBuilder::hook_timeout) of the agent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Passes the data if the guardrail fails, panics or exceeds its timeout. The failure is logged
    /// and reported as [`Failed`](haft_core::agent::GuardrailAction::Failed). Default: the run
    /// ends.
    pub fn fail_open(mut self) -> Self {
        self.fails_open = true;
        self
    }

    /// Restricts a call or result guardrail to the tools with these names. Ignored for other
    /// stages. Default: all tools.
    pub fn for_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools = Some(Arc::new(tools.into_iter().map(Into::into).collect()));
        self
    }

    pub(super) fn stage(&self) -> GuardrailStage {
        match self.check {
            Check::Input(_) => GuardrailStage::Input,
            Check::Answer(_) => GuardrailStage::Answer,
            Check::Call(_) => GuardrailStage::Call,
            Check::Result(_) => GuardrailStage::CallResult,
        }
    }

    pub(super) fn applies_to(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.contains(tool))
    }
}

impl<T> Ruling<T> {
    /// Uses the data unchanged.
    pub fn pass() -> Self {
        RulingDecision::Pass.into()
    }

    /// Replaces the data with `data`.
    pub fn rewrite(data: T) -> Self {
        RulingDecision::Rewrite(data).into()
    }

    /// Withholds the data. The model or the user reads `text` instead.
    pub fn block(text: impl Into<String>) -> Self {
        RulingDecision::Block(text.into()).into()
    }

    /// Ends the run with
    /// [`AgentErrorKind::Guardrail`](haft_core::agent::AgentErrorKind::Guardrail).
    pub fn end() -> Self {
        RulingDecision::End.into()
    }

    /// Sets the [information](Self::information) for the host program.
    #[must_use]
    pub fn with_information(mut self, information: impl Into<Value>) -> Self {
        self.information = information.into();
        self
    }
}

impl<T> From<RulingDecision<T>> for Ruling<T> {
    fn from(decision: RulingDecision<T>) -> Self {
        Self { decision, information: Value::Null }
    }
}

impl<T> RulingDecision<T> {
    /// Returns the action for the report of a guardrail with this decision.
    pub fn action(&self) -> GuardrailAction {
        match self {
            Self::Pass => GuardrailAction::Pass,
            Self::Rewrite(_) => GuardrailAction::Rewrite,
            Self::Block(_) => GuardrailAction::Block,
            Self::End => GuardrailAction::End,
        }
    }
}

impl Extension {
    /// Adds a guardrail. See [`Guardrail`] for the order of guardrails and for their effects.
    pub fn guardrail(mut self, guardrail: Guardrail) -> Self {
        self.guardrails.push(guardrail);
        self
    }
}

impl fmt::Debug for Guardrail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guardrail")
            .field("name", &self.name)
            .field("stage", &self.stage())
            .field("is_parallel", &self.is_parallel)
            .field("fails_open", &self.fails_open)
            .finish_non_exhaustive()
    }
}
