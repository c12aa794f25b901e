//! One agent in front of several.

mod clarify;
mod classifier;
mod keywords;
mod model;
mod table;

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use haft_core::{
    Agent, AgentError, AgentErrorKind, Message, Parked, RunEvent, RunInput, RunOutput, RunStart, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use classifier::{Choice, Classifier};
pub use keywords::Keywords;
pub use model::ModelClassifier;
pub use table::{Keyword, Route, RouteTable, RouterError};

/// An agent that gives each task to the one of several that it is for, with the conversation so far.
///
/// Where it is not clear which that is, nothing is guessed: the answer is a question back, with
/// [`StopReason::Clarification`](haft_core::StopReason::Clarification), or a [fallback](Self::with_fallback) takes over. Each decision is told with its reason, as
/// [`RunEvent::Routed`]. A run that waits is taken up by the agent that parked it.
///
/// # Examples
///
/// ```
/// use haft_core::{Agent, StopReason, Toolset, testing::ScriptedModel};
/// use haft_react::{ReactAgent, RouteTable, Router};
///
/// let table: RouteTable = serde_json::from_str(r#"{"routes": [
///     {"name": "sequence", "description": "a sequence diagram", "keywords": ["sequence", "message*"]},
///     {"name": "architecture", "description": "a diagram of the architecture", "keywords": ["architecture", {"text": "system", "weight": 0.5}]}
/// ]}"#)?;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let sequence = ReactAgent::new(ScriptedModel::new(), Toolset::new())?;
/// let architecture = ReactAgent::new(ScriptedModel::new().text("[ ]"), Toolset::new())?;
/// let router = Router::new(table, [("sequence", sequence), ("architecture", architecture)])?;
///
/// let answer = router.run("Draw the architecture of my system.".into()).await?.into_answer().unwrap();
/// assert_eq!(answer.text, "[ ]");
///
/// let answer = router.run("Draw something.".into()).await?.into_answer().unwrap();
/// assert_eq!(answer.stop_reason, StopReason::Clarification);
/// assert_eq!(answer.text, "Do you want a sequence diagram or a diagram of the architecture?");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Router(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    table: RouteTable,
    agents: HashMap<String, Arc<dyn Agent>>,
    classifier: Arc<dyn Classifier>,
    fallback: Option<Arc<dyn Agent>>,
}

/// What is saved of a run that waits: whose it is, and what that agent saved.
#[derive(Serialize, Deserialize)]
struct Waiting {
    /// The route; none for the fallback.
    route: Option<String>,
    state: Value,
}

impl Router {
    /// Makes a router that goes by [`Keywords`], with the agent of each route by its name.
    ///
    /// # Errors
    ///
    /// Fails when a route has no agent, an agent no route, or when the table has no route or two of one name.
    pub fn new<A: Agent + 'static>(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, A)>,
    ) -> Result<Self, RouterError> {
        let agents = agents.into_iter().map(|(name, agent)| (name.into(), Arc::new(agent) as Arc<dyn Agent>));
        let agents: HashMap<_, _> = agents.collect();
        table.check(agents.keys().map(String::as_str))?;
        Ok(Self(Arc::new(Parts { table, agents, classifier: Arc::new(Keywords), fallback: None })))
    }

    /// Goes by another classifier, such as a [model](ModelClassifier).
    #[must_use]
    pub fn with_classifier(self, classifier: impl Classifier + 'static) -> Self {
        self.with(|parts| parts.classifier = Arc::new(classifier))
    }

    /// Sets who takes what is not clearly for one of the others, in place of a question back.
    #[must_use]
    pub fn with_fallback(self, agent: impl Agent + 'static) -> Self {
        self.with(|parts| parts.fallback = Some(Arc::new(agent)))
    }

    fn with(mut self, change: impl FnOnce(&mut Parts)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// The routes.
    pub fn table(&self) -> &RouteTable {
        &self.0.table
    }

    async fn open(self, mut input: RunInput) -> Result<Events, AgentError> {
        match &mut input.start {
            RunStart::New { messages, transcript } => {
                let conversation: Vec<Arc<Message>> = transcript
                    .messages()
                    .iter()
                    .cloned()
                    .chain(messages.iter().cloned().map(Arc::new))
                    .collect();
                let cancellation = input.context.cancellation.clone();
                let classified = self.0.classifier.classify(&self.0.table, &conversation);
                let choice = tokio::select! {
                    biased;
                    choice = classified => choice?,
                    () = cancellation.cancelled() => return Err(AgentErrorKind::Cancelled.into()),
                };
                self.follow(choice, input)
            }
            RunStart::Resume { parked, .. } => {
                let route = self.take_up(parked)?;
                let agent = self.agent(route.as_deref())?;
                Ok(relay(agent, input, route, Usage::default()))
            }
        }
    }

    fn follow(self, choice: Choice, input: RunInput) -> Result<Events, AgentError> {
        let known = choice.route.filter(|route| self.0.agents.contains_key(route));
        tracing::info!(route = known, reason = choice.reason, "a task is routed");
        let routed = RunEvent::Routed { route: known.clone(), reason: choice.reason };
        let events = if known.is_some() || self.0.fallback.is_some() {
            let agent = self.agent(known.as_deref())?;
            relay(agent, input, known, choice.usage)
        } else {
            let question = clarify::question(&self.0.table, &choice.candidates);
            clarify::answer(input, question, choice.usage)
        };
        Ok(stream::iter([Ok(routed)]).chain(events).boxed())
    }

    /// Puts the state of the agent that parked a run in the place of the router's; whose it is.
    fn take_up(&self, parked: &mut Parked) -> Result<Option<String>, AgentError> {
        let foreign =
            |_| AgentErrorKind::InvalidInput("what is parked was not parked by this router".to_owned());
        let waiting = Waiting::deserialize(parked.state.take()).map_err(foreign)?;
        parked.state = waiting.state;
        Ok(waiting.route)
    }

    fn agent(&self, route: Option<&str>) -> Result<Arc<dyn Agent>, AgentError> {
        let agent = match route {
            Some(route) => self.0.agents.get(route),
            None => self.0.fallback.as_ref(),
        };
        agent.cloned().ok_or_else(|| {
            let route = route.map_or_else(|| "fallback".to_owned(), |route| format!("route {route:?}"));
            AgentErrorKind::InvalidInput(format!("there is no {route} any more")).into()
        })
    }
}

type Events = BoxStream<'static, Result<RunEvent, AgentError>>;

/// The events of an agent; what it parks says whose it is.
fn relay(agent: Arc<dyn Agent>, input: RunInput, route: Option<String>, usage: Usage) -> Events {
    let events = agent.stream(input).map(move |event| {
        event.map(|event| match event {
            RunEvent::Done { output: RunOutput::Parked(parked) } => {
                let state = json!(Waiting { route: route.clone(), state: parked.state });
                RunEvent::Done { output: RunOutput::Parked(Parked { state, ..parked }) }
            }
            RunEvent::Done { output: RunOutput::Answer(mut answer) } => {
                answer.usage += usage;
                RunEvent::Done { output: RunOutput::Answer(answer) }
            }
            event => event,
        })
    });
    events.boxed()
}

impl Agent for Router {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let opened = self.clone().open(input);
        let events = stream::once(opened).map(|opened| match opened {
            Ok(events) => events,
            Err(error) => stream::iter([Err(error)]).boxed(),
        });
        events.flatten().boxed()
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("table", &self.0.table).finish_non_exhaustive()
    }
}
