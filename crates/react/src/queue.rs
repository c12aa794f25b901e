//! Calls from code that cannot wait for them: executed later, with their results in the place of what stood for them.

mod calls;
mod filling;
mod handle;
mod results;
mod rounds;
mod saved;

use std::{borrow::Cow, sync::Arc};

use futures::StreamExt as _;
use haft_core::{
    Message, Timestamp, ToolCall, ToolResult, Toolset,
    call::{Answer, FailureKind, PendingCall},
    pipeline::{Batch, CallOutcome},
    tool::RunContext,
    toolset::{ListContext, ToolList},
};

use crate::{
    CallBatch, RunError,
    run::{OpenCalls, queued},
};

pub(crate) use calls::Queues;
pub(crate) use handle::{Pushed, Room};
pub use handle::{QueueError, QueueHandle};
pub(crate) use results::{Learned, is_placeholder};
pub use results::{Queued, QueuedResults};
pub(crate) use rounds::{Round, next_round};

/// Calls that synchronous code makes and cannot wait for: a template, a script, a plain function.
///
/// Each call that is [pushed](QueueHandle::push) is validated at once and gives a placeholder, a short text that nobody can
/// guess. The queue is [executed](Self::execute) later, through the pipeline of the tools, and whoever shows the text puts the
/// results, or the failures, [in the places](QueuedResults::in_text) of the placeholders. The arguments of a call may hold placeholders of earlier
/// ones: it is made when their results are there, with these in their places.
///
/// Inside an agent there is a queue for each run: a tool that asks for a [`QueueHandle`] as its state pushes calls of the agent's tools,
/// which are executed before the next request, and the model reads their results.
///
/// A queue is data: it serialises, and goes on in another process. A call is handed out once; one that was handed out when
/// its process was lost is [unconfirmed](FailureKind::Unconfirmed), unless its tool is idempotent.
///
/// # Examples
///
/// ```
/// use haft_core::{tool, tool::{RunContext}, Toolset};
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
/// let tools = Toolset::new().with(Price);
/// let mut queue = PendingQueue::new();
/// let run = RunContext::default();
/// let calls = queue.handle(&tools, &run).await;
///
/// // Code that cannot wait.
/// let render = |item: &str| calls.push("price", json!({"item": item}));
/// let text = format!("A pen is {}, a horse {}.", render("pen")?, render("horse")?);
///
/// queue.execute(&tools, run).await;
/// assert_eq!(queue.show(&text), "A pen is 3, a horse [price failed: there is no horse].");
/// # Ok::<(), haft_core::ToolError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct PendingQueue {
    pushed: Arc<Pushed>,
    /// What was pushed and not handed out.
    waiting: Vec<ToolCall>,
    /// The calls of the present round.
    open: Option<OpenCalls>,
    results: QueuedResults,
}

impl PendingQueue {
    /// Makes an empty queue, for at most [`QUEUED_CALLS`](haft_core::limits::QUEUED_CALLS).
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty queue for at most this many calls.
    pub fn with_capacity(calls: usize) -> Self {
        Self { pushed: Arc::new(Pushed::within(&Room::new(calls))), ..Self::default() }
    }

    /// The end of the queue for synchronous code, which pushes calls of the tools that are there for `run`.
    pub async fn handle(&self, tools: &Toolset, run: &RunContext) -> QueueHandle {
        QueueHandle::new(&self.pushed, tools.list(&listing(run)).await, tools.pipeline().clone())
    }

    /// Executes what was pushed, and what is pushed meanwhile, in rounds: a call comes after those whose results it needs.
    /// Gives the calls that wait for somebody; when they have their [answers](Self::on_answer), the queue is executed
    /// again.
    ///
    /// # Cancellation
    ///
    /// Cancelled by the token of `run`, every call gets its result. Where the future is dropped, calls that were under way are
    /// unconfirmed the next time, or go again if their tools are idempotent.
    pub async fn execute(&mut self, tools: &Toolset, run: RunContext) -> Vec<PendingCall> {
        let list = tools.list(&listing(&run)).await;
        self.recover(&list);
        let run = Arc::new(run);
        while let Some(CallBatch { calls, resumed, .. }) = self.hand_out(&list) {
            if run.cancellation.is_cancelled() {
                self.cancel();
                break;
            }
            let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
            let batch =
                Batch { tools: list.clone(), calls, resumed, run: Arc::clone(&run), ..Batch::default() };
            let mut outcomes = tools.pipeline().batch(batch).boxed();
            while let Some((place, outcome)) = outcomes.next().await {
                let Some(id) = ids.get(place) else { continue };
                // They are under way: each was handed out, and comes back once.
                let _ = match outcome {
                    CallOutcome::Finished(result) => self.on_result(id, result),
                    CallOutcome::Pending(pending) => self.on_pending(pending),
                };
            }
        }
        self.pending()
    }

