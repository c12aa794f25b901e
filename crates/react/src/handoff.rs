//! Hand-offs between agents. A hand-off is a tool call: after the calls of its reply, the run
//! requests [`Effect::Handoff`], and the group answers with the next agent.

mod settings;
mod transfer;

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{
    future::{BoxFuture, FutureExt as _, ready},
    stream::BoxStream,
};
use haft_core::{
    Agent, RunEvent, RunInput, RunOutput, Transcript,
    agent::{AgentError, AgentErrorKind, RunStart},
    export::async_trait,
    limits,
    schema::SchemaError,
};
use serde::{Deserialize, Serialize};
use tracing::Instrument as _;

use crate::{
    AgentBuildError, Effect, Outcome, ReactAgent, Run, RunConfig, RunScope,
    agent::{EventSink, Mailbox, Outcomes, Perform, drive_owned, event_stream, outcome_stream},
    hook::run_host_code,
    router::{RouteTable, RouteTableError},
    run::{HandoffCall, NextAgent},
    transcript::{marks::handoff_target, set_timestamps},
};
use transfer::TransferTool;

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
            max_handoffs: limits::HANDOFFS,
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
    /// agent must answer. Default: [`limits::HANDOFFS`] (8).
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
    /// of the first route starts.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`Run::new`], and if a suspended run does not belong to these
    /// agents.
    pub fn create_run(&self, mut input: RunInput) -> Result<Run, AgentError> {
        let (RunStart::New { messages, .. } | RunStart::Resume { messages, .. }) = &mut input.start;
        set_timestamps(messages);
        let first = match &input.start {
            RunStart::New { transcript, .. } => self.first_agent(transcript).to_owned(),
            // A resumed run has its configuration.
            RunStart::Resume { .. } => return self.check_owner(Run::new(&RunConfig::default(), input)?),
        };
        let mut run = Run::new(&self.agent(&first)?.config().for_handoffs(self.0.max_handoffs), input)?;
        run.set_agent(&first);
        Ok(run)
    }

    fn first_agent<'a>(&'a self, transcript: &'a Transcript) -> &'a str {
        let routes = &self.0.table.routes;
        let known = |name: &&str| routes.iter().any(|route| route.name == *name);
        let last = transcript.messages().iter().rev().find_map(|it| handoff_target(it));
        last.filter(known).unwrap_or_else(|| routes.first().map(|route| &*route.name).unwrap_or_default())
    }

    fn check_owner(&self, run: Run) -> Result<Run, AgentError> {
        match run.agent() {
            Some(name) => self.agent(name).map(drop)?,
            None => {
                let problem = "the suspended run does not belong to these agents".to_owned();
                return Err(AgentErrorKind::InvalidInput(problem).into());
            }
        }
        Ok(run)
    }

    /// Performs `effect`, the last effect of `run`, like [`ReactAgent::perform`], with the current
    /// agent of the run. Also performs [`Effect::Handoff`].
    pub fn perform(
        &self,
        run: &Run,
        effect: Effect,
        scope: &RunScope,
    ) -> BoxStream<'static, Result<Outcome, AgentErrorKind>> {
        match effect {
            Effect::Handoff(handoff) => {
                let (agents, run, shared) = (self.clone(), run.clone(), scope.clone());
                let hand_off = async move { agents.hand_off(run, handoff, &shared).await.map(Some) };
                outcome_stream(scope, |_| hand_off.boxed())
            }
            effect => match self.agent(run.agent().unwrap_or_default()) {
                Ok(agent) => agent.perform(run, effect, scope),
                Err(error) => outcome_stream(scope, |_| ready(Err(error)).boxed()),
            },
        }
    }

    /// Performs [`Effect::Handoff`]: runs the hook of the hand-off, and returns the next agent.
    async fn hand_off(
        self,
        run: Run,
        handoff: HandoffCall,
        scope: &RunScope,
    ) -> Result<Outcome, AgentErrorKind> {
        let from = run.agent().unwrap_or_default();
        let target = self.0.handoffs.get(from).and_then(|tools| tools.get(&handoff.tool));
        let (to, settings) = target.ok_or(AgentErrorKind::Incomplete)?;
        let agent = self.agent(from)?;
        if let Some(hook) = settings.hook().cloned() {
            let arguments = handoff.arguments.clone().unwrap_or_default();
            let names = (from.to_owned(), to.clone());
            let cx = scope.hook_context(&run, &scope.context_of(agent)).for_extension("");
            let hook = move |context| hook(arguments, HandoffContext { context, from: names.0, to: names.1 });
            run_host_code("hand-off hook", agent.hook_timeout(), &cx, hook).await?;
        }
        let reason = transfer::handoff_reason(from, run.transcript(), &handoff);
        scope.forget_inputs();
        announce(to, reason.clone(), scope).await;
        Ok(Outcome::HandedOff(Box::new(NextAgent {
            name: to.clone(),
            config: self.agent(to)?.config().for_handoffs(self.0.max_handoffs),
            reason,
            hides_steps: self.0.history == HandoffHistory::Question,
        })))
    }

    async fn run_to_end(self, input: RunInput, events: EventSink) -> Result<RunOutput, AgentError> {
        let context = input.context.clone();
        // Dropping the mailbox closes the handle, even if no run can be created.
        let mailbox = Mailbox::attach(&context);
        let mut run = self.create_run(input)?;
        let scope = RunScope::attach(&mut run, context, mailbox, events);
        let name = run.agent().unwrap_or_default().to_owned();
        announce(&name, "it has the conversation".to_owned(), &scope).await;
        let span = self.agent(&name)?.span(&scope);
        let (output, agent) = drive_owned(&self, run, scope).instrument(span).await?;
        Ok(match output {
            RunOutput::Answer(answer) => {
                RunOutput::Answer(Box::new(answer.prepend_agent(&agent.unwrap_or_default())))
            }
            suspended @ RunOutput::Suspended(_) => suspended,
        })
    }
}

/// Emits the event that the agent `name` takes over the run.
async fn announce(name: &str, reason: String, scope: &RunScope) {
    tracing::info!(agent = name, reason, "an agent takes over the conversation");
    scope.events().emit(|| RunEvent::Routed { route: Some(name.to_owned()), reason }).await;
}

impl Perform for HandoffGroup {
    fn perform_effect(&self, run: &Run, effect: Effect, scope: &RunScope) -> Outcomes {
        self.perform(run, effect, scope)
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

#[async_trait]
impl Agent for HandoffGroup {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let agents = self.clone();
        event_stream(|events| agents.run_to_end(input, events))
    }

    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        self.clone().run_to_end(input, EventSink::unobserved()).await
    }
}

impl fmt::Debug for HandoffGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoffGroup").field("table", &self.0.table).finish_non_exhaustive()
    }
}
