//! Agents that hand a conversation to one another.

mod transfer;

use std::{collections::HashMap, fmt, sync::Arc};

use futures::stream::BoxStream;
use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput,
    agent::{AgentError, AgentErrorKind, Parked, RunStart},
    export::async_trait,
    limits,
    tool::RunContext,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    BuildError, ReactAgent, RouteTable, RouterError, Run,
    agent::{Events, watch},
    run::handed_to,
};
use transfer::{Transfer, Turn};

/// Agents of which each can hand the conversation to another, by a tool `transfer_to_NAME` that it is offered.
///
/// The first route of the table begins. Who takes over goes on with the same run: the conversation goes along, the limits are
/// those that the run began with, and what it cost is summed. Other calls of the reply that hands off are answered first; of two hand-offs in one
/// reply the first counts. The next question of the conversation goes to whom it was handed last. Who speaks is told as
/// [`RunEvent::Routed`], and who answered stands in [`RunAnswer::agent`](haft_core::agent::RunAnswer::agent).
///
/// Where a [`Router`](crate::Router) decides once, before anybody works, here the agents decide while they do.
///
/// # Examples
///
/// ```
/// use haft_core::{Agent, Toolset};
/// use haft_testing::ScriptedModel;
/// use haft_react::{Handoffs, ReactAgent, Route, RouteTable};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let table = RouteTable::new([
///     Route::new("reception", "Finds out what a guest wants."),
///     Route::new("kitchen", "Takes orders for food."),
/// ]);
/// let model = ScriptedModel::new().calls([("1", "transfer_to_kitchen", r#"{"reason": "an order"}"#)]);
/// let reception = ReactAgent::new(model, Toolset::new())?;
/// let kitchen = ReactAgent::new(ScriptedModel::new().text("One soup, coming."), Toolset::new())?;
///
/// let agents = Handoffs::new(table, [("reception", reception), ("kitchen", kitchen)])?;
/// let answer = agents.run("I would like a soup.".into()).await?.into_answer().unwrap();
/// assert_eq!(answer.text, "One soup, coming.");
/// assert_eq!(answer.agent.as_deref(), Some("kitchen"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Handoffs(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    table: RouteTable,
    agents: HashMap<String, ReactAgent>,
    carried: Carried,
    limit: u32,
}

/// What goes along with a hand-off. The transcript always has everything; this is what the model of the agent that takes over is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Carried {
    /// The whole conversation, with what the others have called and found.
    #[default]
    Everything,
    /// What was said before and the question of this run, without the steps that the others have made since; and the reason of
    /// the hand-off.
    Question,
}

/// Why agents cannot hand off to one another.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HandoffError {
    /// The table does not fit the agents.
    #[error(transparent)]
    Table(#[from] RouterError),
    /// An agent cannot be given its tools for hand-offs.
    #[error("the agent {agent:?} cannot hand off")]
    Agent {
        /// Its name.
        agent: String,
        /// Why.
        source: BuildError,
    },
    /// An agent takes a question as data, which a conversation is not.
    #[error("nobody can hand off to {0:?}: it takes named inputs, and a conversation has none")]
    Inputs(String),
}

/// Who has the conversation, besides what its run knows: what is saved of a run that waits.
#[derive(Serialize, Deserialize)]
struct Held {
    agent: String,
    /// How often it was handed off in this run.
    handed: u32,
    #[serde(default)]
    state: Value,
}

