//! A blocking wrapper around agents, for synchronous code.

mod runtime;

use std::{fmt, sync::Arc};

use futures::{FutureExt as _, StreamExt as _, stream::BoxStream};
use haft_core::{
    Agent, RunEvent, RunInput, RunOutput,
    agent::{AgentError, AgentErrorKind, RunStart},
    usage::Usage,
};

use runtime::{AgentRuntime, SharedRuntime};

/// A blocking wrapper around any [`Agent`], for synchronous code.
///
/// The wrapper owns two tokio runtimes: one with two threads for timers and connections, and one
/// with four threads for tool calls and hooks. A tool that blocks its thread therefore does not
/// delay deadlines. The threads start with the first run, and stop when the last clone of the
/// `BlockingAgent` and its last [`BlockingEvents`] are dropped. All runs share the runtimes and can
/// reuse connections.
///
/// Inside an asynchronous task, [`run`](Self::run) fails with
/// [`AgentErrorKind::BlockingInRuntime`], and [`stream`](Self::stream) yields only this error. The
/// error names the asynchronous method to use instead. Blocking is allowed on threads outside an
/// asynchronous runtime, in `spawn_blocking` and in a `#[tool(blocking)]`.
///
/// # Examples
///
/// ```
/// use haft_core::{RunEvent, RunInput, Toolset};
/// use haft_testing::ScriptedModel;
/// use haft_react::ReactAgent;
///
/// let model = ScriptedModel::new().reply_text("Hello!").reply_text("You said \"Hi\".");
/// let agent = ReactAgent::new(model, Toolset::new())?.to_blocking();
///
/// let answer = agent.run("Hi")?.into_answer().unwrap();
/// assert_eq!(answer.text, "Hello!");
///
/// for event in agent.stream(RunInput::new("What did I say?").with_history(answer.transcript)) {
///     if let RunEvent::TextDelta { text } = event? {
///         assert_eq!(text, "You said \"Hi\".");
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BlockingAgent<A> {
    agent: A,
    runtime: SharedRuntime,
}

impl<A: Agent> BlockingAgent<A> {
    /// Wraps an agent. The tokio runtimes start with the first run.
    pub fn new(agent: A) -> Self {
        Self { agent, runtime: SharedRuntime::default() }
    }

    /// Runs the agent like [`Agent::run`], and blocks the current thread until the run ends or is
    /// suspended. Use [`RunInput::resume`] to continue a suspended run.
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run. Fails with
    /// [`AgentErrorKind::BlockingInRuntime`] inside an asynchronous task, and with
    /// [`AgentErrorKind::StartRuntime`] if a tokio runtime cannot be created.
    pub fn run(&self, input: impl Into<RunInput>) -> Result<RunOutput, AgentError> {
        let mut input = input.into();
        let runtime = self.get_runtime("run(…).await").map_err(|kind| start_error(kind, &input))?;
        set_call_runtime(&runtime, &mut input);
        runtime.block_on("run(…).await", self.agent.run(input).boxed())?
    }

    /// Runs the agent and returns an iterator over the events, like [`Agent::stream`]. The last
    /// item is [`RunEvent::Done`] or an error. Each call to [`next`](Iterator::next) blocks until
    /// the next event. Between these calls, tool calls in progress continue, but the run does not
    /// advance.
    ///
    /// # Cancellation
    ///
    /// Dropping the iterator ends the run: model requests and tool calls are aborted. An aborted
    /// call may have had side effects.
    pub fn stream(&self, input: impl Into<RunInput>) -> BlockingEvents {
        let mut input = input.into();
        match self.get_runtime("stream(…)") {
            Ok(runtime) => {
                set_call_runtime(&runtime, &mut input);
                let events = runtime.enter(|| self.agent.stream(input));
                BlockingEvents { run: Some((runtime, events)), start_error: None }
            }
            Err(kind) => BlockingEvents { run: None, start_error: Some(start_error(kind, &input)) },
        }
    }

    fn get_runtime(&self, method: &'static str) -> Result<Arc<AgentRuntime>, AgentErrorKind> {
        runtime::check_can_block(method)?;
        self.runtime.get_or_start()
    }
}

impl<A: fmt::Debug> fmt::Debug for BlockingAgent<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingAgent").field("agent", &self.agent).finish_non_exhaustive()
    }
}

type RunEvents = BoxStream<'static, Result<RunEvent, AgentError>>;

/// A blocking iterator over the events of a run. Dropping it ends the run.
#[must_use = "a run makes progress only while its events are read"]
pub struct BlockingEvents {
    /// The runtime and the event stream of the run. `None` after the end of the run, or if the run
    /// could not start.
    run: Option<(Arc<AgentRuntime>, RunEvents)>,
    /// The error of a run that could not start. It is the only item of the iterator.
    start_error: Option<AgentError>,
}

impl Iterator for BlockingEvents {
    type Item = Result<RunEvent, AgentError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.start_error.take() {
            return Some(Err(error));
        }
        let (runtime, events) = self.run.as_mut()?;
        let event = runtime.block_on("stream(…)", events.next()).map_err(AgentError::from).transpose();
        let event = event.map(Result::flatten);
        if !matches!(event, Some(Ok(_))) {
            self.drop_run();
        }
        event
    }
}

impl BlockingEvents {
    /// Drops the run in the context of its runtime, since destructors may need a runtime, for
    /// example to notify a server.
    fn drop_run(&mut self) {
        if let Some((runtime, events)) = self.run.take() {
            runtime.enter(|| drop(events));
        }
    }
}

impl Drop for BlockingEvents {
    fn drop(&mut self) {
        self.drop_run();
    }
}

impl fmt::Debug for BlockingEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingEvents").field("is_finished", &self.run.is_none()).finish_non_exhaustive()
    }
}

/// Selects `runtime` for the tool calls of the run that `input` starts. Does nothing if `input`
/// already selects a runtime for its calls.
fn set_call_runtime(runtime: &AgentRuntime, input: &mut RunInput) {
    input.context.runtime = input.context.runtime.take().or_else(|| runtime.calls());
}

/// Creates the error of a run that could not start. For a new run, the error contains the earlier
/// conversation, without the new messages of `input`.
fn start_error(kind: AgentErrorKind, input: &RunInput) -> AgentError {
    match &input.start {
        RunStart::New { transcript, .. } => {
            AgentError::from(kind).with_transcript_and_usage(transcript.clone(), Usage::default())
        }
        RunStart::Resume { .. } => kind.into(),
    }
}
