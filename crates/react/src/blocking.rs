//! Agents for code that is not asynchronous.

mod runtime;

use std::{fmt, sync::Arc};

use futures::{FutureExt as _, StreamExt as _, stream::BoxStream};
use haft_core::{
    Agent, RunEvent, RunInput, RunOutput,
    agent::{AgentError, AgentErrorKind, RunStart},
    usage::Usage,
};

use runtime::{OwnRuntime, Shared};

/// An agent for code that is not asynchronous: it runs any [`Agent`] on a small runtime of its own.
///
/// Calls are made on threads beside it: however many tools block theirs, a deadline is kept. The runtime begins with the first run and ends with the last clone and the last of its [events](BlockingEvents). It serves
/// all runs, so that connections which begin in one live on in the next.
///
/// Where waiting could never end, inside a running runtime, a run is an error that names the asynchronous method. On a thread
/// that may wait, as in `spawn_blocking` and in a `#[tool(blocking)]`, it is a run.
///
/// # Examples
///
/// ```
/// use haft_core::{RunEvent, RunInput, Toolset};
/// use haft_testing::ScriptedModel;
/// use haft_react::ReactAgent;
///
/// let model = ScriptedModel::new().text("Hello!").text("You said \"Hi\".");
/// let agent = ReactAgent::new(model, Toolset::new())?.blocking();
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
    runtime: Shared,
}

impl<A: Agent> BlockingAgent<A> {
    /// Makes an agent for synchronous code of any other.
    pub fn new(agent: A) -> Self {
        Self { agent, runtime: Shared::default() }
    }

    /// Runs to the end, as [`Agent::run`] does. A run that was suspended is taken up with [`RunInput::resume`].
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run, and with [`AgentErrorKind::BlockingInRuntime`] where waiting could never
    /// end.
    pub fn run(&self, input: impl Into<RunInput>) -> Result<RunOutput, AgentError> {
        let mut input = input.into();
        let runtime = self.runtime("run(…).await").map_err(|kind| refused(kind, &input))?;
        lend(&runtime, &mut input);
        runtime.block_on("run(…).await", self.agent.run(input).boxed())?
    }

    /// Runs and tells what happens, as [`Agent::stream`] does. The last item is [`RunEvent::Done`] or an error.
    ///
    /// # Cancellation
    ///
    /// Dropping the iterator ends the run with everything in it: a request is given up, a call is aborted. An effect that
    /// was under way may have happened.
    pub fn stream(&self, input: impl Into<RunInput>) -> BlockingEvents {
        let mut input = input.into();
        match self.runtime("stream(…)") {
            Ok(runtime) => {
                lend(&runtime, &mut input);
                let events = runtime.within(|| self.agent.stream(input));
                BlockingEvents { run: Some((runtime, events)), refused: None }
            }
            Err(kind) => BlockingEvents { run: None, refused: Some(refused(kind, &input)) },
        }
    }

    fn runtime(&self, method: &'static str) -> Result<Arc<OwnRuntime>, AgentErrorKind> {
        runtime::check(method)?;
        self.runtime.get()
    }
}

impl<A: fmt::Debug> fmt::Debug for BlockingAgent<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingAgent").field("agent", &self.agent).finish_non_exhaustive()
    }
}

type Events = BoxStream<'static, Result<RunEvent, AgentError>>;

/// What happens in a run, one event after the other; `next` waits for it. Dropped, it ends the run.
#[must_use = "a run goes on only while it is asked for events"]
pub struct BlockingEvents {
    /// The run, until it is over.
    run: Option<(Arc<OwnRuntime>, Events)>,
    /// Why there is none.
    refused: Option<AgentError>,
}

impl Iterator for BlockingEvents {
    type Item = Result<RunEvent, AgentError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.refused.take() {
            return Some(Err(error));
        }
        let (runtime, events) = self.run.as_mut()?;
        let event = runtime.block_on("stream(…)", events.next()).map_err(AgentError::from).transpose();
        let event = event.map(Result::flatten);
        if !matches!(event, Some(Ok(_))) {
            self.end();
        }
        event
    }
}

impl BlockingEvents {
    /// What ends with a run may need the runtime that it ran on, to tell a server for example.
    fn end(&mut self) {
        if let Some((runtime, events)) = self.run.take() {
            runtime.within(|| drop(events));
        }
    }
}

impl Drop for BlockingEvents {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for BlockingEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingEvents").field("is_over", &self.run.is_none()).finish_non_exhaustive()
    }
}

/// Has the calls of a run made beside it, where the program does not say otherwise.
fn lend(runtime: &OwnRuntime, input: &mut RunInput) {
    input.context.runtime = input.context.runtime.take().or_else(|| runtime.calls());
}

/// The error of a run that does not begin: the conversation is what it was.
fn refused(kind: AgentErrorKind, input: &RunInput) -> AgentError {
    match &input.start {
        RunStart::New { transcript, .. } => {
            AgentError::from(kind).with_run(transcript.clone(), Usage::default())
        }
        RunStart::Resume { .. } => kind.into(),
    }
}
