//! Tools that push calls. The pushed calls are executed before the call that pushed them has a
//! result.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use haft_core::{
    Pipeline, Tool, ToolContext, ToolDefinition, ToolError, ToolOutput, Toolset,
    call::{Decision, Failure, Pending, PendingCall, PendingKind, ToolResponse},
    export::async_trait,
    pipeline::CallOutcome,
    tool::{OnCancel, RunContext, StateType, ToolPolicy},
    toolset::ToolList,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep_until;

use super::{PendingQueue, QueueHandle, QueuedResults, Quota};
use crate::run::CallBatch;

/// The part of an agent that tools need to push calls.
#[async_trait]
pub(crate) trait QueueHost: Send + Sync {
    /// Returns the tools that can be called by pushed calls.
    fn tools(&self) -> &ToolList;

    /// Returns the pipeline that runs the pushed calls.
    fn pipeline(&self) -> Pipeline;

    /// Called before the pushed calls of `batch` are executed. The host can emit events, deny calls
    /// and change arguments. It must not add or remove calls.
    async fn before_calls(&self, _batch: &mut CallBatch) {}

    /// Called with the outcome of each pushed call. The host can emit events and change the
    /// outcome.
    async fn after_call(&self, outcome: CallOutcome) -> CallOutcome {
        outcome
    }
}

/// The [`QueueHost`] of some calls, in the host state of their context.
#[derive(Clone)]
pub(crate) struct QueueScope {
    host: Arc<dyn QueueHost>,
    /// The tools whose calls led to the calls of this scope, from the outermost to the innermost
    /// one. Empty for the calls of a reply.
    callers: Arc<[String]>,
    /// The quota of the outermost pushing call. `None` for the calls of a reply.
    quota: Option<Arc<Quota>>,
}

impl QueueScope {
    /// Creates the scope for the calls of a reply.
    pub(crate) fn new(host: impl QueueHost + 'static) -> Self {
        Self { host: Arc::new(host), callers: Arc::default(), quota: None }
    }

    /// Returns `context`, the context of the calls, with this scope.
    ///
    /// A [`QueueHandle`] in the context is closed. It belongs to the call that started this run,
    /// for example of an agent used as a tool, and would push calls to the tools of another agent.
    #[must_use]
    pub(crate) fn in_context(self, mut context: RunContext) -> RunContext {
        if context.state.get::<QueueHandle>().is_some() {
            context.state = context.state.with_value(QueueHandle::closed());
        }
        RunContext { state: context.state.with_value(self), ..context }
    }
}

/// Wraps each tool in `tools` that uses a [`QueueHandle`]. Each call of such a tool has a queue of
/// its own. After the tool has returned, the pushed calls are executed, and their results replace
/// the placeholders in the result of the tool.
///
/// - If a pushed call waits for a decision, the pushing call is suspended with it. When it is
///   resumed, it continues with the remaining pushed calls. The tool is not called again.
/// - If the tool fails or is suspended, its pushed calls are discarded.
/// - The timeout of the tool includes the pushed calls.
/// - A pushed call counts towards the limits of the [`RunBudget`](crate::run::RunBudget) in the
///   context. A call that a limit forbids is denied.
#[must_use]
pub(crate) fn with_queues(tools: Toolset) -> Toolset {
    tools.adapted(|tool: &Arc<dyn Tool>| Some(PushingTool::wrap(tool)))
}

/// A tool whose calls have a queue.
struct PushingTool {
    tool: Arc<dyn Tool>,
    /// The definition of `tool`, which no longer requires a [`QueueHandle`] from the host program.
    definition: ToolDefinition,
}

/// A call of a pushing tool that waits for pushed calls, as saved in the continuation of the call.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SuspendedPush {
    pushed_calls: PendingQueue,
    /// The output of the tool, with placeholders.
    output: ToolOutput,
}

impl PushingTool {
    fn wrap(tool: &Arc<dyn Tool>) -> Arc<dyn Tool> {
        let handle = StateType::of::<QueueHandle>();
        if !tool.definition().state_types().contains(&handle) {
            return Arc::clone(tool);
        }
        // The pushed calls end before this call, and they can read any host state.
        let policy =
            |policy| ToolPolicy { on_cancel: Some(OnCancel::Subtasks), cacheable: Some(false), ..policy };
        let definition = tool.definition().clone().without_state_type(handle).map_policy(policy);
        Arc::new(Self { tool: Arc::clone(tool), definition })
    }

    /// Calls the tool with `queue`. Returns its output if it succeeds.
    async fn call_tool(
        &self,
        arguments: Value,
        cx: &ToolContext,
        queue: &mut PendingQueue,
        scope: &QueueScope,
    ) -> Result<Result<ToolOutput, Pending>, ToolError> {
        let (tools, pipeline) = (scope.host.tools().clone(), scope.host.pipeline());
        let handle = QueueHandle::new(&queue.pushed, tools, pipeline, Arc::clone(&scope.callers));
        let response = self.tool.call(arguments, &cx.clone().with_state(handle)).await;
        queue.close();
        match response {
            Ok(ToolResponse::Done(output)) => Ok(Ok(output)),
            Ok(ToolResponse::Pending(pending)) => Ok(Err(pending)),
            Err(error) => Err(resolve_error(error, &queue.results())),
        }
    }
}

