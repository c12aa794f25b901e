//! A queue for tool calls from synchronous code. Pushing a call returns a placeholder at once. The
//! calls are executed later, and their results then replace the placeholders.
//!
//! A run knows nothing about queues: an agent wraps the tools that push calls, and their
//! pushed calls are executed before the call that pushed them has a result.

mod handle;
mod placeholder_resolver;
mod pushing_tool;
mod results;
mod selection;
mod serialization;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use futures::StreamExt as _;
use haft_core::{
    Pipeline, Timestamp, ToolCall, Toolset,
    call::{Decision, Failure, FailureKind, PendingCall},
    export::async_trait,
    pipeline::CallOutcome,
    tool::RunContext,
    toolset::{ListContext, ToolList},
};

use crate::{
    agent::RunBudget,
    run::{CallBatch, OpenCalls, ReadyCall, RunError, ToolSnapshot, failure_result},
};
use handle::{PushedCalls, Quota};
use selection::CallSelection;

pub use handle::{QueueError, QueueHandle};
pub(crate) use pushing_tool::{QueueHost, QueueScope, with_queues};
pub use results::{QueuedOutcome, QueuedResults};

/// A queue of tool calls from synchronous code, such as a template or a script.
///
/// 1. [`QueueHandle::push_call`] validates a call and returns a placeholder: a short, unguessable
///    text (128 bits).
/// 2. [`execute`](Self::execute) later runs the queued calls through the pipeline of the tools.
/// 3. [`QueuedResults::resolve_text`] replaces the placeholders in a text with the results or
///    failures.
///
/// The arguments of a call can contain the placeholders of earlier calls. Such a call is executed
/// after the earlier calls and receives their results.
///
/// In an agent, each call of a tool with a [`QueueHandle`] parameter has a queue of its own, and
/// can push calls to the other tools of the agent. The pushed calls are executed, and their results
/// replace the placeholders, before the call that pushed them has a result. Hand-off tools cannot
/// be pushed.
///
/// A queue can be serialized and continued in another process. If a process ends during a call, the
/// call is [unconfirmed](FailureKind::Unconfirmed), unless its tool is idempotent.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, tool, tool::RunContext};
/// use serde_json::json;
/// use haft_react::PendingQueue;
///
/// /// Looks up a price.
/// #[tool]
/// async fn price(item: String) -> Result<u32, String> {
///     if item == "pen" { Ok(3) } else { Err(format!("there is no {item}")) }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let tools = Toolset::new().with_tool(Price);
/// let mut queue = PendingQueue::new();
/// let run = RunContext::default();
/// let calls = queue.handle(&tools, &run).await;
///
/// // Synchronous code.
/// let render = |item: &str| calls.push_call("price", json!({"item": item}));
/// let text = format!("A pen is {}, a horse {}.", render("pen")?, render("horse")?);
///
/// queue.execute(&tools, run).await;
/// assert_eq!(queue.resolve_text(&text), "A pen is 3, a horse [price failed: there is no horse].");
/// # Ok::<(), haft_core::ToolError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct PendingQueue {
    pushed: Arc<PushedCalls>,
    /// The calls taken from `pushed` that [`next_batch`](Self::next_batch) has not selected for
    /// execution yet.
    waiting: Vec<ToolCall>,
    /// The calls that [`next_batch`](Self::next_batch) selected for execution, with their results
    /// so far.
    open: Option<OpenCalls>,
    results: QueuedResults,
}

impl PendingQueue {
    /// Creates a queue that accepts at most
    /// [`QUEUE_CALLS_TOTAL`](haft_core::limits::QUEUE_CALLS_TOTAL) calls in total.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a queue that accepts at most `calls` calls in total.
    pub fn with_max_calls(calls: usize) -> Self {
        Self::of(&Quota::new(calls, calls))
    }

    /// Returns a handle for pushing calls to this queue. The handle accepts calls to the tools in
    /// `tools` that are available in `run`.
    pub async fn handle(&self, tools: &Toolset, run: &RunContext) -> QueueHandle {
        let list = tools.list(&list_context(run)).await;
        QueueHandle::new(&self.pushed, list, tools.pipeline().clone(), Arc::default())
    }

