use std::{error::Error, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::GuardrailReport;
use crate::{
    message::Transcript,
    model::ModelError,
    text::ErrorChain,
    usage::{Cost, Usage},
};

/// The error of a failed run, with the transcript and the usage up to the failure.
///
/// `Debug` prints the error message and its causes, but not the transcript. Rust prints an error
/// returned from `main` with `Debug`, and a transcript would make this output unreadable.
pub struct AgentError {
    /// The reason why the run failed.
    pub kind: Box<AgentErrorKind>,
    /// The conversation up to the failure. Every tool call has a result, so a later run can
    /// continue the conversation.
    pub transcript: Transcript,
    /// The tokens and the cost of the run up to the failure.
    pub usage: Usage,
}

/// The reason why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentErrorKind {
    /// A request to the model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The run reached one of its limits.
    #[error("{0}")]
    LimitReached(Limit),
    /// A tool stopped the run with [`ToolError::Fatal`](crate::ToolError::Fatal).
    #[error("tool \"{tool}\" stopped the run: {message}")]
    FatalTool {
        /// The name of the tool that returned the fatal error.
        tool: String,
        /// The message of the fatal error.
        message: String,
    },
    /// A content filter of the provider rejected the request or stopped the model's reply.
    #[error("a content filter of the provider stopped the reply{}", reason.as_ref().map(|it| format!(": {it}")).unwrap_or_default())]
    ContentFiltered {
        /// The error message of the server. `None` if the reply only has the finish reason.
        reason: Option<String>,
    },
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The run was stopped after a step, on request of the host program. The transcript has the
    /// results of all calls, so a later run can continue the conversation.
    #[error("the run was stopped after a step, as requested")]
    Stopped,
    /// The tools of the agent could not be listed.
    #[error(transparent)]
    ListTools(#[from] crate::toolset::SourceError),
    /// The input of the run is invalid. Contains a description of the problem.
    #[error("the run cannot begin: {0}")]
    InvalidInput(String),
    /// The tool choice requires a tool that is not available.
    #[error("the model cannot be made to call {required}: {}", describe_available_tools(available))]
    UnavailableToolChoice {
        /// The required tool, as shown in the error message: its quoted name, or `a tool` if the
        /// tool choice accepts any tool.
        required: String,
        /// The names of the available tools.
        available: Vec<String>,
    },
    /// The driver used the run incorrectly, for example by reporting a reply while no model request
    /// was in flight. Contains a description of the problem.
    #[error("the run cannot go on: {0}")]
    UnexpectedOutcome(String),
    /// A hook of the host program returned an error, panicked or exceeded its deadline.
    #[error("the {hook} of the agent failed")]
    HookFailed {
        /// The kind of the failed hook, such as `answer hook`.
        hook: &'static str,
        /// The error of the failed hook.
        source: crate::call::BoxError,
    },
    /// A guardrail ended the run.
    #[error("the {} guardrail \"{}\" ended the run", report.stage, report.guardrail)]
    Guardrail {
        /// The name of the guardrail, the data that it checked, and its information.
        report: Box<GuardrailReport>,
        /// The decisions of all guardrails of the run so far, including this guardrail.
        reports: Vec<GuardrailReport>,
    },
    /// The agent was used outside of a tokio runtime, or needed a timer on a runtime with disabled
    /// timers.
    #[error("an agent runs on a tokio runtime: use it inside one")]
    NoRuntime,
    /// A blocking method was called on a thread that runs async tasks, where it could deadlock.
    /// Contains the name of the async method to use instead.
    #[error("a blocking call inside an async runtime could never end: use `{0}` there")]
    BlockingInRuntime(&'static str),
    /// The tokio runtime of a blocking agent could not be started.
    #[error("cannot start the runtime of the agent")]
    StartRuntime(#[source] std::io::Error),
    /// The event stream of the agent ended without a [`RunEvent::Done`](super::RunEvent::Done).
    #[error("the agent stopped without an answer")]
    Incomplete,
}

/// A limit that a run has reached. Each variant except [`UnknownCost`](Self::UnknownCost) contains
/// the value of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// The maximum number of requests to the model.
    Requests(u32),
    /// The maximum number of tool calls.
    ToolCalls(u32),
    /// The maximum number of input and output tokens in total.
    TotalTokens(u64),
    /// The maximum number of input tokens.
    InputTokens(u64),
    /// The maximum number of output tokens.
    OutputTokens(u64),
    /// The maximum number of input tokens of one request.
    RequestInputTokens {
        /// The value of the limit.
        limit: u64,
        /// The size of the last request, or of the request that would follow.
        tokens: u64,
    },
    /// The maximum cost of the model requests.
    Cost(Cost),
    /// The maximum cost. It can no longer be checked, because the cost of a request is unknown.
    UnknownCost,
    /// The maximum duration of the run.
    Time(Duration),
    /// The maximum number of times that the model can make the same call, or the same cycle of
    /// calls, in a row. Two calls are the same if their tools, arguments and results are equal.
    RepeatedCalls(u32),
    /// The number of consecutive rejected replies after which a run ends.
    RejectedReplies(u32),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(n) => write!(f, "the limit of {n} model requests is reached"),
            Self::ToolCalls(n) => write!(f, "the limit of {n} tool calls is reached"),
            Self::TotalTokens(n) => write!(f, "the limit of {n} tokens is reached"),
            Self::InputTokens(n) => write!(f, "the limit of {n} input tokens is reached"),
            Self::OutputTokens(n) => write!(f, "the limit of {n} output tokens is reached"),
            Self::RequestInputTokens { limit, tokens } => {
                write!(
                    f,
                    "a request of {tokens} tokens exceeds the limit of {limit} input tokens per request"
                )
            }
            Self::Cost(cost) => write!(f, "the limit of a cost of {cost} is reached"),
            Self::UnknownCost => f.write_str("the cost is limited, but the cost of a request is unknown"),
            Self::Time(time) => write!(f, "the limit of {time:?} is reached"),
            Self::RepeatedCalls(n) => {
                write!(f, "the model made the same call {n} times in a row")
            }
            Self::RejectedReplies(n) => write!(f, "{n} replies in a row could not be used"),
        }
    }
}

fn describe_available_tools(names: &[String]) -> String {
    if names.is_empty() {
        "no tools are on offer".to_owned()
    } else {
        format!("on offer: {}", names.join(", "))
    }
}

impl Error for AgentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The kind itself is not the source: `Display` already prints its message, and an error
        // report would print the message twice.
        self.kind.source()
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Debug for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ErrorChain(self), f)
    }
}

impl<K: Into<AgentErrorKind>> From<K> for AgentError {
    fn from(kind: K) -> Self {
        Self { kind: Box::new(kind.into()), transcript: Transcript::new(), usage: Usage::default() }
    }
}

impl AgentError {
    /// Sets the transcript and the usage of the failed run.
    #[must_use]
    pub fn with_transcript_and_usage(mut self, transcript: Transcript, usage: Usage) -> Self {
        (self.transcript, self.usage) = (transcript, usage);
        self
    }
}
