//! A driver for runs that is not part of haft-react.
//!
//! A run returns effects, and a driver performs them. This driver uses only public items of haft.
//! It executes tool calls in parallel, requests approvals, hands off runs between agents, and
//! applies limits, deadlines and cancellation.

use std::{collections::BTreeMap, future::Future, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt as _;
use haft_core::{
    ChatModel, Message, RunInput, Schema, Timestamp, ToolDefinition, ToolName, Toolset,
    agent::{AgentError, AgentErrorKind, RunAnswer},
    call::{Decision, PendingCall},
    message::MessageBody,
    model::ModelError,
    pipeline::{Batch, CallOutcome},
    tool::{DynamicTool, RunContext, ToolPolicy},
    toolset::{ListContext, ToolList},
    usage::UsageMeter,
};
use haft_react::{
    Dialect, Effect, Run, RunConfig, Step,
    dialect::dialect_for,
    run::{CallBatch, hint},
};

/// The prefix of the names of hand-off tools. The rest of such a name is the name of a [`Member`].
const TRANSFER: &str = "transfer_to_";

/// An agent in a [`Team`].
pub struct Member {
    pub model: Arc<dyn ChatModel>,
    pub dialect: Arc<dyn Dialect>,
    pub tools: Toolset,
    pub instructions: Arc<Message>,
    pub config: RunConfig,
}

impl Member {
    pub fn new(model: impl ChatModel + 'static, instructions: &str, tools: Toolset) -> Self {
        Self {
            dialect: dialect_for(model.profile()),
            model: Arc::new(model),
            tools,
            instructions: Arc::new(Message::system(instructions)),
            config: RunConfig::default(),
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
    /// active agent. Returns the name of the member that answered, and the answer.
    ///
    /// The caller owns the run and can drive it again after an error or a crash.
    pub async fn drive(
        &self,
        run: &mut Run,
        name: &str,
        context: RunContext,
        decide: Decide<'_>,
    ) -> Result<(String, RunAnswer), AgentError> {
        // Agents that are used as tools report their usage to this meter, even if their calls are
        // dropped.
        let meter = UsageMeter::default();
        let cancellation = context.cancellation.clone();
        let context = Arc::new(RunContext { usage: Some(meter.clone()), ..context });
        let ended = tokio::select! {
            biased;
            ended = self.advance(run, name.to_owned(), &context, decide) => ended,
            () = cancellation.cancelled() => Err(AgentErrorKind::Cancelled),
        };
        run.on_usage(meter.take());
        ended.map_err(|kind| {
            if matches!(kind, AgentErrorKind::Cancelled) {
                // Give each open call a result, so that another run can continue the conversation.
                run.cancel();
            }
            AgentError::from(kind).with_run(run.transcript_with_output(), run.usage())
        })
    }

    async fn advance(
        &self,
        run: &mut Run,
        mut name: String,
        context: &Arc<RunContext>,
        decide: Decide<'_>,
    ) -> Result<(String, RunAnswer), AgentErrorKind> {
        let mut tools = list(self.member(&name)?, run, context).await;
        // Recover the run, because its previous driver may have crashed. Recovery does not change a
        // new run.
        run.recover(&tools);
        loop {
            // A cancelled token also ends the calls in progress. Check it here, so that no further
            // model request is sent.
            if context.cancellation.is_cancelled() {
                return Err(AgentErrorKind::Cancelled);
            }
            let member = self.member(&name)?;
            let mut step = Step::new(&tools, &*member.dialect, Timestamp::now());
            step.instructions = Some(&member.instructions);
            match run.next(&step)? {
                Effect::Prepare => {
                    if let Some(to) = handoff_target(run) {
                        run.reconfigure(&self.member(&to)?.config);
                        run.append(hint(format!("{name} hands the conversation to you.")))?;
                        name = to;
                    }
                    tools = list(self.member(&name)?, run, context).await;
                }
                Effect::Chat(request) => {
                    let reply = within(run.time_left(), member.model.chat(&request)).await;
                    // The request shares the transcript of the run. Drop the request first, because
                    // appending a message to a shared transcript would copy the transcript.
                    drop(request);
                    match reply {
                        Some(reply) => {
                            let reply = reply.map(|reply| member.dialect.parse_reply(reply, run.outputs()));
                            run.on_chat(reply)?;
                        }
                        None => run.on_time_limit(),
                    }
                }
                Effect::Call(batch) => {
                    let left = run.time_left();
                    match within(left, execute(run, member, &tools, batch, context)).await {
                        Some(executed) => executed?,
                        None => run.on_time_limit(),
                    }
                }
                // A web server would save the run here and continue it when the decision arrives.
                Effect::Wait(pending) => {
                    for call in pending.iter().flat_map(PendingCall::leaves) {
                        run.on_decision(&call.call.id, decide(call))?;
                    }
                }
                // This driver has no output validators, so it accepts each output. It also writes
                // no summaries. Without a summary, the run omits its oldest step from the request.
                Effect::Check(output) => run.on_check(Ok(*output))?,
                Effect::Compact(_) => run.on_compact(Err(ModelError::EmptyResponse))?,
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
/// tool was called successfully in this step.
fn handoff_target(run: &Run) -> Option<String> {
    let messages = run.transcript().messages().iter().rev();
    let results = messages.map_while(|message| match message.body() {
        MessageBody::Tool(result) => Some(result),
        _ => None,
    });
    let mut transfers = results.filter(|result| result.is_success());
    transfers.find_map(|result| result.name.strip_prefix(TRANSFER).map(str::to_owned))
}

async fn list(member: &Member, run: &Run, context: &RunContext) -> ToolList {
    let (run_id, state) = (context.run_id.clone(), context.state.clone());
    member.tools.list(&ListContext { step: run.step(), run_id, state }).await
}

/// Executes the calls in `batch` in parallel. Each outcome is reported to the run as soon as it is
/// available.
async fn execute(
    run: &mut Run,
    member: &Member,
    tools: &ToolList,
    batch: CallBatch,
    context: &Arc<RunContext>,
) -> Result<(), AgentErrorKind> {
    let CallBatch { calls, resumed } = batch;
    let batch = Batch { tools: tools.clone(), calls, resumed, run: Arc::clone(context), ..Batch::default() };
    let mut outcomes = pin!(member.tools.pipeline().batch(batch));
    while let Some((_, outcome)) = outcomes.next().await {
        match outcome {
            CallOutcome::Finished(result) => {
                let id = result.call_id.clone();
                run.on_result(&id, result)?;
            }
            CallOutcome::Pending(pending) => run.on_pending(pending)?,
        }
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