    /// Executes all calls, including calls that are pushed during the execution. A call is executed
    /// after the calls whose results it needs.
    ///
    /// Returns the calls that wait for a decision. Report each decision with
    /// [`on_decision`](Self::on_decision), then execute the queue again.
    ///
    /// # Cancellation
    ///
    /// If the token of `run` is cancelled, every call gets a result, including the calls that wait
    /// for a decision. If the future is dropped, the next execution repeats the interrupted calls
    /// to idempotent tools and marks the other interrupted calls as unconfirmed.
    pub async fn execute(&mut self, tools: &Toolset, run: RunContext) -> Vec<PendingCall> {
        let host = ListedTools(tools.list(&list_context(&run)).await, tools.pipeline().clone());
        self.execute_while(|_| true, &host, run).await
    }

    /// Executes the calls with the tools of `host`, like [`execute`](Self::execute). Starts further
    /// calls only while `goes_on` returns `true`.
    async fn execute_while(
        &mut self,
        goes_on: fn(&Self) -> bool,
        host: &dyn QueueHost,
        run: RunContext,
    ) -> Vec<PendingCall> {
        let (tools, pipeline, run) = (host.tools(), host.pipeline(), Arc::new(run));
        if let Some(open) = &mut self.open {
            let _ = open.recover(Timestamp::now());
        }
        while let Some(mut batch) = self.next_batch(tools) {
            if run.cancellation.is_cancelled() || !goes_on(self) {
                break;
            }
            self.apply_limits(&mut batch, &run);
            host.before_calls(&mut batch).await;
            let batch = batch.for_pipeline(tools, Arc::clone(&run));
            let mut outcomes = pipeline.stream_batch(batch).boxed();
            while let Some((_, outcome)) = outcomes.next().await {
                let id = outcome.call_id().to_owned();
                let outcome = host.after_call(outcome).await;
                self.record(&id, outcome);
            }
        }
        if run.cancellation.is_cancelled() {
            self.cancel();
        }
        self.pending_calls()
    }

    /// Returns the calls that can be executed now, or `None` if there are none. A call is returned
    /// again only after a decision or a recovery.
    fn next_batch(&mut self, tools: &ToolList) -> Option<CallBatch> {
        loop {
            if let Some(open) = &mut self.open {
                let batch = open.take_ready();
                if !batch.calls.is_empty() {
                    return Some(batch);
                }
                if !open.are_finished() {
                    return None;
                }
                self.close_open_calls();
            }
            self.waiting.extend(self.pushed.take());
            if self.waiting.is_empty() {
                return None;
            }
            let CallSelection { ready, waiting, failed } =
                CallSelection::new(std::mem::take(&mut self.waiting), &self.results);
            self.waiting = waiting;
            let now = Timestamp::now();
            let failed = failed.iter().map(|(call, why)| failure_result(call, FailureKind::Failed, why, now));
            self.results.extend(failed);
            self.open = (!ready.is_empty()).then(|| {
                let called = ToolSnapshot::of_calls(&ready, tools);
                OpenCalls::new(ready, &called)
            });
        }
    }

    /// Takes the new calls of `batch` from the budget of the run in `context`. Calls that a limit
    /// forbids are denied.
    fn apply_limits(&mut self, batch: &mut CallBatch, context: &RunContext) {
        let Some(budget) = context.state.get::<RunBudget>() else { return };
        let is_new = |ready: &ReadyCall| ready.resumed.is_none();
        let new = batch.calls.iter().filter(|ready| is_new(ready)).count();
        if new > 0
            && let Err(limit) = budget.reserve_calls(u32::try_from(new).unwrap_or(u32::MAX))
        {
            for ready in batch.calls.iter_mut().filter(|ready| is_new(ready)) {
                ready.denied = Some(format!("not run: {limit}"));
            }
            return;
        }
        for ready in batch.calls.iter_mut().filter(|ready| is_new(ready)) {
            if let Some(maximum) = ready.tool.max_calls {
                ready.denied = budget.reserve_call(&ready.call.name, maximum).err();
            }
        }
    }

