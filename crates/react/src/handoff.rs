//! Hand-offs between agents.
//!
//! This module uses only public items of [`run`](crate::run). A hand-off is a tool call. The driver
//! detects it at the end of a step, and [`Run::reconfigure`] applies the configuration of the next
//! agent to the run.

mod settings;
mod transfer;

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{future::BoxFuture, stream::BoxStream};
use haft_core::{
    Agent, RunEvent, RunInput, RunOutput,
    agent::{AgentError, AgentErrorKind, RunStart, SuspendedRun},
    export::async_trait,
    limits,
    schema::SchemaError,
    tool::RunContext,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    AgentBuildError, ReactAgent, Run,
    agent::{EventSink, Mailbox, event_stream},
    router::{RouteTable, RouteTableError},
};
use transfer::{HandoffSlot, TransferTool};

pub use settings::{Handoff, HandoffContext};

/// A group of agents that can hand off the conversation to one another. An agent has one tool
/// `transfer_to_NAME` for each agent to which it can hand off.
///
/// - A run starts with the agent that received the last hand-off in the conversation. If there was
///   no hand-off, or this agent is not in the group, the run starts with the agent of the first
///   route.
/// - After a hand-off, the next agent continues the same run, so the conversation, the limits and
///   the usage carry over.
/// - If a reply contains a hand-off and other calls, all calls are executed before the next agent
///   takes over. If a reply contains several hand-offs, the first one is used and the others are
///   denied.
/// - [`configured`](Self::configured) gives a hand-off a typed argument, a hook or a condition.
/// - [`RunEvent::Routed`] is emitted whenever an agent starts, resumes or takes over a run.
///   [`RunAnswer::agent`](haft_core::agent::RunAnswer::agent) is the name of the agent that
///   answered.
///
/// A [`Router`](crate::Router) selects an agent once, before the run. With `HandoffGroup`, the
/// agents decide during the run.
///
/// # Examples
///
/// ```
/// use haft_core::Toolset;
/// use haft_testing::ScriptedModel;
/// use haft_react::{HandoffGroup, ReactAgent, router::{Route, RouteTable}};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let table = RouteTable::new([
///     Route::new("reception", "Finds out what a guest wants."),
///     Route::new("kitchen", "Takes orders for food."),
/// ]);
/// let model = ScriptedModel::new().reply_calls([("1", "transfer_to_kitchen", r#"{"reason": "an order"}"#)]);
/// let reception = ReactAgent::new(model, Toolset::new())?;
/// let kitchen = ReactAgent::new(ScriptedModel::new().reply_text("One soup, coming."), Toolset::new())?;
///
/// let agents = HandoffGroup::new(table, [("reception", reception), ("kitchen", kitchen)])?;
/// let answer = agents.run("I would like a soup.").await?.into_answer().unwrap();
/// assert_eq!(answer.text, "One soup, coming.");
/// assert_eq!(answer.agent.as_deref(), Some("kitchen"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HandoffGroup(Arc<HandoffGroupInner>);

#[derive(Clone)]
struct HandoffGroupInner {
    table: RouteTable,
    agents: HashMap<String, ReactAgent>,
    history: HandoffHistory,
    max_handoffs: u32,
    /// The hand-offs of each agent, by the name of the agent and the name of the tool.
    handoffs: HashMap<String, HandoffTools>,
}

/// The hand-offs of an agent, by the name of their tool: the name of the next agent, and the
/// settings.
type HandoffTools = HashMap<String, (String, Handoff)>;

/// The part of the conversation that the model of the next agent receives after a hand-off. The
/// setting does not affect the transcript of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HandoffHistory {
    /// The whole conversation, including the steps of the previous agents.
    #[default]
    Everything,
    /// The conversation before this run, the input of this run, the messages that were
    /// [enqueued](Run::enqueue) during the run, and the reason for the hand-off. The steps of the
    /// previous agents in this run are omitted.
    Question,
}

