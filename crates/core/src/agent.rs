//! Agents: whatever takes a task and works on it until there is an answer.

mod error;
mod event;
mod input;
mod output;
mod parked;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};

pub use error::{AgentError, AgentErrorKind, Limit};
pub use event::RunEvent;
pub use input::{RunInput, RunLimits, RunStart};
pub use output::{AgentStep, ParseError, RunAnswer, RunOutput, StopReason};
pub use parked::Parked;

/// Something that takes a task and works on it, asking models and calling tools, until there is an answer or it
/// must wait for one.
///
/// # Cancellation
///
/// Dropping the stream or the future ends the run with everything in it. To keep its transcript, cancel the
/// token of [`RunInput::context`] instead: the run closes its open calls and ends with an error that has it.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Runs and tells what happens. The last event is [`RunEvent::Done`], or the item is an error.
    ///
    /// The stream owns what it needs: an agent is cheap to clone, and a server's stream outlives the borrow.
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>>;

    /// Runs to the end.
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run; it has the transcript so far.
    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        let mut events = self.stream(input);
        while let Some(event) = events.next().await {
            if let RunEvent::Done { output } = event? {
                return Ok(output);
            }
        }
        Err(AgentErrorKind::Incomplete.into())
    }
}

#[async_trait]
impl<A: Agent + ?Sized> Agent for std::sync::Arc<A> {
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
        A::stream(self, input)
    }

    async fn run(&self, input: RunInput) -> Result<RunOutput, AgentError> {
        A::run(self, input).await
    }
}
