use std::{error::Error, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    message::Transcript,
    model::ModelError,
    text::ErrorChain,
    usage::{Cost, Usage},
};

/// Why a run ended without an answer, with what it had done until then.
///
/// As `Debug` it is its text with its causes, without the conversation: that is what `main` prints of it.
pub struct AgentError {
    /// Why.
    pub kind: Box<AgentErrorKind>,
    /// The conversation so far: every call in it has a result, so that it can go on.
    pub transcript: Transcript,
    /// What the run cost.
    pub usage: Usage,
}

/// Why a run ended without an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentErrorKind {
    /// The model gave no reply.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A limit was reached.
    #[error("{0}")]
    LimitReached(Limit),
    /// A tool said that the run must stop.
    #[error("tool \"{tool}\" stopped the run: {message}")]
    Tool {
        /// The tool.
        tool: String,
        /// What it said.
        message: String,
    },
    /// The model could not be brought to give what was asked for.
    #[error("the model did not give a usable reply: {0}")]
    UnusableReply(String),
    /// A content filter of the provider stopped the model's reply.
    #[error("a content filter of the provider stopped the reply")]
    ContentFiltered,
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// The tools cannot be offered.
    #[error(transparent)]
    Tools(#[from] crate::toolset::SourceError),
    /// The run cannot begin as it is asked to.
    #[error("the run cannot begin: {0}")]
    InvalidInput(String),
    /// The model is to be made to call what is not on offer.
    #[error("the model cannot be made to call {wanted}: {}", offered(available))]
    ToolChoice {
        /// What it is to call.
        wanted: String,
        /// The tools on offer.
        available: Vec<String>,
    },
    /// The run is driven out of turn.
    #[error("the run cannot go on: {0}")]
    OutOfTurn(String),
    /// Code of the host that the agent was given failed: an error, a panic, or no end in time.
    #[error("the {hook} of the agent failed")]
    Hook {
        /// What it is for, such as `output validator`.
        hook: &'static str,
        /// What went wrong.
        source: crate::call::BoxError,
    },
    /// The agent is used outside a tokio runtime.
    #[error("an agent runs on a tokio runtime: use it inside one")]
    NoRuntime,
    /// A blocking call where waiting could never end; the text names the method to use there.
    #[error("a blocking call inside an async runtime could never end: use `{0}` there")]
    InsideRuntime(&'static str),
    /// The runtime of a blocking agent cannot begin.
    #[error("the runtime of the agent cannot begin")]
    Runtime(#[source] std::io::Error),
    /// The agent's stream ended without an end of the run.
    #[error("the agent stopped without an answer")]
    Incomplete,
}

/// The limit that a run reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Requests to the model.
    Requests(u32),
    /// Calls of tools.
    ToolCalls(u32),
    /// Tokens read and written.
    TotalTokens(u64),
    /// Tokens read.
    InputTokens(u64),
    /// Tokens written.
    OutputTokens(u64),
    /// What it costs.
    Cost(Cost),
    /// What it costs is limited, and the price of a request is not known.
    UnknownCost,
    /// Time.
    Time(Duration),
    /// The same call again and again.
    IdenticalCalls(u32),
    /// Replies in a row that could not be used.
    UnusableReplies(u32),
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
            Self::UnknownCost => f.write_str("the cost is limited, and what a request has cost is not known"),
            Self::Time(time) => write!(f, "the limit of {time:?} is reached"),
            Self::IdenticalCalls(n) => write!(f, "the model made the same call {n} times in a row"),
            Self::UnusableReplies(n) => write!(f, "{n} replies in a row could not be used"),
        }
    }
}

fn offered(names: &[String]) -> String {
    if names.is_empty() {
        "no tools are on offer".to_owned()
    } else {
        format!("on offer: {}", names.join(", "))
    }
}

impl Error for AgentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // Its text is that of the kind, which is no cause of it.
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
    /// Adds what the run had done until then.
    #[must_use]
    pub fn with_run(mut self, transcript: Transcript, usage: Usage) -> Self {
        (self.transcript, self.usage) = (transcript, usage);
        self
    }
}