#[async_trait]
impl Tool for PushingTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        let Some(outer) = cx.host_state().get::<QueueScope>() else {
            return self.tool.call(arguments, cx).await;
        };
        let own_name = self.definition.name().to_string();
        let callers = outer.callers.iter().cloned().chain([own_name]).collect();
        let mut scope = QueueScope { callers, ..outer.clone() };
        let (mut queue, output) = match SuspendedPush::resume(cx)? {
            Some(SuspendedPush { pushed_calls, output }) => (pushed_calls, output),
            None => {
                let mut queue = scope.quota.as_ref().map_or_else(PendingQueue::new, PendingQueue::of);
                match self.call_tool(arguments, cx, &mut queue, &scope).await? {
                    Ok(output) => (queue, output),
                    Err(pending) => return Ok(ToolResponse::Pending(pending)),
                }
            }
        };
        if queue.is_empty() {
            return Ok(output.into());
        }
        scope.quota.get_or_insert_with(|| Arc::clone(queue.pushed.quota()));
        let pending = execute_pushed(&mut queue, scope, cx).await;
        if let Some(fatal) = queue.fatal_failure() {
            return Err(fatal.into());
        }
        if pending.is_empty() {
            return Ok(queue.results().resolve_output(output).into());
        }
        let suspended = SuspendedPush { pushed_calls: queue, output };
        Ok(ToolResponse::Pending(suspended.suspend(pending)))
    }
}

impl SuspendedPush {
    /// Restores the state of the call with the context `cx`, and reports the decisions about its
    /// pushed calls. `None` if the call does not wait for pushed calls.
    fn resume(cx: &ToolContext) -> Result<Option<Self>, ToolError> {
        let (Some(continuation), Some(Decision::Nested { decisions })) = (cx.continuation(), cx.decision())
        else {
            return Ok(None);
        };
        // Another continuation belongs to the tool itself.
        let Ok(mut saved) = Self::deserialize(continuation) else { return Ok(None) };
        for (id, decision) in decisions {
            saved.pushed_calls.on_decision(id, decision.clone()).map_err(ToolError::failed)?;
        }
        Ok(Some(saved))
    }

    /// Returns the pending state of a call that waits for the `pending` pushed calls.
    fn suspend(self, mut pending: Vec<PendingCall>) -> Pending {
        // The queue contains the data of the pushed calls. Copies would double at each depth.
        pending.iter_mut().for_each(|call| call.pending.continuation = Value::Null);
        Pending::new(PendingKind::Nested { pending }).with_continuation(json!(self))
    }
}

/// Executes the pushed calls of the call with the context `cx`. Cancels them at the deadline of
/// this call. Returns the calls that wait for a decision.
async fn execute_pushed(queue: &mut PendingQueue, scope: QueueScope, cx: &ToolContext) -> Vec<PendingCall> {
    let host = Arc::clone(&scope.host);
    let run = cx.run_context();
    let cancellation = run.cancellation.child_token();
    let for_calls = RunContext {
        state: run.state.clone().with_value(scope),
        cancellation: cancellation.clone(),
        ..run.clone()
    };
    // A fatal failure ends the run, so no further calls are started.
    let executed = queue.execute_while(|queue| queue.fatal_failure().is_none(), &*host, for_calls);
    // The pipeline has to notice the deadline first, so that the result of the call is a timeout.
    match cx.deadline().and_then(|deadline| deadline.checked_add(Duration::from_millis(1))) {
        None => executed.await,
        Some(deadline) => or_at_end_of(sleep_until(deadline), executed, || cancellation.cancel()).await,
    }
}

/// Awaits `work`. Calls `cancel` if `timer` ends first.
async fn or_at_end_of<T>(
    timer: impl Future<Output = ()>,
    work: impl Future<Output = T>,
    cancel: impl FnOnce(),
) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        output = &mut work => output,
        () = timer => {
            cancel();
            work.await
        }
    }
}

/// Replaces the placeholders in the text of `error`. The pushed calls of a failed call are not
/// executed.
fn resolve_error(error: ToolError, results: &QueuedResults) -> ToolError {
    let resolve = |text: String| results.resolve_text(&text).into_owned();
    match error {
        ToolError::InvalidArguments(text) => ToolError::InvalidArguments(resolve(text.into_owned()).into()),
        ToolError::Retry(text) => ToolError::Retry(resolve(text)),
        ToolError::Failed { message, source } => ToolError::Failed { message: resolve(message), source },
        ToolError::Denied(text) => ToolError::Denied(resolve(text)),
        ToolError::Unconfirmed(text) => ToolError::Unconfirmed(resolve(text)),
        ToolError::Fatal(text) => ToolError::Fatal(resolve(text)),
        ToolError::Inner(failure) => {
            ToolError::Inner(Failure { message: resolve(failure.message.clone()), ..failure })
        }
        other => other,
    }
}
