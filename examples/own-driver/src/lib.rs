//! A custom driver for the runs of haft-react.
//!
//! A run returns effects, and a driver performs them. This driver uses only public items of haft.
//! It executes tool calls in parallel, requests approvals, hands off runs between agents, runs the
//! hooks and guardrails of extensions, executes calls pushed to the queue, summarizes long
//! conversations, and applies limits, deadlines and cancellation.

use std::{collections::BTreeMap, future::Future, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use haft_core::{
    ChatModel, Message, Pipeline, RunInput, Schema, Timestamp, Tool, ToolDefinition, ToolName, Toolset,
    agent::{AgentError, AgentErrorKind, AgentStep, GuardrailAction, RunAnswer},
    call::{Decision, PendingCall},
    message::{MessageBody, TranscriptView},
    model::ChatRequest,
    pipeline::CallOutcome,
    tool::{DynamicTool, RunContext, ToolPolicy},
    toolset::{ListContext, ToolList},
};
use haft_react::{
    AgentBuildError, Dialect, Effect, Extension, Mailbox, Run, RunConfig,
    compaction::summarize,
    dialect::dialect_for,
    extension::{Entries, ExtensionSet, StepContext, StepInputs},
    queue::{QueueHost, QueueScope, with_queues},
    run::{CallBatch, CallReview, RunBudget, RunState, hint_message},
};

/// The prefix of the names of hand-off tools. The rest of such a name is the name of a [`Member`].
const TRANSFER: &str = "transfer_to_";

/// The metadata key of the message that records a hand-off. The value is the name of the next
/// [`Member`].
const HANDOFF_KEY: &str = "own_driver_handoff";

/// An agent in a [`Team`].
pub struct Member {
    pub model: Arc<dyn ChatModel>,
    pub dialect: Arc<dyn Dialect>,
    pub tools: Toolset,
    pub instructions: Option<Arc<Message>>,
    pub config: RunConfig,
    pub extensions: ExtensionSet,
}

impl Member {
    pub fn new(
        model: impl ChatModel + 'static,
        instructions: &str,
        tools: Toolset,
        extensions: impl IntoIterator<Item = Extension>,
    ) -> Result<Self, AgentBuildError> {
        let extensions = ExtensionSet::new(extensions)?;
        let model = extensions.adapt_model(Arc::new(model));
        Ok(Self {
            dialect: dialect_for(model.profile()),
            model,
            tools: with_queues(extensions.adapt_tools(tools)),
            instructions: extensions.instructions(Some(Arc::new(Message::system(instructions)))),
            config: extensions.configure(RunConfig::default()),
            extensions,
        })
    }
}

/// The data that all steps of a run share.
struct Shared {
    context: Arc<RunContext>,
    entries: Entries,
    /// The limits of the run, shared with the agents used as tools.
    budget: RunBudget,
}

impl Shared {
    /// Creates the context for hooks. Drop it before the next outcome is reported, because it
    /// shares the transcript of `run`.
    fn for_hooks(&self, run: &Run) -> StepContext {
        StepContext::new(run, &self.context, &self.entries)
    }

    /// Copies the entries to `run` if a hook or a tool has changed them.
    fn save_entries(&self, run: &mut Run) {
        if let Some(changed) = self.entries.take_if_changed() {
            run.set_extension_entries(changed);
        }
    }
}

/// Agents that work on the same run. Only one of them is active at a time.
pub struct Team {
    members: BTreeMap<String, Member>,
}

/// A function that returns the decision for a pending call.
pub type Decide<'a> = &'a (dyn Fn(&PendingCall) -> Decision + Sync);

impl Team {
    pub fn new(members: impl IntoIterator<Item = (&'static str, Member)>) -> Self {
        Self { members: members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect() }
    }

    /// Creates a run with the configuration of the member `name`.
    pub fn begin(&self, name: &str, input: RunInput) -> Result<Run, AgentError> {
        Run::new(&self.member(name)?.config, input)
    }

    fn member(&self, name: &str) -> Result<&Member, AgentErrorKind> {
        let unknown = || AgentErrorKind::InvalidInput(format!("there is no agent {name:?}"));
        self.members.get(name).ok_or_else(unknown)
    }

    /// Performs the effects of a run until the run has an answer. The member `name` is the first
    /// active agent, unless `run` was already handed off: the run then continues with the member of
    /// the last hand-off. Returns the name of the member that answered, and the answer.
    ///
    /// The caller owns the run and can drive it again after an error or a crash.
    pub async fn drive(
        &self,
        run: &mut Run,
        name: &str,
        context: RunContext,
        decide: Decide<'_>,
    ) -> Result<(String, RunAnswer), AgentError> {
        let budget = RunBudget::attach(&context, run);
        let cancellation = context.cancellation.clone();
        let entries = Entries::new(run.extension_entries().clone());
        let state = context.state.with_value(entries.clone());
        // Decisions that the run remembers also cover calls of agents used as tools.
        let mut context = budget.in_context(RunContext { state, ..context });
        context.approvals.get_or_insert_default();
        run.apply_approvals(&mut context);
        let shared = Shared { context: Arc::new(context), entries, budget };
        // Messages that a `RunHandle` sends to this run, for example from another task.
        let mailbox = Mailbox::attach(&shared.context);
        let name = last_handoff(run).unwrap_or(name).to_owned();
        let ended = tokio::select! {
            biased;
            ended = self.advance(run, name, (&shared, &mailbox), decide) => ended,
            () = cancellation.cancelled() => Err(AgentErrorKind::Cancelled),
        };
        shared.budget.end_calls(run);
        shared.save_entries(run);
        mailbox.close(run);
        if let Err(AgentErrorKind::Cancelled) = ended {
            // Give each open call a result, so that another run can continue the conversation.
            run.cancel();
        }
        shared.budget.report(run);
        ended.map_err(|kind| {
            AgentError::from(kind).with_transcript_and_usage(run.closed_transcript(), run.usage())
        })
    }

    async fn advance(
        &self,
        run: &mut Run,
        mut name: String,
        (shared, mailbox): (&Shared, &Mailbox),
        decide: Decide<'_>,
    ) -> Result<(String, RunAnswer), AgentErrorKind> {
        let mut inputs = prepare(self.member(&name)?, run, shared).await?;
        // Recover the run, because its previous driver may have crashed. Recovery does not change a
        // new run.
        run.recover(&inputs.tools);
        loop {
            // A cancelled token also ends the calls in progress. Check it here, so that no further
            // model request is sent.
            if shared.context.cancellation.is_cancelled() {
                return Err(AgentErrorKind::Cancelled);
            }
            shared.save_entries(run);
            let member = self.member(&name)?;
            let mut step = inputs.as_step(Timestamp::now());
            // If this run is nested in another run, it counts towards the limits of that run.
            step.budget = Some(&shared.budget);
            shared.budget.report(run);
            let change_view =
                |view, run: &Run| member.extensions.process_history(view, &shared.for_hooks(run));
            if member.extensions.has_history_processors() {
                step.history = Some(&change_view);
            }
            match mailbox.next_effect(run, &step)? {
                // The run stops before its next request, which needs no inputs.
                Effect::Prepare if run.is_stopping() && handoff_target(run).is_none() => {}
                Effect::Prepare => {
                    if let Some(to) = handoff_target(run) {
                        run.reconfigure(&self.member(&to)?.config);
                        run.append(handoff_note(&name, &to))?;
                        name = to;
                    }
                    inputs = prepare(self.member(&name)?, run, shared).await?;
                }
                // The guardrails could also run in parallel with the request: `run.input_check()`
                // returns the check while the request is in flight.
                Effect::CheckInput(check) => {
                    let cx = shared.for_hooks(run);
                    let outcome = member.extensions.check_input(&check, &cx).await?;
                    drop(cx);
                    run.on_input_check(&check, outcome)?;
                }
                Effect::Chat(request) => chat(run, member, &inputs, request, shared).await?,
                Effect::Call(batch) if !member.extensions.unchecked_calls(&batch).is_empty() => {
                    guard_calls(run, member, &inputs.tools, &batch, shared).await?;
                }
                Effect::Call(batch) => execute_in_time(run, member, &inputs.tools, batch, shared).await?,
                // A web server would save the run here and continue it when the decision arrives.
                Effect::Wait(pending) => {
                    for call in pending.iter().flat_map(PendingCall::innermost_calls) {
                        run.on_decision(&call.call.id, decide(call))?;
                    }
                    if let Some(approvals) = &shared.context.approvals {
                        approvals.extend(run.approval_rules().iter().cloned());
                    }
                }
                Effect::Check(output) => {
                    let checked = member.extensions.validate(*output, &shared.for_hooks(run)).await;
                    run.on_check(checked)?;
                }
                Effect::Review(calls) => {
                    let review = review(run, member, calls, shared).await?;
                    run.on_review(review)?;
                }
                Effect::Compact(part) => compact(run, member, part).await?,
                Effect::Done(answer) => return Ok((name, *answer)),
                other => return Err(AgentErrorKind::UnexpectedOutcome(format!("unknown effect {other:?}"))),
            }
        }
    }
}

/// Creates a tool that hands off the run to the member `name`. The driver detects a successful call
/// to this tool at the end of the step.
pub fn transfer_to(name: &str) -> DynamicTool {
    let name = ToolName::sanitize(&format!("{TRANSFER}{name}"));
    // The call has no effect of its own, so it can be repeated after a crash.
    let policy = ToolPolicy { idempotent: true, ..ToolPolicy::default() };
    let definition = ToolDefinition::new(name, Schema::object())
        .with_description("Hands the conversation to this agent.")
        .with_policy(policy);
    DynamicTool::new(definition, |_, _| async { "handed over" })
}

/// Returns the name of the member to which the last step hands off the run. `None` if no hand-off
/// tool was called successfully in this step, or if the hand-off is already recorded. Also `None`
/// if calls of the step are still open: [`Effect::Prepare`] is then not a step boundary.
fn handoff_target(run: &Run) -> Option<String> {
    if !matches!(run.state(), RunState::ReadyToRequest | RunState::Preparing) {
        return None;
    }
    // Messages of a `RunHandle` may follow the results of the step.
    let own = own_messages(run);
    let last = own.iter().rposition(|message| !message.tool_calls().is_empty())?;
    let step = own.get(last..)?;
    if step.iter().any(|message| recorded_handoff(message).is_some()) {
        return None;
    }
    step.iter().find_map(|message| match message.body() {
        MessageBody::Tool(result) if result.is_success() => {
            result.name.strip_prefix(TRANSFER).map(str::to_owned)
        }
        _ => None,
    })
}

/// Creates the message that announces a hand-off to the model of the member `to`, and records it in
/// the run.
fn handoff_note(from: &str, to: &str) -> Message {
    let message = hint_message(format!("{from} hands the conversation to you."));
    let mut metadata = message.metadata().clone();
    metadata.insert(HANDOFF_KEY.to_owned(), to.into());
    message.with_metadata(metadata)
}

/// Returns the name of the next member if `message` records a hand-off.
fn recorded_handoff(message: &Message) -> Option<&str> {
    message.metadata_value(HANDOFF_KEY)?.as_str()
}

/// Returns the member of the last hand-off in this run, or `None` if the run was not handed off.
fn last_handoff(run: &Run) -> Option<&str> {
    own_messages(run).iter().rev().find_map(|message| recorded_handoff(message))
}

/// Returns the messages of this run, without those of earlier runs of the conversation.
fn own_messages(run: &Run) -> &[Arc<Message>] {
    run.transcript().messages().get(run.first_message_index()..).unwrap_or_default()
}

/// Lists the tools of `member`, and runs its hooks for the next request.
async fn prepare(member: &Member, run: &Run, shared: &Shared) -> Result<StepInputs, AgentErrorKind> {
    let (run_id, state) = (shared.context.run_id.clone(), shared.context.state.clone());
    let tools = member.tools.list(&ListContext { step: run.step(), run_id, state }).await;
    let names = tools.tools().iter().filter(|tool| is_transfer(tool)).map(|tool| tool.definition().name());
    let handoff_tools = Arc::new(names.map(ToString::to_string).collect());
    let mut inputs = StepInputs::new(tools, Arc::clone(&member.model), Arc::clone(&member.dialect));
    inputs.instructions.clone_from(&member.instructions);
    inputs.handoff_tools = handoff_tools;
    member.extensions.prepare(inputs, run, &shared.for_hooks(run)).await
}

/// The tools whose calls can be pushed, cached in the tool list of the step. A hand-off must be
/// part of a reply, so it cannot be pushed.
struct QueueableTools(ToolList);

impl QueueableTools {
    fn new(tools: &ToolList) -> Self {
        Self(tools.filter_map(|tool| (!is_transfer(tool)).then(|| Arc::clone(tool))))
    }
}

/// The host of the queues: the tools that pushed calls can call, and their pipeline.
struct Pushable {
    tools: ToolList,
    pipeline: Pipeline,
}

impl QueueHost for Pushable {
    fn tools(&self) -> &ToolList {
        &self.tools
    }

    fn pipeline(&self) -> Pipeline {
        self.pipeline.clone()
    }
}

fn is_transfer(tool: &Arc<dyn Tool>) -> bool {
    tool.definition().name().as_str().starts_with(TRANSFER)
}

/// Runs the reviews of `calls`. A hand-off continues the run with the next member, so it is not
/// reviewed.
async fn review(
    run: &Run,
    member: &Member,
    calls: Vec<AgentStep>,
    shared: &Shared,
) -> Result<CallReview, AgentErrorKind> {
    if calls.iter().any(|it| it.result.is_success() && it.tool_name.starts_with(TRANSFER)) {
        return Ok(CallReview::Continue);
    }
    member.extensions.review_calls(calls, &shared.for_hooks(run)).await
}

/// Sends `request` to the model of this step, and reports the reply after the hooks have run.
async fn chat(
    run: &mut Run,
    member: &Member,
    inputs: &StepInputs,
    request: Box<ChatRequest>,
    shared: &Shared,
) -> Result<(), AgentErrorKind> {
    let reply = within(run.time_left(), inputs.model.chat(&request)).await;
    // The request shares the transcript of the run. Drop the request first, because appending a
    // message to a shared transcript would copy the transcript.
    drop(request);
    let reply = match reply {
        None => {
            run.on_time_limit();
            return Ok(());
        }
        Some(Ok(reply)) => {
            let reply = run.parse_reply(reply, &inputs.as_step(Timestamp::now()))?;
            let cx = shared.for_hooks(run);
            Ok(member.extensions.after_reply(reply, run, &cx).await?)
        }
        Some(Err(error)) => Err(error),
    };
    run.on_chat(reply)
}

/// Summarizes `part` of the conversation within the remaining time of the run.
async fn compact(run: &mut Run, member: &Member, part: TranscriptView) -> Result<(), AgentErrorKind> {
    let summary = within(run.time_left(), summarize(&*member.model, &part)).await;
    drop(part);
    let Some(summary) = summary else {
        run.on_time_limit();
        return Ok(());
    };
    run.on_compact(summary)
}

/// Executes the calls in `batch` within the remaining time of the run.
async fn execute_in_time(
    run: &mut Run,
    member: &Member,
    tools: &ToolList,
    batch: CallBatch,
    shared: &Shared,
) -> Result<(), AgentErrorKind> {
    let left = run.time_left();
    shared.budget.begin_calls(run);
    let executed = within(left, execute(run, member, tools, batch, shared)).await;
    // The limits of the run apply to agents used as tools, too.
    shared.budget.end_calls(run);
    executed.unwrap_or_else(|| {
        run.on_time_limit();
        Ok(())
    })
}

/// Executes the calls in `batch` in parallel. Each outcome is reported to the run as soon as it is
/// available.
async fn execute(
    run: &mut Run,
    member: &Member,
    tools: &ToolList,
    batch: CallBatch,
    shared: &Shared,
) -> Result<(), AgentErrorKind> {
    let pipeline = member.tools.pipeline();
    let host = Pushable { tools: tools.memoize(QueueableTools::new).0.clone(), pipeline: pipeline.clone() };
    let context = QueueScope::new(host).in_context(RunContext::clone(&shared.context));
    let batch = batch.into_batch(tools.clone(), Arc::new(context));
    let mut outcomes = pin!(pipeline.stream_batch(batch));
    while let Some((_, outcome)) = outcomes.next().await {
        match outcome {
            CallOutcome::Finished(result) => {
                let id = result.call_id.clone();
                let cx = shared.for_hooks(run);
                let (result, reports) = member.extensions.check_result(result, tools, &cx).await?;
                drop(cx);
                run.on_result(&id, result)?;
                let has_ended = reports.last().is_some_and(|report| report.action == GuardrailAction::End);
                run.record_guardrails(reports);
                if has_ended {
                    return Err(run.end_by_guardrail());
                }
            }
            CallOutcome::Pending(pending) => run.on_pending(pending)?,
        }
        shared.save_entries(run);
    }
    Ok(())
}

/// Runs the call guardrails on the unchecked calls of `batch`. The run then returns the remaining
/// calls again.
async fn guard_calls(
    run: &mut Run,
    member: &Member,
    tools: &ToolList,
    batch: &CallBatch,
    shared: &Shared,
) -> Result<(), AgentErrorKind> {
    run.return_calls();
    for call in member.extensions.unchecked_calls(batch) {
        let (decided, cx) = (batch.resumed.get(&call.id), shared.for_hooks(run));
        let checked = member.extensions.check_call(call, decided, member.tools.pipeline(), tools, &cx);
        let Some(outcome) = within(run.time_left(), checked).await else {
            run.on_time_limit();
            break;
        };
        run.on_call_check(&call.id, outcome?)?;
    }
    Ok(())
}

/// Awaits `work` and returns its output. Returns `None` if it takes longer than `left`. There is no
/// limit if `left` is `None`.
async fn within<F: Future>(left: Option<Duration>, work: F) -> Option<F::Output> {
    match left {
        Some(left) => tokio::time::timeout(left, work).await.ok(),
        None => Some(work.await),
    }
}