impl Handoffs {
    /// Makes an agent of several, of which each may hand off to each other one. What a route's description says, the model that may hand off
    /// reads.
    ///
    /// # Errors
    ///
    /// Fails when the table does not fit the agents, when an agent has a tool of the name that it would be given, and when one
    /// takes named inputs.
    pub fn new(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, ReactAgent)>,
    ) -> Result<Self, HandoffError> {
        Self::along(table, agents, |_, _| true)
    }

    /// The same where only some hand-offs may be: `may` is asked for each pair, who hands off first.
    ///
    /// # Errors
    ///
    /// The same as [`new`](Self::new).
    pub fn along(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, ReactAgent)>,
        may: impl Fn(&str, &str) -> bool,
    ) -> Result<Self, HandoffError> {
        let agents: Vec<_> = agents.into_iter().map(|(name, agent)| (name.into(), agent)).collect();
        table.check(agents.iter().map(|(name, _)| name.as_str()))?;
        if let Some((name, _)) = agents.iter().find(|(_, agent)| agent.config().inputs.is_some()) {
            return Err(HandoffError::Inputs(name.clone()));
        }
        let lend = |(name, agent): (String, ReactAgent)| {
            let others = table.routes.iter().filter(|route| route.name != name && may(&name, &route.name));
            match agent.with_transfers(others.map(Transfer::to)) {
                Ok(agent) => Ok((name, agent)),
                Err(source) => Err(HandoffError::Agent { agent: name, source }),
            }
        };
        let agents = agents.into_iter().map(lend).collect::<Result<_, _>>()?;
        let parts = Parts { table, agents, carried: Carried::default(), limit: limits::HAND_OFFS };
        Ok(Self(Arc::new(parts)))
    }

    /// Sets what goes along. Default: everything.
    #[must_use]
    pub fn carrying(mut self, carried: Carried) -> Self {
        Arc::make_mut(&mut self.0).carried = carried;
        self
    }

    /// Sets how often a run may be handed off; an agent that wants to all the same is told to answer itself. Default:
    /// [`limits::HAND_OFFS`].
    #[must_use]
    pub fn with_limit(mut self, times: u32) -> Self {
        Arc::make_mut(&mut self.0).limit = times;
        self
    }

    /// The agents, by their names.
    pub fn table(&self) -> &RouteTable {
        &self.0.table
    }

    fn agent(&self, name: &str) -> Result<&ReactAgent, AgentErrorKind> {
        let unknown = || AgentErrorKind::InvalidInput(format!("there is no agent {name:?} any more"));
        self.0.agents.get(name).ok_or_else(unknown)
    }

    /// Takes up a run, or begins one with the agent that has the conversation.
    fn begin(&self, mut input: RunInput) -> Result<(Held, Run), AgentError> {
        let held = match &mut input.start {
            RunStart::New { transcript, .. } => self.holder(transcript.messages()),
            RunStart::Resume { parked, .. } => {
                let foreign = |_| {
                    AgentErrorKind::InvalidInput("what is parked was not parked by these agents".to_owned())
                };
                let mut held = Held::deserialize(parked.state.take()).map_err(foreign)?;
                parked.state = held.state.take();
                held
            }
        };
        let run = self.agent(&held.agent)?.begin(input)?;
        Ok((held, run))
    }

    /// Who has a conversation: whom it was handed last, or the first.
    fn holder(&self, messages: &[Arc<Message>]) -> Held {
        let routes = &self.0.table.routes;
        let known = |name: &&str| routes.iter().any(|route| route.name == *name);
        let handed = messages.iter().rev().find_map(|message| handed_to(message)).filter(known);
        let first = || routes.first().map(|route| &*route.name).unwrap_or_default();
        Held { agent: handed.unwrap_or_else(first).to_owned(), handed: 0, state: Value::Null }
    }

    /// Whom a call of this tool hands the conversation to.
    fn handed_by(&self, tool: &str) -> Option<&str> {
        let routes = self.0.table.routes.iter().map(|route| &*route.name);
        routes.into_iter().find(|name| transfer::tool_name(name).as_str() == tool)
    }

    async fn drive(self, input: RunInput, events: Events) -> Result<RunOutput, AgentError> {
        let context = input.context.clone();
        let (mut held, mut run) = self.begin(input)?;
        let mut reason = "it has the conversation".to_owned();
        loop {
            tracing::info!(agent = held.agent, reason, "an agent speaks");
            events.tell(|| RunEvent::Routed { route: Some(held.agent.clone()), reason }).await;
            let agent = self.agent(&held.agent)?;
            let turn = Turn::new(self.0.limit, held.handed);
            let context = RunContext { state: context.state.clone().with(turn), ..context.clone() };
            let output = agent.drive_to_end(&mut run, context, &events).await?;
            let Some(result) = run.handed_off(agent.transfers()) else { return Ok(self.end(held, output)) };
            let to = self.handed_by(&result.name).ok_or(AgentErrorKind::Incomplete)?.to_owned();
            reason = transfer::reason(&held.agent, run.transcript(), &result);
            run.hand_over(&to, self.agent(&to)?.config(), self.0.carried, &reason);
            held = Held { agent: to, handed: held.handed + 1, state: Value::Null };
        }
    }

    /// Says who answered, or whose run waits.
    fn end(&self, held: Held, output: RunOutput) -> RunOutput {
        match output {
            RunOutput::Answer(answer) => RunOutput::Answer(Box::new(answer.by(&held.agent))),
            RunOutput::Parked(Parked { pending, state }) => {
                RunOutput::Parked(Parked { pending, state: json!(Held { state, ..held }) })
            }
        }
    }
}

#[async_trait]
impl Agent for Handoffs {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let agents = self.clone();
        watch(|events| agents.drive(input, events))
    }

    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        self.clone().drive(input, Events::unwatched()).await
    }
}

impl fmt::Debug for Handoffs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoffs").field("table", &self.0.table).finish_non_exhaustive()
    }
}