    /// Records the outcome of the call `id`.
    fn record(&mut self, id: &str, outcome: CallOutcome) {
        let Some(open) = &mut self.open else { return };
        // Each call is in progress and has only one outcome, so this cannot fail.
        let _ = match outcome {
            CallOutcome::Finished(result) => open.finish(id, result).map(drop),
            CallOutcome::Pending(PendingCall { pending, .. }) => open.suspend(id, pending),
        };
    }

    /// Records the decision for the suspended call `id`, which may be nested inside another
    /// suspended call. [`execute`](Self::execute) then continues with this call.
    ///
    /// # Errors
    ///
    /// Fails if no call with this id is suspended, or if the call needs another kind of decision.
    pub fn on_decision(&mut self, id: &str, decision: Decision) -> Result<(), RunError> {
        let none = || RunError::CallNotWaiting { id: id.to_owned(), waiting: "none".to_owned() };
        self.open.as_mut().ok_or_else(none)?.decide(id, decision)
    }

    /// Returns the calls that wait for a decision.
    pub fn pending_calls(&self) -> Vec<PendingCall> {
        self.open.as_ref().map(OpenCalls::pending_calls).unwrap_or_default()
    }

    /// Cancels all calls without a result. Their results are then failures of the kind
    /// [`Cancelled`](FailureKind::Cancelled).
    pub fn cancel(&mut self) {
        self.close_open_calls();
        self.waiting.extend(self.pushed.take());
        let open = OpenCalls::new(std::mem::take(&mut self.waiting), &BTreeMap::new());
        self.results.extend(open.into_results(FailureKind::Cancelled, "cancelled", Timestamp::now()));
    }

    fn close_open_calls(&mut self) {
        if let Some(open) = self.open.take() {
            self.results.extend(open.into_results(FailureKind::Cancelled, "cancelled", Timestamp::now()));
        }
    }

    fn of(quota: &Arc<Quota>) -> Self {
        Self { pushed: Arc::new(PushedCalls::new(quota)), ..Self::default() }
    }

    /// Rejects calls that are pushed later.
    fn close(&mut self) {
        self.waiting.extend(self.pushed.close());
    }

    /// Returns `true` if no call was pushed.
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.open.is_none() && self.results.is_empty()
    }

    /// Returns the failure of a call that ends the run. `None` if there is no such call.
    fn fatal_failure(&self) -> Option<Failure> {
        self.results().iter().find_map(|(_, queued)| match queued {
            QueuedOutcome::Executed(result) => {
                result.failure().filter(|failure| failure.kind == FailureKind::Fatal).cloned()
            }
            QueuedOutcome::Unexecuted { .. } => None,
        })
    }

    /// Returns the results so far. Calls without a result are included as
    /// [`QueuedOutcome::Unexecuted`].
    pub fn results(&self) -> QueuedResults {
        let mut results = self.results.clone();
        let pushed = self.pushed.calls();
        results.note_unexecuted(self.waiting.iter().chain(&pushed));
        results.note_unexecuted(self.open.iter().flat_map(OpenCalls::unfinished));
        results.extend(self.open.iter().flat_map(OpenCalls::results).cloned());
        results
    }

    /// Replaces the placeholders in `text` with the results so far.
    pub fn resolve_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.results().resolve_text(text)
    }
}

fn list_context(run: &RunContext) -> ListContext {
    ListContext { state: run.state.clone(), run_id: run.run_id.clone(), ..ListContext::default() }
}

/// The host of a queue that belongs to no tool call.
struct ListedTools(ToolList, Pipeline);

#[async_trait]
impl QueueHost for ListedTools {
    fn tools(&self) -> &ToolList {
        &self.0
    }

    fn pipeline(&self) -> Pipeline {
        self.1.clone()
    }
}
