//! A queue for tool calls from synchronous code. Pushing a call returns a placeholder at once. The
//! calls are executed later, and their results then replace the placeholders.
//!
//! This module extends [`run`](crate::run) only through its public items. A driver passes the
//! queued calls to [`Run::add_calls`](crate::Run::add_calls) and executes them as part of the run.
//! [`QueueResolver`] implements [`Resolver`](crate::run::Resolver) and inserts their results.

mod call_queues;
mod handle;
mod placeholder_resolver;
mod placeholders;
mod results;
mod selection;
mod serialization;

use std::{borrow::Cow, sync::Arc};

use futures::StreamExt as _;
use haft_core::{
    Message, Timestamp, ToolCall, ToolResult, Toolset,
    call::{Decision, FailureKind, PendingCall},
    pipeline::CallOutcome,
    tool::RunContext,
    toolset::{ListContext, ToolList},
};

use crate::{
    open_calls::{OpenCalls, failure_result},
    run::{CallBatch, CallSelection, RunError},
};
use handle::{PushedCalls, Quota};
use selection::select_calls;

pub use call_queues::CallQueues;
pub use handle::{QueueError, QueueHandle};
pub use placeholders::QueueResolver;
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
/// A run of an agent has a queue if a tool added directly to the toolset of the agent takes a
/// [`QueueHandle`] as state, or if
/// [`ReactAgentBuilder::pending_queue`](crate::ReactAgentBuilder::pending_queue) was called. Tools
/// with a [`QueueHandle`] can then push calls to the agent's tools. The pushed calls are executed
/// before the next model request, in which their results replace the placeholders.
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
        Self { pushed: Arc::new(PushedCalls::new(&Quota::new(calls, calls))), ..Self::default() }
    }

    /// Returns a handle for pushing calls to this queue. The handle accepts calls to the tools in
    /// `tools` that are available in `run`.
    pub async fn handle(&self, tools: &Toolset, run: &RunContext) -> QueueHandle {
        QueueHandle::new(&self.pushed, tools.list(&list_context(run)).await, tools.pipeline().clone())
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
        let list = tools.list(&list_context(&run)).await;
        self.recover(&list);
        let run = Arc::new(run);
        while let Some(batch) = self.next_batch(&list) {
            if run.cancellation.is_cancelled() {
                break;
            }
            let ids: Vec<_> = batch.calls.iter().map(|call| call.id.clone()).collect();
            let batch = batch.into_batch(list.clone(), Arc::clone(&run));
            let mut outcomes = tools.pipeline().stream_batch(batch).boxed();
            while let Some((place, outcome)) = outcomes.next().await {
                let Some(id) = ids.get(place) else { continue };
                // Each call is in progress and has only one outcome, so reporting the outcome
                // cannot fail.
                let _ = match outcome {
                    CallOutcome::Finished(result) => self.on_result(id, result),
                    CallOutcome::Pending(pending) => self.on_pending(pending),
                };
            }
        }
        if run.cancellation.is_cancelled() {
            self.cancel();
        }
        self.pending_calls()
    }

    /// Returns the calls that can be executed now, or `None` if there are none. A call is returned
    /// again only after a decision or a recovery.
    ///
    /// This method is for custom drivers. To survive a crash, save the queue before executing the
    /// calls.
    pub fn next_batch(&mut self, tools: &ToolList) -> Option<CallBatch> {
        loop {
            if let Some(open) = &mut self.open {
                let (batch, _) = open.take_ready(tools);
                if !batch.calls.is_empty() {
                    return Some(batch);
                }
                if !open.are_finished() {
                    return None;
                }
                self.close_open_calls(FailureKind::Cancelled, "cancelled");
            }
            self.waiting.extend(self.pushed.take());
            if self.waiting.is_empty() {
                return None;
            }
            let CallSelection { ready, waiting, failed } =
                select_calls(std::mem::take(&mut self.waiting), &self.results);
            self.waiting = waiting;
            let now = Timestamp::now();
            let failed = failed.iter().map(|(call, why)| failure_result(call, FailureKind::Failed, why, now));
            self.results.extend(failed);
            self.open = (!ready.is_empty()).then(|| OpenCalls::new(ready));
        }
    }

    /// Records the result of the call `id`, which [`next_batch`](Self::next_batch) returned.
    ///
    /// # Errors
    ///
    /// Fails if no call with this id is in progress.
    pub fn on_result(&mut self, id: &str, result: ToolResult) -> Result<(), RunError> {
        let open = self.open.as_mut().ok_or_else(|| RunError::NotInProgress(id.to_owned()))?;
        let (call, _) = open.find_in_progress(id)?;
        let result = ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result };
        open.finish(id, result).map(|_| ())
    }

    /// Records that the call in `pending` is suspended and waits for a decision.
    ///
    /// # Errors
    ///
    /// Fails if the call in `pending` is not in progress.
    pub fn on_pending(&mut self, pending: PendingCall) -> Result<(), RunError> {
        let PendingCall { call, pending } = pending;
        let open = self.open.as_mut().ok_or_else(|| RunError::NotInProgress(call.id.clone()))?;
        open.suspend(&call.id, pending)
    }

    /// Records the decision for the suspended call `id`. [`next_batch`](Self::next_batch) then
    /// returns this call again, or the outer call if `id` is nested inside another suspended call.
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

    /// Prepares the queue for a new driver after the previous driver stopped. Interrupted calls to
    /// idempotent tools are executed again. Other interrupted calls become
    /// [unconfirmed](FailureKind::Unconfirmed).
    pub fn recover(&mut self, tools: &ToolList) {
        if let Some(open) = &mut self.open {
            open.recover(Timestamp::now(), tools);
        }
    }

    /// Cancels all calls without a result. Their results are then failures of the kind
    /// [`Cancelled`](FailureKind::Cancelled).
    pub fn cancel(&mut self) {
        self.close_open_calls(FailureKind::Cancelled, "cancelled");
        self.waiting.extend(self.pushed.take());
        let open = OpenCalls::new(std::mem::take(&mut self.waiting));
        self.results.extend(open.into_results(FailureKind::Cancelled, "cancelled", Timestamp::now()));
    }

    fn close_open_calls(&mut self, kind: FailureKind, why: &str) {
        if let Some(open) = self.open.take() {
            self.results.extend(open.into_results(kind, why, Timestamp::now()));
        }
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

    /// Returns a message that records the results in a conversation, or `None` if there are no
    /// results.
    ///
    /// If a conversation contains this message, an agent replaces the placeholders in all messages
    /// that it sends to the model, including earlier messages. Placeholders in the reasoning and
    /// the tool calls of the model are not replaced.
    pub fn results_message(&self) -> Option<Message> {
        self.results().results_message()
    }
}

fn list_context(run: &RunContext) -> ListContext {
    ListContext { state: run.state.clone(), run_id: run.run_id.clone(), ..ListContext::default() }
}
