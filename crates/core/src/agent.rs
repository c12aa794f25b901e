//! The [`Agent`] trait, and the inputs, outputs and events of a run.

mod error;
mod event;
mod guardrail;
mod input;
mod output;
mod suspended;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};

pub use error::{AgentError, AgentErrorKind, Limit};
pub use event::RunEvent;
pub use guardrail::{GuardrailAction, GuardrailReport, GuardrailStage};
pub use input::{RunInput, RunLimits, RunStart};
pub use output::{AgentStep, AnswerParseError, RunAnswer, RunOutput, StopReason};
pub use suspended::SuspendedRun;

/// An agent that works on a task with models and tools, until it has an answer or is suspended.
///
/// # Cancellation
///
/// Dropping the stream or the future aborts the run and all its calls, and discards the
/// transcript. To keep the transcript, cancel the token in [`RunInput::context`] instead. The run
/// then closes its open calls and ends with an [`AgentError`] that contains the transcript.
///
/// # Examples
///
/// An agent without a model:
///
/// ```
/// use std::sync::Arc;
///
/// use futures::stream::{self, BoxStream, StreamExt as _};
/// use haft_core::{
///     Agent, Message, RunEvent, RunInput, RunOutput,
///     agent::{AgentError, AgentErrorKind, RunAnswer, RunStart, StopReason},
///     usage::Usage,
/// };
///
/// /// Answers with the text of the last message.
/// struct Echo;
///
/// impl Agent for Echo {
///     fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>> {
///         let answer = echo(input).map(|answer| RunOutput::Answer(Box::new(answer)));
///         let event = answer.map(|output| RunEvent::Done { output });
///         stream::iter([event]).boxed()
///     }
/// }
///
/// fn echo(input: RunInput) -> Result<RunAnswer, AgentError> {
///     let RunStart::New { messages, mut transcript } = input.start else {
///         return Err(AgentErrorKind::InvalidInput("never suspended".to_owned()).into());
///     };
///     let text = messages.last().map(Message::text).unwrap_or_default();
///     transcript.extend(messages.into_iter().map(Arc::new));
///     transcript.push(Message::assistant(text.as_str()));
///     Ok(RunAnswer {
///         text,
///         outputs: Default::default(),
///         value: None,
///         steps: Vec::new(),
///         usage: Usage::default(),
///         stop_reason: StopReason::Finished,
///         agent: None,
///         guardrails: Vec::new(),
///         transcript,
///     })
/// }
///
/// # futures::executor::block_on(async {
/// let output = Echo.run("Hello".into()).await?;
/// assert_eq!(output.text().unwrap(), "Hello");
/// # Ok::<(), AgentError>(()) })?;
/// # Ok::<(), AgentError>(())
/// ```
#[async_trait]
pub trait Agent: Send + Sync {
    /// Runs the agent and streams its events. The last item is [`RunEvent::Done`] or an error.
    ///
    /// The stream does not borrow the agent, so a server can return it as a response body.
    fn stream(&self, input: RunInput) -> BoxStream<'static, Result<RunEvent, AgentError>>;

    /// Runs the agent and returns its output. The events of the run are discarded.
    ///
    /// # Errors
    ///
    /// Fails with the [`AgentError`] that ended the run. The error contains the transcript up to
    /// the failure. Fails with [`AgentErrorKind::Incomplete`] if the stream ends without
    /// [`RunEvent::Done`].
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
