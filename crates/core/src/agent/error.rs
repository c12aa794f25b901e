use std::{error::Error, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    message::Transcript,
    model::ModelError,
    text::ErrorChain,
    usage::{Cost, Usage},
};

/// The failure of a run, with the work done so far.
///
/// `Debug` prints the message and its causes without the transcript, because a `main` that returns
/// the error prints it with `Debug`.
pub struct AgentError {
    /// The reason for the failure.
    pub kind: Box<AgentErrorKind>,
    /// The conversation so far. Every call in it has a result, so it can be continued.
    pub transcript: Transcript,
    /// The usage of the run so far.
    pub usage: Usage,
}

/// The reason for a run without an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentErrorKind {
    /// A request to the model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A limit of the run was reached.
    #[error("{0}")]
    LimitReached(Limit),
    /// A tool stopped the run with [`ToolError::Fatal`](crate::ToolError::Fatal).
    #[error("tool \"{tool}\" stopped the run: {message}")]
    Tool {
        /// The name of the tool.
        tool: String,
        /// The text of the error.
        message: String,
    },
    /// The replies of the model do not have the requested form.
    #[error("the model did not give a usable reply: {0}")]
    UnusableReply(String),
    /// A content filter of the provider stopped the reply of the model.
    #[error("a content filter of the provider stopped the reply")]
    ContentFiltered,
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The tools could not be listed.
    #[error(transparent)]
    Tools(#[from] crate::toolset::SourceError),
    /// The input of the run is invalid.
    #[error("the run cannot begin: {0}")]
    InvalidInput(String),
    /// The tool choice requires a tool that is not available.
    #[error("the model cannot be made to call {wanted}: {}", available_tools(available))]
    ToolChoice {
        /// The required tool, as text: its quoted name, or `a tool`.
        wanted: String,
        /// The names of the available tools.
        available: Vec<String>,
    },
    /// A driver reported an outcome that the run does not expect in its state.
    #[error("the run cannot go on: {0}")]
    UnexpectedOutcome(String),
    /// A hook of the host program returned an error, panicked or exceeded its deadline.
    #[error("the {hook} of the agent failed")]
    Hook {
        /// The purpose of the hook, such as `output validator`.
        hook: &'static str,
        /// The cause.
        source: crate::call::BoxError,
    },
    /// The agent was used outside a tokio runtime.
    #[error("an agent runs on a tokio runtime: use it inside one")]
    NoRuntime,
    /// A blocking call on a thread that runs async tasks, where it could deadlock. The value is the
    /// async method to use instead.
    #[error("a blocking call inside an async runtime could never end: use `{0}` there")]
    BlockingInRuntime(&'static str),
    /// The runtime of a blocking agent could not be started.
    #[error("cannot start the runtime of the agent")]
    Runtime(#[source] std::io::Error),
    /// The stream of the agent ended without [`RunEvent::Done`](super::RunEvent::Done).
    #[error("the agent stopped without an answer")]
    Incomplete,
}

/// A limit that was reached by a run, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Number of requests to the model.
    Requests(u32),
    /// Number of tool calls.
    ToolCalls(u32),
    /// Input and output tokens.
    TotalTokens(u64),
    /// Input tokens.
    InputTokens(u64),
    /// Output tokens.
    OutputTokens(u64),
    /// Cost of the requests.
    Cost(Cost),
    /// The cost is limited, but the cost of a request is unknown.
    UnknownCost,
    /// Duration of the run.
    Time(Duration),
    /// Consecutive calls of the same tool with the same arguments.
    RepeatedCalls(u32),
    /// Consecutive rejected replies.
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
            Self::Cost(cost) => write!(f, "the limit of a cost of {cost} is reached"),
            Self::UnknownCost => f.write_str("the cost is limited, but the cost of a request is unknown"),
            Self::Time(time) => write!(f, "the limit of {time:?} is reached"),
            Self::RepeatedCalls(n) => write!(f, "the model made the same call {n} times in a row"),
            Self::RejectedReplies(n) => write!(f, "{n} replies in a row could not be used"),
        }
    }
}

fn available_tools(names: &[String]) -> String {
    if names.is_empty() {
        "no tools are on offer".to_owned()
    } else {
        format!("on offer: {}", names.join(", "))
    }
}

impl Error for AgentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // `Display` prints the kind already, so the kind is not a cause.
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
    /// Sets the transcript and usage of the run.
    #[must_use]
    pub fn with_run(mut self, transcript: Transcript, usage: Usage) -> Self {
        (self.transcript, self.usage) = (transcript, usage);
        self
    }
}