/// An error of [`HandoffGroup::new`], [`HandoffGroup::filtered`] or [`HandoffGroup::configured`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandoffError {
    /// The route table is invalid, or its routes do not match the agents.
    #[error(transparent)]
    InvalidTable(#[from] RouteTableError),
    /// The hand-off tools cannot be added to an agent, for example because another tool of the
    /// agent has the same name.
    #[error("the agent {agent:?} cannot hand off")]
    ToolConflict {
        /// The name of the agent with the conflicting tools.
        agent: String,
        /// The error that occurred when the hand-off tools were added to the agent.
        source: AgentBuildError,
    },
    /// The agent with this name declares structured inputs, which a hand-off cannot provide.
    #[error("cannot hand off to {0:?}: the agent has named inputs, which a conversation does not provide")]
    StructuredInputs(String),
    /// The type of the argument of a hand-off has no schema that describes an object.
    #[error("the argument of the hand-off to {agent:?} has no usable schema")]
    InvalidInput {
        /// The name of the agent to which the hand-off leads.
        agent: String,
        /// The error in the schema.
        source: SchemaError,
    },
}

/// The hand-off state of a run. It is saved with a suspended run.
#[derive(Serialize, Deserialize)]
struct HandoffState {
    /// The name of the current agent.
    agent: String,
    /// The number of hand-offs in this run so far.
    count: u32,
    /// The checkpoint of the current agent in a suspended run. `Value::Null` while the run is
    /// active.
    #[serde(default)]
    checkpoint: Value,
}

