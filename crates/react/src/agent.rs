//! The ReAct agent, which drives a [`Run`] on a tokio runtime.

mod budget;
mod build;
mod builder;
mod call_settings;
mod clock;
mod drive;
mod events;
mod handle;
mod hooks;
mod perform;
mod reply_events;
mod scope;
mod signature;
mod tool_warnings;
mod trace_content;

use std::{sync::Arc, time::Duration};

use futures::{future::BoxFuture, stream::BoxStream};
use haft_core::{
    Agent, ChatModel, Message, RunEvent, RunInput, RunOutput, Tool, Toolset,
    agent::{AgentError, RunStart},
    call::BoxError,
    export::async_trait,
    model::{ChatModelExt as _, HostedTool},
    tool::{HostState, RunContext},
    usage::Prices,
};

use crate::{
    Dialect, Run, RunConfig,
    blocking::BlockingAgent,
    hook::{HookContext, HookSet, PreparedListCache},
    queue::with_queues,
    transcript::set_timestamps,
};

pub(crate) use budget::RunBudget;
pub use build::AgentBuildError;
pub use builder::ReactAgentBuilder;
pub(crate) use drive::{Perform, drive_owned};
pub(crate) use events::{EventSink, event_stream};
pub(crate) use handle::Mailbox;
pub use handle::RunHandle;
pub(crate) use perform::{Outcomes, outcome_stream};
pub use scope::RunScope;

/// A condition under which a hand-off tool is offered in a step.
pub(crate) type HandoffCondition =
    Arc<dyn Fn(HookContext) -> BoxFuture<'static, Result<bool, BoxError>> + Send + Sync>;

/// A ReAct agent ("reason and act"): it sends requests to its model and executes the tool calls in
/// the replies, until a reply is the answer. Cheap to clone.
///
/// Needs a tokio runtime. The calls of one reply run in parallel, each on its own tokio task,
/// unless a tool is [sequential](haft_core::tool::ToolPolicy::sequential) or the calls
/// [conflict](haft_core::tool::ToolPolicy::touches).
///
/// # Examples
///
/// ```
/// use haft_core::{export::schemars::{self, JsonSchema}, tool_fn, Toolset};
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
/// let tools = Toolset::new().with_tool(tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y }));
/// let model = ScriptedModel::new().reply_calls([("call_1", "add", r#"{"x":17,"y":25}"#)]).reply_text("It is 42.");
///
/// let agent = ReactAgent::new(model, tools)?;
/// let output = agent.run("What is 17 plus 25?").await?;
/// assert_eq!(output.text()?, "It is 42.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ReactAgent(Arc<AgentInner>);

#[derive(Clone)]
struct AgentInner {
    model: Arc<dyn ChatModel>,
    /// The model that writes summaries of long conversations. The same as `model` unless the
    /// builder sets a compactor.
    compactor: Arc<dyn ChatModel>,
    /// The tools without their queues.
    own_tools: Toolset,
    tools: Toolset,
    hosted_tools: Arc<[HostedTool]>,
    dialect: Arc<dyn Dialect>,
    instructions: Option<Arc<Message>>,
    config: RunConfig,
    state: HostState,
    hooks: HookSet,
    prepared_lists: Arc<PreparedListCache>,
    prices: Option<Prices>,
    /// `true` if tracing spans include the text of messages, arguments and results.
    traces_content: bool,
    /// The conditions under which hand-off tools are offered, with the names of the tools.
    handoff_conditions: Vec<(String, HandoffCondition)>,
}

impl ReactAgent {
    /// Creates an agent with default settings and the default dialect for `model`.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`ReactAgentBuilder::build`].
    pub fn new(model: impl ChatModel + 'static, tools: Toolset) -> Result<Self, AgentBuildError> {
        Self::builder(model).tools(tools).build()
    }

    /// Creates a builder for an agent that uses `model`.
    pub fn builder(model: impl ChatModel + 'static) -> ReactAgentBuilder {
        ReactAgentBuilder::new(Arc::new(model))
    }

