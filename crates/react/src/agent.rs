//! The driver of runs on tokio.

mod ask;
mod build;
mod builder;
mod clock;
mod compact;
mod content;
mod deprecated;
mod drive;
mod hook;
mod signature;
mod watch;
mod woken;

use std::{collections::BTreeSet, sync::Arc};

use futures::stream::BoxStream;
use haft_core::{
    Agent, ChatModel, Message, RunEvent, RunInput, RunOutput, Tool, Toolset,
    agent::{AgentError, RunStart},
    export::async_trait,
    tool::{RunContext, State},
};

use crate::{BlockingAgent, Dialect, Run, RunConfig, run::date};

pub use build::BuildError;
pub use builder::ReactAgentBuilder;
pub use hook::{StepContext, StepRequest};
pub(crate) use watch::{Events, watch};

use hook::Hooks;

/// An agent that reasons and acts: it asks its model, makes the calls that the model wants, tells it the results, and
/// so on until there is an answer. Cheap to clone.
///
/// Needs a tokio runtime; calls run in parallel on tasks of their own.
///
/// # Examples
///
/// ```
/// use haft_core::{Agent, export::schemars::{self, JsonSchema}, tool_fn, Toolset};
/// use haft_testing::ScriptedModel;
/// use haft_react::ReactAgent;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Add {
///     x: i64,
///     y: i64,
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let tools = Toolset::new().with(tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y }));
/// let model = ScriptedModel::new().calls([("call_1", "add", r#"{"x":17,"y":25}"#)]).text("It is 42.");
///
/// let agent = ReactAgent::new(model, tools)?;
/// let output = agent.run("What is 17 plus 25?".into()).await?;
/// assert_eq!(output.text(), "It is 42.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ReactAgent(Arc<Parts>);

#[derive(Clone)]
struct Parts {
    model: Arc<dyn ChatModel>,
    /// Who summarises.
    compactor: Arc<dyn ChatModel>,
    tools: Toolset,
    dialect: Arc<dyn Dialect>,
    instructions: Option<Arc<Message>>,
    config: RunConfig,
    state: State,
    hooks: Arc<Hooks>,
    /// Whether spans hold what is said.
    traces_content: bool,
    /// Whether its tools may push calls.
    has_queue: bool,
    /// The tools by which it hands a run to another agent.
    transfers: BTreeSet<String>,
}

impl ReactAgent {
    /// Makes an agent with default limits, and the dialect that fits the model.
    ///
    /// # Errors
    ///
    /// The same as [`ReactAgentBuilder::build`].
    pub fn new(model: impl ChatModel + 'static, tools: Toolset) -> Result<Self, BuildError> {
        Self::builder(model).tools(tools).build()
    }

    /// Begins to make an agent.
    pub fn builder(model: impl ChatModel + 'static) -> ReactAgentBuilder {
        ReactAgentBuilder::new(Arc::new(model))
    }

    /// The tools that the agent offers.
    pub fn tools(&self) -> &Toolset {
        &self.0.tools
    }

    /// How the agent speaks to its model.
    pub fn dialect(&self) -> &dyn Dialect {
        &*self.0.dialect
    }

    pub(crate) fn config(&self) -> &RunConfig {
        &self.0.config
    }

    pub(crate) fn transfers(&self) -> &BTreeSet<String> {
        &self.0.transfers
    }

    /// The same agent with tools that end its part of a run, for another agent to go on.
    pub(crate) fn with_transfers<T: Tool + 'static>(
        &self,
        transfers: impl IntoIterator<Item = T>,
    ) -> Result<Self, BuildError> {
        let mut parts = Parts::clone(&self.0);
        for transfer in transfers {
            parts.transfers.insert(transfer.definition().name().to_string());
            parts.tools = parts.tools.with(transfer);
        }
        parts.tools.check()?;
        Ok(Self(Arc::new(parts)))
    }

    /// The same agent for code that is not asynchronous.
    pub fn blocking(&self) -> BlockingAgent<Self> {
        BlockingAgent::new(self.clone())
    }

    /// Begins a run, or takes up a parked one, without driving it.
    ///
    /// # Errors
    ///
    /// The same as [`Run::new`].
    pub fn begin(&self, mut input: RunInput) -> Result<Run, AgentError> {
        if let RunStart::New { messages, .. } = &mut input.start {
            date(messages);
        }
        Run::new(&self.0.config, input)
    }

    /// Drives a run that stays with the caller: when the stream is dropped, the run is where it was, and
    /// [`Run::cancel`] closes its calls.
    ///
    /// A run that another driver left is [recovered](Run::recover) first.
    pub fn drive<'r>(
        &self,
        run: &'r mut Run,
        context: RunContext,
    ) -> BoxStream<'r, Result<RunEvent, AgentError>> {
        let agent = self.clone();
        watch(|events| async move { agent.drive_to_end(run, context, &events).await })
    }
}

#[async_trait]
impl Agent for ReactAgent {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let agent = self.clone();
        watch(|events| async move {
            let context = input.context.clone();
            let mut run = agent.begin(input)?;
            agent.drive_to_end(&mut run, context, &events).await
        })
    }

    /// Runs to the end. Nobody watches, so the model is asked for [whole replies](ChatModel::chat).
    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        let context = input.context.clone();
        let mut run = self.begin(input)?;
        self.drive_to_end(&mut run, context, &Events::unwatched()).await
    }
}