impl HandoffGroup {
    /// Creates a group in which each agent can hand off to every other agent. The descriptions of
    /// the routes are sent to the models.
    ///
    /// # Errors
    ///
    /// Fails if the table is invalid, if its routes do not match the agents, if the name of a
    /// hand-off tool is already taken in an agent, or if an agent declares structured inputs.
    pub fn new(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, ReactAgent)>,
    ) -> Result<Self, HandoffError> {
        Self::filtered(table, agents, |_, _| true)
    }

    /// Creates a group of agents with selected hand-offs. A hand-off from `from` to `to` is offered
    /// only if `is_allowed(from, to)` returns `true`.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`new`](Self::new).
    pub fn filtered(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, ReactAgent)>,
        is_allowed: impl Fn(&str, &str) -> bool,
    ) -> Result<Self, HandoffError> {
        Self::configured(table, agents, |from, to| is_allowed(from, to).then(Handoff::new))
    }

    /// Creates a group of agents with individual settings for each hand-off, such as a typed
    /// argument or a hook. A hand-off from `from` to `to` has the settings `handoff(from, to)`, and
    /// is not offered if this is `None`. See [`Handoff`] for an example.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`new`](Self::new), if two hand-offs of one agent have the same
    /// tool name, and if the argument type of a hand-off has no schema that describes an object.
    pub fn configured(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, ReactAgent)>,
        handoff: impl Fn(&str, &str) -> Option<Handoff>,
    ) -> Result<Self, HandoffError> {
        let agents: Vec<_> = agents.into_iter().map(|(name, agent)| (name.into(), agent)).collect();
        table.check_agents(agents.iter().map(|(name, _)| name.as_str()))?;
        if let Some((name, _)) = agents.iter().find(|(_, agent)| agent.config().inputs.is_some()) {
            return Err(HandoffError::StructuredInputs(name.clone()));
        }
        let mut handoffs = HashMap::new();
        let mut extended = HashMap::new();
        for (name, agent) in agents {
            let (agent, tools) = with_handoffs(&table, &name, &agent, &handoff)?;
            handoffs.insert(name.clone(), tools);
            extended.insert(name, agent);
        }
        let inner = HandoffGroupInner {
            table,
            agents: extended,
            history: HandoffHistory::default(),
            max_handoffs: limits::HAND_OFFS,
            handoffs,
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Runs the agents until one of them answers or the run is suspended.
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run. The error contains the transcript so far.
    pub fn run(&self, input: impl Into<RunInput>) -> BoxFuture<'_, Result<RunOutput, AgentError>> {
        Agent::run(self, input.into())
    }

    /// Runs the agents and emits the events of the run. The last item is [`RunEvent::Done`] or an
    /// error.
    pub fn stream(&self, input: impl Into<RunInput>) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        Agent::stream(self, input.into())
    }

    /// Sets the part of the conversation that the model of the next agent receives. Default:
    /// [`HandoffHistory::Everything`].
    #[must_use]
    pub fn with_history(mut self, history: HandoffHistory) -> Self {
        Arc::make_mut(&mut self.0).history = history;
        self
    }

    /// Sets the maximum number of hand-offs per run. Further hand-offs are denied, so the current
    /// agent must answer. Default: [`limits::HAND_OFFS`] (8).
    #[must_use]
    pub fn with_max_handoffs(mut self, times: u32) -> Self {
        Arc::make_mut(&mut self.0).max_handoffs = times;
        self
    }

    /// Returns the table with the routes to the agents.
    pub fn table(&self) -> &RouteTable {
        &self.0.table
    }

    fn agent(&self, name: &str) -> Result<&ReactAgent, AgentErrorKind> {
        let unknown = || AgentErrorKind::InvalidInput(format!("there is no agent {name:?} any more"));
        self.0.agents.get(name).ok_or_else(unknown)
    }

    /// Resumes a suspended run, or starts a run with the agent that received the last hand-off in
    /// the conversation. If no hand-off is recorded, or this agent is not in the group, the agent
    /// of the first route starts. Returns the hand-off state and the run.
    fn begin(&self, mut input: RunInput) -> Result<(HandoffState, Run), AgentError> {
        let handoff = match &mut input.start {
            RunStart::New { transcript, .. } => {
                let routes = &self.0.table.routes;
                let known = |name: &&str| routes.iter().any(|route| route.name == *name);
                let last = transcript.messages().iter().rev().find_map(|it| transfer::handoff_target(it));
                let first = || routes.first().map(|route| &*route.name).unwrap_or_default();
                let agent = last.filter(known).unwrap_or_else(first).to_owned();
                HandoffState { agent, count: 0, checkpoint: Value::Null }
            }
            RunStart::Resume { suspended, .. } => {
                let foreign = |_| {
                    AgentErrorKind::InvalidInput(
                        "the suspended run does not belong to these agents".to_owned(),
                    )
                };
                let mut handoff = HandoffState::deserialize(suspended.checkpoint.take()).map_err(foreign)?;
                suspended.checkpoint = handoff.checkpoint.take();
                handoff
            }
        };
        let run = self.agent(&handoff.agent)?.create_run(input)?;
        Ok((handoff, run))
    }

    /// Returns the target of the hand-off tool `tool` of the agent `from`, and the settings of the
    /// hand-off. `None` if `tool` is not a hand-off tool.
    fn target(&self, from: &str, tool: &str) -> Option<&(String, Handoff)> {
        self.0.handoffs.get(from)?.get(tool)
    }

    async fn drive(self, input: RunInput, events: EventSink) -> Result<RunOutput, AgentError> {
        let context = input.context.clone();
        // Dropping the mailbox closes the handle, even if no run can be created.
        let mailbox = Mailbox::attach(&context);
        let (handoff, mut run) = self.begin(input)?;
        let output = self.drive_agents(&mut run, handoff, &context, &events, &mailbox).await;
        let output =
            output.map_err(|error| error.with_transcript_and_usage(run.closed_transcript(), run.usage()));
        if output.is_err() {
            // The failed run is dropped. After `cancel`, the mailbox returns the undelivered
            // messages of the run to the handle.
            run.cancel();
        }
        mailbox.close(&run);
        output
    }

    async fn drive_agents(
        &self,
        run: &mut Run,
        mut handoff: HandoffState,
        context: &RunContext,
        events: &EventSink,
        mailbox: &Mailbox,
    ) -> Result<RunOutput, AgentError> {
        let mut reason = "it has the conversation".to_owned();
        loop {
            tracing::info!(agent = handoff.agent, reason, "an agent takes over the conversation");
            events.emit(|| RunEvent::Routed { route: Some(handoff.agent.clone()), reason }).await;
            let agent = self.agent(&handoff.agent)?;
            let slot = HandoffSlot::new(self.0.max_handoffs, handoff.count);
            let state = context.state.clone().with_value(slot.clone());
            let (host_context, context) = (context, RunContext { state, ..context.clone() });
            let has_handoff = |run: &Run| {
                let is_pending = transfer::pending_handoff(run, agent.handoff_tools()).is_some();
                if !is_pending {
                    // If a hand-off call filled the slot, the hand-off was not used.
                    slot.clear();
                }
                is_pending
            };
            let output = agent.drive_until(run, context, events, mailbox, &has_handoff).await?;
            if let Some(output) = output {
                return Ok(handoff.add_to_output(output));
            }
            let result =
                transfer::pending_handoff(run, agent.handoff_tools()).ok_or(AgentErrorKind::Incomplete)?;
            let (to, settings) =
                self.target(&handoff.agent, &result.name).ok_or(AgentErrorKind::Incomplete)?;
            if let Some(hook) = settings.hook().cloned() {
                let arguments = transfer::typed_arguments(&result).cloned().unwrap_or_default();
                let names = (handoff.agent.clone(), to.clone());
                let hook = move |cx| hook(arguments, cx);
                agent.run_handoff_hook(run, host_context, names, hook).await?;
            }
            let to = to.clone();
            reason = transfer::handoff_reason(&handoff.agent, run.transcript(), &result);
            self.hand_off(run, &to, &reason)?;
            handoff = HandoffState { agent: to, count: handoff.count + 1, checkpoint: Value::Null };
        }
    }

    fn hand_off(&self, run: &mut Run, to: &str, reason: &str) -> Result<(), AgentErrorKind> {
        run.reconfigure(self.agent(to)?.config());
        if self.0.history == HandoffHistory::Question {
            run.hide_steps();
        }
        run.append(transfer::handoff_note(to, reason))?;
        Ok(())
    }
}

