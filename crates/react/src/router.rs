//! Routers. A router selects one of several agents for a task.

mod clarify;
mod classifier;
mod keyword_classifier;
mod model_classifier;
mod table;

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{
    StreamExt as _, TryFutureExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput, Transcript,
    agent::{AgentError, AgentErrorKind, RunAnswer, RunStart, SuspendedRun},
    export::async_trait,
    tool::RunContext,
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Mailbox,
    host_panic::catch_async_panic,
    run::{append_to_conversation, set_timestamps},
};

pub use classifier::{Classifier, RouteChoice};
pub use keyword_classifier::KeywordClassifier;
pub use model_classifier::ModelClassifier;
pub use table::{Keyword, Route, RouteTable, RouteTableError};

/// An agent that passes each task, together with the conversation so far, to one of several agents.
///
/// If the route is not clear, the [fallback](Self::with_fallback) agent runs. Without a fallback,
/// the answer is a clarifying question, with the stop reason
/// [`Clarification`](haft_core::agent::StopReason::Clarification). Each decision is reported with
/// its reason as [`RunEvent::Routed`]. A suspended run is resumed by the agent that suspended it.
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
/// let architecture = ReactAgent::new(ScriptedModel::new().reply_text("[ ]"), Toolset::new())?;
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
pub struct Router(Arc<RouterInner>);

#[derive(Clone)]
struct RouterInner {
    table: RouteTable,
    agents: HashMap<String, Arc<dyn Agent>>,
    classifier: Arc<dyn Classifier>,
    fallback: Option<Arc<dyn Agent>>,
    /// Set if unpaired calls and results are left to the selected agent.
    accepts_unpaired_calls: bool,
}

/// The state of a router in a suspended run.
#[derive(Serialize, Deserialize)]
struct RouterState {
    /// The name of the selected route, or `None` for the fallback agent.
    route: Option<String>,
    checkpoint: Value,
    /// The tokens used by the classifier, and their cost.
    #[serde(default)]
    usage: Usage,
}

