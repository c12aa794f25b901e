use haft_core::{agent::AgentErrorKind, call::WrongAnswer};

/// A run that is told what it did not ask for, or asked to go on too early. The run is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// `next` before the reply.
    #[error("a request is under way: tell `on_chat` of the reply, or after a load `recover` the run")]
    RequestUnderWay,
    /// `next` before the results.
    #[error("calls are under way ({0}): tell `on_result` of each, or after a load `recover` the run")]
    CallsUnderWay(String),
    /// A reply that nobody asked for.
    #[error("there is a reply, but no request is under way")]
    NoRequest,
    /// A summary that nobody asked for.
    #[error("there is a summary, but none was asked for")]
    NoCompaction,
    /// A verdict on an answer that nobody asked for.
    #[error("there is a checked answer, but none is being checked")]
    NoCheck,
    /// A head with the transcript of another run, or of this one at another time.
    #[error("the head was saved with a transcript of {messages} messages, and this one has {found}")]
    OtherTranscript {
        /// How many there were.
        messages: usize,
        /// How many there are.
        found: usize,
    },
    /// A result for a call that is not under way.
    #[error("there is a result for the call {0:?}, which is not under way")]
    NotUnderWay(String),
    /// Calls that were pushed too late.
    #[error("the run is over: calls that are pushed now are executed by nobody")]
    Over,
    /// A pushed call whose place nobody would find.
    #[error("the pushed call {0:?} cannot be queued: its id is no placeholder, or was used before")]
    NoPlaceholder(String),
    /// More pushed calls than a run makes.
    #[error("no more calls can be queued: {0} are the most for one run")]
    QueueFull(usize),
    /// An answer for a call that does not wait.
    #[error("there is an answer for the call {id:?}, which does not wait; waiting: {waiting}")]
    NotWaiting {
        /// The id that the answer is for.
        id: String,
        /// The ids of the calls that wait; of a call that waits for others inside it, the ids of those.
        waiting: String,
    },
    /// An answer that is none to what the call waits for.
    #[error("the answer for the call {id:?} does not fit: {source}")]
    WrongAnswer {
        /// The id that the answer is for.
        id: String,
        /// Why it is none.
        source: WrongAnswer,
    },
}

impl From<RunError> for AgentErrorKind {
    fn from(error: RunError) -> Self {
        Self::OutOfTurn(error.to_string())
    }
}
