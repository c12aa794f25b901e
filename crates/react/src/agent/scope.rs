//! What the effects of a driven run share.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::stream::BoxStream;
use haft_core::{
    ChatModel, Message, RunEvent, Timestamp,
    message::TranscriptView,
    model::{ChatSettings, ToolChoice},
    tool::RunContext,
    toolset::ToolList,
};

use super::{
    ReactAgent, RunBudget,
    clock::Clock,
    events::{EventSink, ProgressRelay},
    handle::Mailbox,
    tool_warnings::ToolWarnings,
};
use crate::{
    Dialect, Run,
    entries::Entries,
    hook::HookContext,
    run::{NestedUsage, Outcome},
};

/// What the effects of a run share while this process drives it: the context of the run, its clock,
/// the [entries](Entries) of extensions, the budget for nested runs, the messages of a
/// [`RunHandle`](crate::RunHandle), and the tools of the current step. Cheap to clone.
///
/// A driver creates a scope, [performs](ReactAgent::perform) the effects of the run with it, and
/// calls [`close`](Self::close) at the end.
///
/// # Examples
///
/// A driver that saves the run before each effect and after each outcome. After a crash, it loads
/// the run, creates a new scope, and goes on: a call whose effect may have happened fails as
/// unconfirmed. The example `own-driver` keeps a journal of the outcomes instead.
///
/// ```
/// use futures::StreamExt;
/// use haft_core::{Toolset, tool::RunContext};
/// use haft_react::{Effect, ReactAgent, RunScope};
/// use haft_testing::ScriptedModel;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let agent = ReactAgent::new(ScriptedModel::new().reply_text("Hello!"), Toolset::new())?;
/// let mut run = agent.create_run("Hi".into())?;
/// let scope = RunScope::new(&mut run, RunContext::default());
/// let mut saved = Vec::new();
/// let answer = loop {
///     let effect = match run.next(scope.now())? {
///         Effect::Done(answer) => break answer,
///         Effect::Wait(pending) => unimplemented!("ask for decisions about {pending:?}"),
///         effect => effect,
///     };
///     saved.push(serde_json::to_string(&run)?);
///     let mut outcomes = agent.perform(&run, effect, &scope);
///     while let Some(outcome) = outcomes.next().await {
///         run.apply(outcome?, scope.now())?;
///         saved.push(serde_json::to_string(&run)?);
///     }
/// };
/// scope.close(&mut run);
/// assert_eq!((answer.text.as_str(), saved.len()), ("Hello!", 4));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RunScope(Arc<ScopeInner>);

struct ScopeInner {
    /// The context of the run, with the budget, the entries and the progress of calls.
    context: RunContext,
    entries: Entries,
    budget: RunBudget,
    events: EventSink,
    clock: Clock,
    mailbox: Mailbox,
    cache: Mutex<Cache>,
}

/// What a later effect reuses.
#[derive(Default)]
struct Cache {
    /// The inputs of the last [`Effect::Prepare`].
    inputs: Option<StepInputs>,
    /// The instructions of the last step. A message caches its rendered text, so it is reused if
    /// the text is unchanged.
    instructions: Option<Arc<Message>>,
    /// The agent that performs the effects, and the context with its state.
    context: Option<(ReactAgent, Arc<RunContext>)>,
    warnings: ToolWarnings,
}

/// The inputs of a model request.
#[derive(Clone)]
pub(super) struct StepInputs {
    pub(super) tools: ToolList,
    pub(super) instructions: Option<Arc<Message>>,
    pub(super) tool_choice: ToolChoice,
    pub(super) settings: ChatSettings,
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) dialect: Arc<dyn Dialect>,
    /// The messages of the request, if a hook has changed them.
    pub(super) messages: Option<TranscriptView>,
}

impl RunScope {
    /// Creates the scope of `run` for a new driver. `context` is the context of its
    /// [input](haft_core::RunInput::context). [Recovers](Run::recover) the run, since its previous
    /// driver may have crashed.
    pub fn new(run: &mut Run, context: RunContext) -> Self {
        let mailbox = Mailbox::attach(&context);
        Self::attach(run, context, mailbox, EventSink::unobserved())
    }

    /// Creates the scope of `run` like [`new`](Self::new), and the stream of its events. The stream
    /// ends after the scope and the effects are dropped. It does not contain [`RunEvent::Done`].
    ///
    /// Read the stream while effects are performed: it buffers 64 events, and a full buffer pauses
    /// the run (back-pressure). Replies are streamed from the model. Call
    /// [`emit_events`](Self::emit_events) after each outcome.
    pub fn with_events(run: &mut Run, context: RunContext) -> (Self, BoxStream<'static, RunEvent>) {
        let mailbox = Mailbox::attach(&context);
        let (events, reader) = EventSink::new();
        (Self::attach(run, context, mailbox, events), reader)
    }