impl Router {
    /// Creates a router with one agent per route. Tasks are classified by [`KeywordClassifier`].
    ///
    /// # Errors
    ///
    /// Fails if the table is empty, if a route has no agent, if an agent has no route, if two
    /// routes or two agents have the same name, or if a keyword can never match.
    pub fn new<A: Agent + 'static>(
        table: RouteTable,
        agents: impl IntoIterator<Item = (impl Into<String>, A)>,
    ) -> Result<Self, RouteTableError> {
        let agents = agents.into_iter().map(|(name, agent)| (name.into(), Arc::new(agent) as Arc<dyn Agent>));
        let agents: Vec<_> = agents.collect();
        table.check_agents(agents.iter().map(|(name, _)| name.as_str()))?;
        let agents = agents.into_iter().collect();
        Ok(Self(Arc::new(RouterInner {
            table,
            agents,
            classifier: Arc::new(KeywordClassifier),
            fallback: None,
            accepts_unpaired_calls: false,
        })))
    }

    /// Sets the classifier, for example a [`ModelClassifier`]. Default: [`KeywordClassifier`].
    #[must_use]
    pub fn with_classifier(self, classifier: impl Classifier + 'static) -> Self {
        self.modify(|inner| inner.classifier = Arc::new(classifier))
    }

    /// Sets the fallback agent, which runs tasks without a clear route. By default, the answer to
    /// these tasks is a clarifying question.
    #[must_use]
    pub fn with_fallback(self, agent: impl Agent + 'static) -> Self {
        self.modify(|inner| inner.fallback = Some(Arc::new(agent)))
    }

    /// Accepts an earlier conversation with unpaired calls and results, for agents that
    /// [repair](crate::ReactAgentBuilder::repair_history) it. By default, such a conversation is
    /// rejected before a route is selected.
    #[must_use]
    pub fn accept_unpaired_calls(self) -> Self {
        self.modify(|inner| inner.accepts_unpaired_calls = true)
    }

    fn modify(mut self, change: impl FnOnce(&mut RouterInner)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Returns the table with the routes to the agents.
    pub fn table(&self) -> &RouteTable {
        &self.0.table
    }

    /// Classifies a new task, or restores the route of a suspended run. Returns the [`Dispatch`],
    /// and the event that reports the decision. The event is `None` for a suspended run.
    async fn route(&self, input: RunInput) -> Result<(Option<RunEvent>, Dispatch), AgentError> {
        let context = input.context.clone();
        let result = self.classify_or_restore(input).await;
        if !matches!(result, Ok((_, Dispatch::Agent { .. }))) {
            // No agent runs. Dropping the mailbox closes the `RunHandle` of the task, if any.
            drop(Mailbox::attach(&context));
        }
        result
    }

    async fn classify_or_restore(
        &self,
        mut input: RunInput,
    ) -> Result<(Option<RunEvent>, Dispatch), AgentError> {
        match &mut input.start {
            RunStart::New { messages, transcript } => {
                set_timestamps(messages);
                let conversation = self.conversation(transcript, messages.clone())?;
                let choice = self.classify_task(&conversation, &input.context).await;
                if let Some(meter) = &input.context.usage {
                    meter.add(choice.as_ref().map_or_else(|error| error.usage, |choice| choice.usage));
                }
                // No agent has started yet, so the router adds the conversation to the error.
                let choice = choice.map_err(|error| {
                    let usage = error.usage;
                    error.with_transcript_and_usage(conversation.clone(), usage)
                })?;
                let (routed, dispatch) = self.dispatch(choice, input, conversation)?;
                Ok((Some(routed), dispatch))
            }
            RunStart::Resume { suspended, .. } => {
                let (route, usage) = self.restore_route(suspended)?;
                let agent = self.agent(route.as_deref())?;
                Ok((
                    None,
                    Dispatch::Agent { agent, input: Box::new(input), info: RouteInfo { route, usage } },
                ))
            }
        }
    }

    /// Returns `earlier` with the messages `new`. Fails if `earlier` has unpaired calls or results,
    /// unless they are left to the selected agent.
    fn conversation(&self, earlier: &Transcript, new: Vec<Message>) -> Result<Transcript, AgentError> {
        if !self.0.accepts_unpaired_calls {
            return append_to_conversation(earlier, new);
        }
        let mut conversation = earlier.clone();
        conversation.extend(new.into_iter().map(Into::into));
        Ok(conversation)
    }

    async fn classify_task(
        &self,
        conversation: &Transcript,
        context: &RunContext,
    ) -> Result<RouteChoice, AgentError> {
        if context.cancellation.is_cancelled() {
            return Err(AgentErrorKind::Cancelled.into());
        }
        let classified = catch_async_panic("Classifier::classify", async {
            self.0.classifier.classify(&self.0.table, conversation.messages()).await
        });
        tokio::select! {
            biased;
            choice = classified => choice.map_err(|panic| panic.into_error("classifier"))?,
            () = context.cancellation.cancelled() => Err(AgentErrorKind::Cancelled.into()),
        }
    }

    /// Runs the selected agent until it answers or is suspended.
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run. The error contains the transcript so far.
    pub fn run(&self, input: impl Into<RunInput>) -> BoxFuture<'_, Result<RunOutput, AgentError>> {
        Agent::run(self, input.into())
    }

    /// Runs the selected agent and emits the events of the run. The last item is [`RunEvent::Done`]
    /// or an error.
    pub fn stream(&self, input: impl Into<RunInput>) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        Agent::stream(self, input.into())
    }

    /// Selects the agent of the chosen route. If no route was chosen or the route is unknown,
    /// selects the fallback agent, or a clarifying question if there is no fallback agent. Returns
    /// the event that reports the decision, and the [`Dispatch`].
    fn dispatch(
        &self,
        choice: RouteChoice,
        input: RunInput,
        conversation: Transcript,
    ) -> Result<(RunEvent, Dispatch), AgentError> {
        let route = choice.route.filter(|route| self.0.agents.contains_key(route));
        tracing::info!(route, reason = choice.reason, "a task is routed");
        let routed = RunEvent::Routed { route: route.clone(), reason: choice.reason };
        if route.is_none() && self.0.fallback.is_none() {
            let question = clarify::clarifying_question(&self.0.table, &choice.candidates);
            let answer = clarify::clarifying_answer(conversation, question, choice.usage);
            return Ok((routed, Dispatch::Question(Box::new(answer))));
        }
        let agent = self.agent(route.as_deref())?;
        let info = RouteInfo { route, usage: choice.usage };
        Ok((routed, Dispatch::Agent { agent, input: Box::new(input), info }))
    }

    /// Replaces the checkpoint of the router in `suspended` with the checkpoint of the selected
    /// agent. Returns the name of the route (`None` for the fallback agent) and the usage of the
    /// classifier.
    fn restore_route(&self, suspended: &mut SuspendedRun) -> Result<(Option<String>, Usage), AgentError> {
        let foreign =
            |_| AgentErrorKind::InvalidInput("the suspended run does not belong to this router".to_owned());
        let saved = RouterState::deserialize(suspended.checkpoint.take()).map_err(foreign)?;
        suspended.checkpoint = saved.checkpoint;
        Ok((saved.route, saved.usage))
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

/// The decision of a router for one task.
enum Dispatch {
    /// The selected agent runs the task.
    Agent { agent: Arc<dyn Agent>, input: Box<RunInput>, info: RouteInfo },
    /// No agent runs. The answer is a clarifying question.
    Question(Box<RunAnswer>),
}

/// The selected route of a run, and the usage of the classifier.
struct RouteInfo {
    route: Option<String>,
    usage: Usage,
}

impl RouteInfo {
    /// Adds the usage of the classifier and the name of the route, if any, to an answer. In a
    /// suspended run, saves both in the checkpoint.
    fn add_to_output(&self, output: RunOutput) -> RunOutput {
        match output {
            RunOutput::Suspended(suspended) => {
                let saved = RouterState {
                    route: self.route.clone(),
                    checkpoint: suspended.checkpoint,
                    usage: self.usage,
                };
                RunOutput::Suspended(SuspendedRun { checkpoint: json!(saved), ..suspended })
            }
            RunOutput::Answer(mut answer) => {
                answer.usage += self.usage;
                RunOutput::Answer(match &self.route {
                    Some(route) => Box::new(answer.prepend_agent(route)),
                    None => answer,
                })
            }
        }
    }

    fn add_to_error(&self, mut error: AgentError) -> AgentError {
        error.usage += self.usage;
        error
    }
}

type RunEvents = BoxStream<'static, Result<RunEvent, AgentError>>;

impl Dispatch {
    fn stream(self) -> RunEvents {
        match self {
            Self::Agent { agent, input, info } => {
                let events = agent.stream(*input).map(move |event| match event {
                    Ok(RunEvent::Done { output }) => {
                        Ok(RunEvent::Done { output: info.add_to_output(output) })
                    }
                    Ok(event) => Ok(event),
                    Err(error) => Err(info.add_to_error(error)),
                });
                events.boxed()
            }
            Self::Question(answer) => {
                let text = RunEvent::TextDelta { text: answer.text.clone() };
                let done = RunEvent::Done { output: RunOutput::Answer(answer) };
                stream::iter([Ok(text), Ok(done)]).boxed()
            }
        }
    }

    async fn run(self) -> Result<RunOutput, AgentError> {
        match self {
            Self::Agent { agent, input, info } => match agent.run(*input).await {
                Ok(output) => Ok(info.add_to_output(output)),
                Err(error) => Err(info.add_to_error(error)),
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
            let (routed, dispatch) = router.route(input).await?;
            Ok(stream::iter(routed.map(Ok)).chain(dispatch.stream()))
        };
        opened.try_flatten_stream().boxed()
    }

    /// Routes `input` and runs the selected agent without streaming: its model returns complete
    /// replies, and no events are emitted.
    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        let (_, dispatch) = self.route(input).await?;
        dispatch.run().await
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("table", &self.0.table).finish_non_exhaustive()
    }
}