    /// Hands out the calls that can be made now, for a driver of its own. Each is handed out once: who must survive a crash
    /// saves the queue before the calls are made.
    pub fn hand_out(&mut self, tools: &ToolList) -> Option<CallBatch> {
        loop {
            if let Some(open) = &mut self.open {
                let batch = open.hand_out(tools);
                if !batch.calls.is_empty() {
                    return Some(batch);
                }
                if !open.are_finished() {
                    return None;
                }
                self.settle(FailureKind::Cancelled, "cancelled");
            }
            self.waiting.extend(self.pushed.take());
            if self.waiting.is_empty() {
                return None;
            }
            let Round { calls, failed } = next_round(&mut self.waiting, &self.results, Timestamp::now());
            self.results.extend(failed);
            self.open = (!calls.is_empty()).then(|| OpenCalls::new(calls));
        }
    }

    /// Tells what came of a call that was handed out.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id is under way.
    pub fn on_result(&mut self, id: &str, result: ToolResult) -> Result<(), RunError> {
        let open = self.open.as_mut().ok_or_else(|| RunError::NotUnderWay(id.to_owned()))?;
        let (call, _) = open.under_way_as(id)?;
        let result = ToolResult { call_id: call.id.clone(), name: call.name.clone(), ..result };
        open.finish(id, result).map(|_| ())
    }

    /// Tells that a call that was handed out must wait.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id is under way.
    pub fn on_pending(&mut self, pending: PendingCall) -> Result<(), RunError> {
        let PendingCall { call, pending } = pending;
        let open = self.open.as_mut().ok_or_else(|| RunError::NotUnderWay(call.id.clone()))?;
        open.suspend(&call.id, pending)
    }

    /// Gives a call that waits its answer.
    ///
    /// # Errors
    ///
    /// Fails when no call of this id waits, or when it waits for something else.
    pub fn on_answer(&mut self, id: &str, answer: Answer) -> Result<(), RunError> {
        let none = || RunError::NotWaiting { id: id.to_owned(), waiting: "none".to_owned() };
        self.open.as_mut().ok_or_else(none)?.answer(id, answer)
    }

    /// The calls that wait for somebody.
    pub fn pending(&self) -> Vec<PendingCall> {
        self.open.as_ref().map(OpenCalls::pending).unwrap_or_default()
    }

    /// Takes up a queue whose driver is gone: calls of idempotent tools that were under way go again, and the others are
    /// [unconfirmed](FailureKind::Unconfirmed).
    pub fn recover(&mut self, tools: &ToolList) {
        if let Some(open) = &mut self.open {
            open.recover(Timestamp::now(), |call| queued::may_go_again(tools, call));
        }
    }

    /// Gives every call that has no result one that says that it was cancelled.
    pub fn cancel(&mut self) {
        self.settle(FailureKind::Cancelled, "cancelled");
        self.waiting.extend(self.pushed.take());
        let open = OpenCalls::new(std::mem::take(&mut self.waiting));
        self.results.extend(open.close(FailureKind::Cancelled, "cancelled", Timestamp::now()));
    }

    /// The calls that were pushed and not handed out, for a driver of its own to [tell its run](crate::Run::on_queued) of. The handles of
    /// the queue take nothing after that.
    pub fn into_calls(mut self) -> Vec<ToolCall> {
        self.waiting.extend(self.pushed.close());
        self.waiting
    }

    fn settle(&mut self, kind: FailureKind, why: &str) {
        if let Some(open) = self.open.take() {
            self.results.extend(open.close(kind, why, Timestamp::now()));
        }
    }

    /// What is known of all calls: those that were not executed are told as such.
    pub fn results(&self) -> QueuedResults {
        let mut results = self.results.clone();
        let pushed = self.pushed.calls();
        results.note_unexecuted(self.waiting.iter().chain(&pushed));
        results.note_unexecuted(self.open.iter().flat_map(OpenCalls::unfinished));
        results.extend(self.open.iter().flat_map(OpenCalls::results).cloned());
        results
    }

    /// A text with the results in their places.
    pub fn show<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.results().in_text(text)
    }

    /// The message that tells a conversation of the results: whoever shows the conversation to a model puts them into their
    /// places, also those in messages that stand before it. A [run](crate::Run) does so by itself.
    pub fn note(&self) -> Option<Message> {
        self.results().note()
    }
}

fn listing(run: &RunContext) -> ListContext {
    ListContext { state: run.state.clone(), run_id: run.run_id.clone(), ..ListContext::default() }
}