/// Returns `agent`, the agent named `from`, with its hand-off tools, and its hand-offs.
fn with_handoffs(
    table: &RouteTable,
    from: &str,
    agent: &ReactAgent,
    handoff: impl Fn(&str, &str) -> Option<Handoff>,
) -> Result<(ReactAgent, HandoffTools), HandoffError> {
    let (mut tools, mut conditions, mut handoffs) = (Vec::new(), Vec::new(), HandoffTools::new());
    for route in table.routes.iter().filter(|route| route.name != from) {
        let Some(settings) = handoff(from, &route.name) else { continue };
        let invalid = |source| HandoffError::InvalidInput { agent: route.name.clone(), source };
        tools.push(TransferTool::new(route, &settings).map_err(invalid)?);
        let tool = transfer::tool_name(&route.name, &settings).to_string();
        conditions.extend(settings.condition().map(|condition| (tool.clone(), Arc::clone(condition))));
        handoffs.insert(tool, (route.name.clone(), settings));
    }
    let agent = agent.with_handoff_tools(tools, conditions);
    let agent = agent.map_err(|source| HandoffError::ToolConflict { agent: from.to_owned(), source })?;
    Ok((agent, handoffs))
}

impl HandoffState {
    /// Adds the name of the current agent to an answer, or saves the hand-off state in a suspended
    /// run.
    fn add_to_output(self, output: RunOutput) -> RunOutput {
        match output {
            RunOutput::Answer(answer) => RunOutput::Answer(Box::new(answer.prepend_agent(&self.agent))),
            RunOutput::Suspended(SuspendedRun { pending, checkpoint }) => {
                RunOutput::Suspended(SuspendedRun { pending, checkpoint: json!(Self { checkpoint, ..self }) })
            }
        }
    }
}

#[async_trait]
impl Agent for HandoffGroup {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let agents = self.clone();
        event_stream(|events| agents.drive(input, events))
    }

    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        self.clone().drive(input, EventSink::unobserved()).await
    }
}

impl fmt::Debug for HandoffGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoffGroup").field("table", &self.0.table).finish_non_exhaustive()
    }
}
