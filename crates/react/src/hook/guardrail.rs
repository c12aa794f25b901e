//! Guardrails: named hooks of one event, with settings.

use std::{collections::BTreeSet, fmt, future::Future, sync::Arc, time::Duration};

use futures::FutureExt as _;
use haft_core::{Message, ToolOutput, ToolResult, call::BoxError};
use serde_json::Value;

use super::{CallArguments, Closure, HookContext, HookResult};
use crate::output::Output;

/// A named [hook](super::Hook) over the input, the answer, the calls or the results of a run, with
/// its own timeout and tools.
///
/// # Examples
///
/// ```
/// use haft_core::agent::AgentErrorKind;
/// use haft_react::{Guardrail, ReactAgent, Verdict};
/// use haft_testing::ScriptedModel;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let no_homework = Guardrail::input("no homework", |messages, _| async move {
///     let is_homework = messages.iter().any(|message| message.text().contains("homework"));
///     Ok(if is_homework { Verdict::end("homework") } else { Verdict::Pass })
/// });
/// let agent = ReactAgent::builder(ScriptedModel::new()).guardrail(no_homework).build()?;
/// let error = agent.run("Do my homework.").await.unwrap_err();
/// assert!(matches!(&*error.kind, AgentErrorKind::Guardrail { report, .. } if report.information == "homework"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Guardrail {
    pub(super) name: Arc<str>,
    pub(super) closure: Closure,
    pub(super) timeout: Option<Duration>,
    pub(super) fails_open: bool,
    pub(super) tools: Option<Arc<BTreeSet<String>>>,
}

/// The failure of a hook. It is the source of
/// [`AgentErrorKind::HookFailed`](haft_core::agent::AgentErrorKind::HookFailed) if the hook has a
/// name or belongs to a named extension.
#[derive(Debug, thiserror::Error)]
#[error("in {}", describe(hook, extension))]
#[non_exhaustive]
pub struct HookFailure {
    /// The name of the hook. Empty if it has none.
    pub hook: String,
    /// The name of the extension. Empty for hooks of the agent builder.
    pub extension: String,
    /// The error of the hook, its panic, or its timeout.
    pub source: BoxError,
}

fn describe(hook: &str, extension: &str) -> String {
    match (hook, extension) {
        (hook, "") => format!("the hook {hook:?}"),
        ("", extension) => format!("the extension {extension:?}"),
        (hook, extension) => format!("the hook {hook:?} of the extension {extension:?}"),
    }
}

impl HookFailure {
    pub(crate) fn new(hook: impl Into<String>, extension: impl Into<String>, source: BoxError) -> Self {
        Self { hook: hook.into(), extension: extension.into(), source }
    }
}

impl Guardrail {
    /// Creates a guardrail over the new messages of the user, see
    /// [`Hook::on_input`](super::Hook::on_input).
    pub fn input<F, Fut>(name: impl Into<String>, judge: F) -> Self
    where
        F: Fn(Vec<Arc<Message>>, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Vec<Message>>> + Send + 'static,
    {
        Self::new(name, Closure::Input(Arc::new(move |messages, cx| judge(messages, cx).boxed())))
    }

    /// Creates a guardrail over the answer, see [`Hook::on_answer`](super::Hook::on_answer).
    pub fn answer<F, Fut>(name: impl Into<String>, judge: F) -> Self
    where
        F: Fn(Output, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Output>> + Send + 'static,
    {
        Self::new(name, Closure::Answer(Arc::new(move |output, cx| judge(output, cx).boxed())))
    }

    /// Creates a guardrail over the arguments of calls, see
    /// [`Hook::before_call`](super::Hook::before_call).
    pub fn call<F, Fut>(name: impl Into<String>, judge: F) -> Self
    where
        F: Fn(CallArguments, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Value>> + Send + 'static,
    {
        Self::new(name, Closure::Call(Arc::new(move |call, cx| judge(call, cx).boxed())))
    }

    /// Creates a guardrail over the results of calls, see
    /// [`Hook::after_call`](super::Hook::after_call).
    pub fn result<F, Fut>(name: impl Into<String>, judge: F) -> Self
    where
        F: Fn(ToolResult, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<ToolOutput>> + Send + 'static,
    {
        Self::new(name, Closure::Result(Arc::new(move |result, cx| judge(result, cx).boxed())))
    }

    fn new(name: impl Into<String>, closure: Closure) -> Self {
        Self { name: name.into().into(), closure, timeout: None, fails_open: false, tools: None }
    }

    /// Sets the maximum duration of each run of the guardrail. Default: the [hook
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
    /// guardrails. Default: all tools.
    pub fn for_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.tools = Some(Arc::new(tools.into_iter().map(Into::into).collect()));
        self
    }
}

impl fmt::Debug for Guardrail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guardrail")
            .field("name", &self.name)
            .field("event", &self.closure.event())
            .field("fails_open", &self.fails_open)
            .finish_non_exhaustive()
    }
}
