//! Routers. A router selects one of several agents for a task.

mod classifier;
mod model_classifier;
mod table;

use std::{collections::HashMap, fmt, sync::Arc};

use futures::{
    StreamExt as _, TryFutureExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use haft_core::{
    Agent, Message, RunEvent, RunInput, RunOutput, Timestamp, Transcript,
    agent::{AgentError, AgentErrorKind, RunAnswer, RunStart, StopReason, SuspendedRun},
    export::async_trait,
    tool::RunContext,
    usage::Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    agent::Mailbox,
    host_panic::catch_async_panic,
    transcript::{append_to_conversation, set_timestamps},
};

pub use classifier::{Classifier, KeywordClassifier, RouteChoice};
pub use model_classifier::ModelClassifier;
pub use table::{Keyword, Route, RouteTable, RouteTableError};

/// Metadata key that marks an assistant message as a clarifying question.
const CLARIFICATION_KEY: &str = "clarification";

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
pub struct Router {
    table: Arc<RouteTable>,
    agents: Arc<HashMap<String, Arc<dyn Agent>>>,
    classifier: Arc<dyn Classifier>,
    fallback: Option<Arc<dyn Agent>>,
    /// `true` if unpaired calls and results are left to the selected agent.
    accepts_unpaired_calls: bool,
}

/// The selected route of a run. It is saved in the checkpoint of a suspended run.
#[derive(Serialize, Deserialize)]
struct SelectedRoute {
    /// The name of the route. `None` for the fallback agent or a clarifying question.
    route: Option<String>,
    /// The tokens used by the classifier, and their cost.
    #[serde(default)]
    usage: Usage,
    /// The checkpoint of the selected agent. Null while the run is active.
    checkpoint: Value,
}

/// The event that reports a decision (`None` for a resumed run), the selected agent and its route.
type Selection = (Option<RunEvent>, Arc<dyn Agent>, SelectedRoute);

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
        Ok(Self {
            table: Arc::new(table),
            agents: Arc::new(agents.into_iter().collect()),
            classifier: Arc::new(KeywordClassifier),
            fallback: None,
            accepts_unpaired_calls: false,
        })
    }

    /// Sets the classifier, for example a [`ModelClassifier`]. Default: [`KeywordClassifier`].
    #[must_use]
    pub fn with_classifier(mut self, classifier: impl Classifier + 'static) -> Self {
        self.classifier = Arc::new(classifier);
        self
    }

    /// Sets the fallback agent, which runs tasks without a clear route. By default, the answer to
    /// these tasks is a clarifying question.
    #[must_use]
    pub fn with_fallback(mut self, agent: impl Agent + 'static) -> Self {
        self.fallback = Some(Arc::new(agent));
        self
    }

    /// Accepts an earlier conversation with unpaired calls and results, for agents that
    /// [repair](crate::ReactAgentBuilder::repair_history) it. By default, such a conversation is
    /// rejected before a route is selected.
    #[must_use]
    pub fn accept_unpaired_calls(mut self) -> Self {
        self.accepts_unpaired_calls = true;
        self
    }

    /// Returns the table with the routes to the agents.
    pub fn table(&self) -> &RouteTable {
        &self.table
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

    /// Selects the agent for a new task, or for a suspended run.
    async fn route(&self, input: &mut RunInput) -> Result<Selection, AgentError> {
        let selection = match &mut input.start {
            RunStart::Resume { suspended, .. } => self.resume(suspended),
            RunStart::New { messages, transcript } => {
                set_timestamps(messages);
                self.select(transcript, messages.clone(), &input.context).await
            }
        };
        if selection.is_err() {
            // No agent runs. Dropping the mailbox closes the `RunHandle` of the task, if any.
            drop(Mailbox::attach(&input.context));
        }
        selection
    }

    /// Returns the agent of a suspended run, and restores its checkpoint.
    fn resume(&self, suspended: &mut SuspendedRun) -> Result<Selection, AgentError> {
        let foreign =
            |_| AgentErrorKind::InvalidInput("the suspended run does not belong to this router".to_owned());
        let mut selected = SelectedRoute::deserialize(suspended.checkpoint.take()).map_err(foreign)?;
        suspended.checkpoint = selected.checkpoint.take();
        let agent = match &selected.route {
            Some(route) => self.agents.get(route),
            None => self.fallback.as_ref(),
        };
        let agent = agent.cloned().ok_or_else(|| {
            let route = selected.route.as_ref().map(|route| format!("route {route:?}"));
            let route = route.unwrap_or_else(|| "fallback".to_owned());
            AgentErrorKind::InvalidInput(format!("there is no {route} any more"))
        })?;
        Ok((None, agent, selected))
    }

    /// Classifies a new task, the messages `new` after the conversation `earlier`.
    async fn select(
        &self,
        earlier: &Transcript,
        new: Vec<Message>,
        context: &RunContext,
    ) -> Result<Selection, AgentError> {
        let conversation = if self.accepts_unpaired_calls {
            let mut conversation = earlier.clone();
            conversation.extend(new.into_iter().map(Arc::new));
            conversation
        } else {
            append_to_conversation(earlier, new)?
        };
        let choice = self.classify(&conversation, context).await;
        if let Some(meter) = &context.usage {
            meter.add(choice.as_ref().map_or_else(|error| error.usage, |choice| choice.usage));
        }
        // No agent has started yet, so the router adds the conversation to the error.
        let choice = choice.map_err(|error| {
            let usage = error.usage;
            error.with_transcript_and_usage(conversation.clone(), usage)
        })?;
        let RouteChoice { route, reason, candidates, usage } = choice;
        let route = route.filter(|route| self.agents.contains_key(route));
        tracing::info!(route, reason, "a task is routed");
        let agent = route.as_ref().and_then(|route| self.agents.get(route)).or(self.fallback.as_ref());
        let agent = agent.cloned().unwrap_or_else(|| {
            Arc::new(ClarifyingQuestion { text: self.question(&candidates), conversation })
        });
        let event = RunEvent::Routed { route: route.clone(), reason };
        Ok((Some(event), agent, SelectedRoute { route, usage, checkpoint: Value::Null }))
    }

    async fn classify(
        &self,
        conversation: &Transcript,
        context: &RunContext,
    ) -> Result<RouteChoice, AgentError> {
        if context.cancellation.is_cancelled() {
            return Err(AgentErrorKind::Cancelled.into());
        }
        let classified = catch_async_panic("Classifier::classify", async {
            self.classifier.classify(&self.table, conversation.messages()).await
        });
        tokio::select! {
            biased;
            choice = classified => choice.map_err(|panic| panic.into_error("classifier"))?,
            () = context.cancellation.cancelled() => Err(AgentErrorKind::Cancelled.into()),
        }
    }

    /// Returns the clarifying question of the table if it is set. Otherwise, returns a question
    /// that lists the descriptions of the routes in `candidates`, or of all routes if `candidates`
    /// is empty.
    fn question(&self, candidates: &[String]) -> String {
        if let Some(question) = &self.table.question {
            return question.clone();
        }
        let is_candidate = |route: &&Route| candidates.is_empty() || candidates.contains(&route.name);
        let routes = self.table.routes.iter().filter(is_candidate);
        let descriptions: Vec<_> = routes.map(|route| route.description.trim_end_matches('.')).collect();
        match descriptions.as_slice() {
            [] => "What do you want?".to_owned(),
            [only] => format!("Do you want {only}?"),
            [first @ .., last] => format!("Do you want {} or {last}?", first.join(", ")),
        }
    }
}

