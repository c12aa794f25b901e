//! Routing of tasks to agents.

mod clarify;
mod classifier;
mod keywords;
mod model;
mod table;

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{
    StreamExt as _, TryFutureExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use haft_core::{
    Agent, RunEvent, RunInput, RunOutput, Transcript,
    agent::{AgentError, AgentErrorKind, RunAnswer, RunStart, SuspendedRun},
    export::async_trait,
    tool::RunContext,
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::run::{conversation, set_timestamps};

pub use classifier::{Choice, Classifier};
pub use keywords::Keywords;
pub use model::ModelClassifier;
pub use table::{Keyword, Route, RouteTable, RouterError};

/// An agent that routes each task to one of several agents, with the conversation so far.
///
/// If the route is not clear, the answer is a clarifying question, with
/// [`StopReason::Clarification`](haft_core::agent::StopReason::Clarification), or a
/// [fallback](Self::with_fallback) takes the task. Each decision is reported with its reason, as
/// [`RunEvent::Routed`]. A suspended run is resumed by its agent.
///
/// # Examples
///
/// ```
/// use haft_core::{agent::StopReason, Toolset};
/// use haft_testing::ScriptedModel;
/// use haft_react::{ReactAgent, Router, router::RouteTable};
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
/// let answer = router.run("Draw the architecture of my system.").await?.into_answer().unwrap();
/// assert_eq!(answer.text, "[ ]");
///
/// let answer = router.run("Draw something.").await?.into_answer().unwrap();
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

/// The saved form of a suspended run: its route, and the state of its agent.
#[derive(Serialize, Deserialize)]
struct Waiting {
    /// The route, or `None` for the fallback.
    route: Option<String>,
    state: Value,
    /// The usage of the classifier.
    #[serde(default)]
    usage: Usage,
}

impl Router {
    /// Creates a router that classifies by [`Keywords`], with the agent of each route by name.
    ///
    /// # Errors
    ///
    /// Fails if the table is empty, a route has no agent, an agent has no route, two routes or two
    /// agents have the same name, or a keyword can never match.
    pub fn new<A: Agent + 'static>(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, A)>,
    ) -> Result<Self, RouterError> {
        let agents = agents.into_iter().map(|(name, agent)| (name.into(), Arc::new(agent) as Arc<dyn Agent>));
        let agents: Vec<_> = agents.collect();
        table.check(agents.iter().map(|(name, _)| name.as_str()))?;
        let agents = agents.into_iter().collect();
        Ok(Self(Arc::new(Parts { table, agents, classifier: Arc::new(Keywords), fallback: None })))
    }

    /// Sets the classifier, for example a [model](ModelClassifier).
    #[must_use]
    pub fn with_classifier(self, classifier: impl Classifier + 'static) -> Self {
        self.with(|parts| parts.classifier = Arc::new(classifier))
    }

    /// Sets the agent for tasks without a clear route, instead of a clarifying question.
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

    /// Classifies a new task, and returns the event with the reason. Resumes a suspended run.
    async fn open(&self, mut input: RunInput) -> Result<(Option<RunEvent>, Course), AgentError> {
        match &mut input.start {
            RunStart::New { messages, transcript } => {
                set_timestamps(messages);
                let conversation = conversation(transcript, messages.clone())?;
                let choice = self.choose(&conversation, &input.context).await;
                // No agent has the conversation yet, so that the error must contain it.
                let choice = choice.map_err(|error| {
                    let usage = error.usage;
                    error.with_run(conversation.clone(), usage)
                })?;
                let (routed, course) = self.follow(choice, input, conversation)?;
                Ok((Some(routed), course))
            }
            RunStart::Resume { suspended, .. } => {
                let (route, usage) = self.take_up(suspended)?;
                let agent = self.agent(route.as_deref())?;
                Ok((None, Course::Agent { agent, input: Box::new(input), origin: Origin { route, usage } }))
            }
        }
    }

    async fn choose(&self, conversation: &Transcript, context: &RunContext) -> Result<Choice, AgentError> {
        if context.cancellation.is_cancelled() {
            return Err(AgentErrorKind::Cancelled.into());
        }
        let classified = self.0.classifier.classify(&self.0.table, conversation.messages());
        tokio::select! {
            biased;
            choice = classified => choice,
            () = context.cancellation.cancelled() => Err(AgentErrorKind::Cancelled.into()),
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run. It has the transcript so far.
    pub fn run(&self, input: impl Into<RunInput>) -> BoxFuture<'_, Result<RunOutput, AgentError>> {
        Agent::run(self, input.into())
    }

    /// Runs and emits events. The last item is [`RunEvent::Done`] or an error.
    pub fn stream(&self, input: impl Into<RunInput>) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        Agent::stream(self, input.into())
    }

    fn follow(
        &self,
        choice: Choice,
        input: RunInput,
        conversation: Transcript,
    ) -> Result<(RunEvent, Course), AgentError> {
        let known = choice.route.filter(|route| self.0.agents.contains_key(route));
        tracing::info!(route = known, reason = choice.reason, "a task is routed");
        let routed = RunEvent::Routed { route: known.clone(), reason: choice.reason };
        if known.is_none() && self.0.fallback.is_none() {
            let question = clarify::question(&self.0.table, &choice.candidates);
            let answer = clarify::answer(conversation, question, choice.usage);
            return Ok((routed, Course::Question(Box::new(answer))));
        }
        let agent = self.agent(known.as_deref())?;
        let origin = Origin { route: known, usage: choice.usage };
        Ok((routed, Course::Agent { agent, input: Box::new(input), origin }))
    }

    /// Replaces the state of the router by that of its agent. Returns the route and the usage of
    /// the classifier.
    fn take_up(&self, suspended: &mut SuspendedRun) -> Result<(Option<String>, Usage), AgentError> {
        let foreign =
            |_| AgentErrorKind::InvalidInput("what is suspended was not suspended by this router".to_owned());
        let waiting = Waiting::deserialize(suspended.state.take()).map_err(foreign)?;
        suspended.state = waiting.state;
        Ok((waiting.route, waiting.usage))
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

/// The decision about a task.
enum Course {
    /// An agent takes it.
    Agent { agent: Arc<dyn Agent>, input: Box<RunInput>, origin: Origin },
    /// The answer is a clarifying question.
    Question(Box<RunAnswer>),
}

/// The route of a run, and the usage of the classifier.
struct Origin {
    route: Option<String>,
    usage: Usage,
}

impl Origin {
    /// Adds the route to the output.
    fn of_output(&self, output: RunOutput) -> RunOutput {
        match output {
            RunOutput::Suspended(suspended) => {
                let waiting =
                    Waiting { route: self.route.clone(), state: suspended.state, usage: self.usage };
                RunOutput::Suspended(SuspendedRun { state: json!(waiting), ..suspended })
            }
            RunOutput::Answer(mut answer) => {
                answer.usage += self.usage;
                RunOutput::Answer(match &self.route {
                    Some(route) => Box::new(answer.by(route)),
                    None => answer,
                })
            }
        }
    }

    fn of_error(&self, mut error: AgentError) -> AgentError {
        error.usage += self.usage;
        error
    }
}

type Events = BoxStream<'static, Result<RunEvent, AgentError>>;

impl Course {
    fn stream(self) -> Events {
        match self {
            Self::Agent { agent, input, origin } => {
                let events = agent.stream(*input).map(move |event| match event {
                    Ok(RunEvent::Done { output }) => Ok(RunEvent::Done { output: origin.of_output(output) }),
                    Ok(event) => Ok(event),
                    Err(error) => Err(origin.of_error(error)),
                });
                events.boxed()
            }
            Self::Question(answer) => {
                let asked = RunEvent::TextDelta { text: answer.text.clone() };
                let done = RunEvent::Done { output: RunOutput::Answer(answer) };
                stream::iter([Ok(asked), Ok(done)]).boxed()
            }
        }
    }

    async fn run(self) -> Result<RunOutput, AgentError> {
        match self {
            Self::Agent { agent, input, origin } => match agent.run(*input).await {
                Ok(output) => Ok(origin.of_output(output)),
                Err(error) => Err(origin.of_error(error)),
            },
            Self::Question(answer) => Ok(RunOutput::Answer(answer)),
        }
    }
}

#[async_trait]
impl Agent for Router {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let router = self.clone();
        let opened = async move {
            let (routed, course) = router.open(input).await?;
            Ok(stream::iter(routed.map(Ok)).chain(course.stream()))
        };
        opened.try_flatten_stream().boxed()
    }

    /// Runs the agent without events, so that its model is asked for whole replies.
    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        let (_, course) = self.open(input).await?;
        course.run().await
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("table", &self.0.table).finish_non_exhaustive()
    }
}