    /// Runs the agent on `input` until it has an answer, an error occurs, or all open calls wait
    /// for a decision.
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run. The error contains the transcript so far.
    pub fn run(&self, input: impl Into<RunInput>) -> BoxFuture<'_, Result<RunOutput, AgentError>> {
        Agent::run(self, input.into())
    }

    /// Runs the agent on `input` and streams the events of the run. The last item is
    /// [`RunEvent::Done`] or an error.
    pub fn stream(&self, input: impl Into<RunInput>) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        Agent::stream(self, input.into())
    }

    /// Returns the toolset of the agent.
    pub fn tools(&self) -> &Toolset {
        &self.0.tools
    }

    /// Returns the dialect of the agent: the format of requests and replies.
    pub fn dialect(&self) -> &dyn Dialect {
        &*self.0.dialect
    }

    /// Returns the configuration of new runs of the agent.
    pub fn config(&self) -> &RunConfig {
        &self.0.config
    }

    /// Wraps the agent in a [`BlockingAgent`] for synchronous code. The wrapper owns its tokio
    /// runtimes.
    pub fn to_blocking(&self) -> BlockingAgent<Self> {
        BlockingAgent::new(self.clone())
    }

    /// Creates a new run from `input`, or restores the suspended run in `input`. Use
    /// [`drive`](Self::drive) to execute the run.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`Run::new`].
    pub fn create_run(&self, mut input: RunInput) -> Result<Run, AgentError> {
        let (RunStart::New { messages, .. } | RunStart::Resume { messages, .. }) = &mut input.start;
        set_timestamps(messages);
        let mut run = Run::new(&self.0.config, input)?;
        run.set_checks(self.0.config.checks);
        Ok(run)
    }

    /// Returns a stream that drives `run` until it ends or is suspended, and yields its events. The
    /// caller keeps ownership of `run`, and can save it or drive it again after an error. If a
    /// previous driver of `run` was dropped or crashed, the run is [recovered](Run::recover) first.
    ///
    /// # Cancellation
    ///
    /// Dropping the stream aborts the model request and the calls in progress. The run keeps its
    /// state: drive it again, or close its calls with [`Run::cancel`]. An aborted call may have had
    /// side effects.
    pub fn drive<'r>(
        &self,
        run: &'r mut Run,
        context: RunContext,
    ) -> BoxStream<'r, Result<RunEvent, AgentError>> {
        let agent = self.clone();
        event_stream(|events| async move { agent.drive_to_end(run, context, &events).await })
    }
}

/// The parts of an agent that a [`HandoffGroup`](crate::HandoffGroup) uses.
impl ReactAgent {
    /// Returns a copy of this agent with the hand-off tools `tools` and their conditions added.
    /// Fails if the resulting toolset has a duplicate name or an invalid tool.
    pub(crate) fn with_handoff_tools<T: Tool + 'static>(
        &self,
        tools: impl IntoIterator<Item = T>,
        conditions: Vec<(String, HandoffCondition)>,
    ) -> Result<Self, AgentBuildError> {
        let mut inner = AgentInner::clone(&self.0);
        for tool in tools {
            inner.config.handoff_tools.insert(tool.definition().name().to_string());
            inner.own_tools = inner.own_tools.with_tool(tool);
        }
        inner.tools = with_queues(inner.own_tools.clone());
        inner.handoff_conditions.extend(conditions);
        inner.tools.check()?;
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the timeout of the hooks of this agent.
    pub(crate) fn hook_timeout(&self) -> Duration {
        self.0.hooks.timeout
    }
}

/// Wraps `model` so that the usage in its replies includes the cost. Returns `model` unchanged if
/// there are no `prices`.
fn with_prices(model: Arc<dyn ChatModel>, prices: Option<&Prices>) -> Arc<dyn ChatModel> {
    match prices {
        Some(prices) => Arc::new(model.priced(prices.clone())),
        None => model,
    }
}

#[async_trait]
impl Agent for ReactAgent {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        let agent = self.clone();
        event_stream(|events| async move { agent.run_to_end(input, &events).await })
    }

    /// Runs the agent without events. The model is called with [`chat`](ChatModel::chat) instead of
    /// [`stream`](ChatModel::stream), since no caller reads deltas.
    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        self.run_to_end(input, &EventSink::unobserved()).await
    }
}

impl std::fmt::Debug for ReactAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReactAgent")
            .field("tools", &self.0.tools)
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}