impl SelectedRoute {
    /// Adds the usage of the classifier to an answer or an error, and the name of the route, if
    /// any, to an answer. In a suspended run, saves the route in the checkpoint.
    fn add_to(&self, output: Result<RunOutput, AgentError>) -> Result<RunOutput, AgentError> {
        match output {
            Ok(RunOutput::Suspended(SuspendedRun { pending, checkpoint })) => {
                let saved = json!({"route": self.route, "usage": self.usage, "checkpoint": checkpoint});
                Ok(RunOutput::Suspended(SuspendedRun { pending, checkpoint: saved }))
            }
            Ok(RunOutput::Answer(mut answer)) => {
                answer.usage += self.usage;
                Ok(RunOutput::Answer(match &self.route {
                    Some(route) => Box::new(answer.prepend_agent(route)),
                    None => answer,
                }))
            }
            Err(mut error) => {
                error.usage += self.usage;
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Agent for Router {
    fn stream(&self, mut input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let router = self.clone();
        let opened = async move {
            let (routed, agent, selected) = router.route(&mut input).await?;
            let end = move |output| selected.add_to(output).map(|output| RunEvent::Done { output });
            let events = agent.stream(input).map(move |event| match event {
                Ok(RunEvent::Done { output }) => end(Ok(output)),
                Ok(event) => Ok(event),
                Err(error) => end(Err(error)),
            });
            Ok(stream::iter(routed.map(Ok)).chain(events))
        };
        opened.try_flatten_stream().boxed()
    }

    /// Routes `input` and runs the selected agent without streaming: its model returns complete
    /// replies, and no events are emitted.
    async fn run(&self, mut input: RunInput) -> Result<RunOutput, AgentError> {
        let (_, agent, selected) = self.route(&mut input).await?;
        selected.add_to(agent.run(input).await)
    }
}

/// An agent that answers a task without a clear route with a question.
struct ClarifyingQuestion {
    text: String,
    conversation: Transcript,
}

impl Agent for ClarifyingQuestion {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        // Dropping the mailbox closes the `RunHandle` of the task, if any.
        drop(Mailbox::attach(&input.context));
        let metadata = Map::from_iter([(CLARIFICATION_KEY.to_owned(), Value::Bool(true))]);
        let message = Message::assistant(self.text.as_str()).with_metadata(metadata);
        let mut transcript = self.conversation.clone();
        transcript.push(message.with_created_at(Timestamp::now()));
        let answer = RunAnswer {
            text: self.text.clone(),
            outputs: Map::new(),
            value: None,
            steps: Vec::new(),
            usage: Usage::default(),
            stop_reason: StopReason::Clarification,
            agent: None,
            guardrails: Vec::new(),
            transcript,
        };
        let text = RunEvent::TextDelta { text: self.text.clone() };
        let done = RunEvent::Done { output: RunOutput::Answer(Box::new(answer)) };
        stream::iter([Ok(text), Ok(done)]).boxed()
    }
}

/// Returns `true` if `message` is a clarifying question of a router.
fn is_clarification(message: &Message) -> bool {
    message.metadata_value(CLARIFICATION_KEY) == Some(&Value::Bool(true))
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("table", &self.table).finish_non_exhaustive()
    }
}