    pub(crate) fn attach(
        run: &mut Run,
        mut context: RunContext,
        mailbox: Mailbox,
        events: EventSink,
    ) -> Self {
        run.apply_approvals(&mut context);
        run.recover();
        let budget = RunBudget::attach(&context, run);
        let entries = Entries::new(run.entries().clone());
        let progress = ProgressRelay { events: events.clone(), host: context.progress.clone() };
        let state = context.state.with_value(entries.clone());
        let context = RunContext { state, progress: Some(Arc::new(progress)), ..context };
        let context = budget.in_context(context);
        let (clock, cache) = (Clock::new(), Mutex::default());
        Self(Arc::new(ScopeInner { context, entries, budget, events, clock, mailbox, cache }))
    }

    /// Passes the [events](Run::take_events) of `run` to the reader of the events, if there is one.
    pub async fn emit_events(&self, run: &mut Run) {
        for event in run.take_events() {
            self.0.events.emit(|| event).await;
        }
    }

    /// Returns the time for [`Run::next`] and [`Run::apply`], from a monotonic clock.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Ends the driver: the [`RunHandle`](crate::RunHandle) accepts no more messages, and
    /// undelivered messages of a run that has ended are returned to it.
    pub fn close(&self, run: &mut Run) {
        self.settle(run);
        self.0.budget.release();
        self.0.mailbox.close(run);
    }

    /// Adds the use of nested runs and changed entries to `run`, and reports its usage to the
    /// enclosing runs. Calls may have been dropped before they reported them.
    pub(crate) fn settle(&self, run: &mut Run) {
        let nested = self.0.budget.take_use();
        if nested != NestedUsage::default() {
            // Every state accepts these outcomes.
            let _ = run.apply(Outcome::Nested(nested), self.now());
        }
        if let Some(entries) = self.changed_entries() {
            let _ = run.apply(entries, self.now());
        }
        self.0.budget.report(run);
    }

    /// Returns the changed entries as an outcome. `None` if no entry has changed.
    pub(super) fn changed_entries(&self) -> Option<Outcome> {
        self.0.entries.take_if_changed().map(Outcome::Entries)
    }

    pub(super) fn run_id(&self) -> &str {
        &self.0.context.run_id
    }

    pub(super) fn budget(&self) -> &RunBudget {
        &self.0.budget
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.0.mailbox
    }

    pub(crate) fn events(&self) -> &EventSink {
        &self.0.events
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.context.cancellation.is_cancelled()
    }

    /// Returns the context of the run with the state of `agent`. A value of the run takes
    /// precedence.
    pub(crate) fn context_of(&self, agent: &ReactAgent) -> Arc<RunContext> {
        let mut cache = self.cache();
        let is_known = |(known, _): &&(ReactAgent, _)| Arc::ptr_eq(&known.0, &agent.0);
        if let Some((_, context)) = cache.context.as_ref().filter(is_known) {
            return Arc::clone(context);
        }
        let state = self.0.context.state.clone().with_defaults(&agent.0.state);
        let context = Arc::new(RunContext { state, ..self.0.context.clone() });
        cache.context = Some((agent.clone(), Arc::clone(&context)));
        context
    }

    pub(crate) fn hook_context(&self, run: &Run, context: &Arc<RunContext>) -> HookContext {
        HookContext::new(run, context, &self.0.entries)
    }

    /// Returns the inputs of the current step. `None` if this process has not prepared it.
    pub(super) fn inputs(&self) -> Option<StepInputs> {
        self.cache().inputs.clone()
    }

    /// Stores the inputs of the current step, and logs deprecated tools.
    pub(super) fn set_inputs(&self, inputs: &mut StepInputs) {
        let mut cache = self.cache();
        if let (Some(instructions), Some(last)) = (&mut inputs.instructions, &cache.instructions)
            && !Arc::ptr_eq(instructions, last)
            && instructions.text() == last.text()
        {
            *instructions = Arc::clone(last);
        }
        cache.instructions.clone_from(&inputs.instructions);
        cache.warnings.warn_once(&inputs.tools);
        cache.inputs = Some(inputs.clone());
    }

    /// Takes the messages of the current step that a hook has changed. They share the transcript,
    /// so they are not kept after the request.
    pub(super) fn take_messages(&self) -> Option<TranscriptView> {
        self.cache().inputs.as_mut()?.messages.take()
    }

    /// Forgets the inputs of the current step, because another agent takes over.
    pub(crate) fn forget_inputs(&self) {
        self.cache().inputs = None;
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RunScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunScope").field("run_id", &self.0.context.run_id).finish_non_exhaustive()
    }
}
