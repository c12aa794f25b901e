use std::fmt;

use crate::connection_handle::SourceStatus;

/// The status of the server of an [`McpSource`](crate::McpSource).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerStatus {
    /// The server starts at the first call. See
    /// [`ServerOptions::with_lazy_start`](crate::ServerOptions::with_lazy_start).
    Idle,
    /// The server is being started for the first time.
    Starting,
    /// The server is connected.
    Ready,
    /// The server is being started again. Its tools remain available.
    Restarting,
    /// The latest attempt to start the server failed. Another attempt follows, unless the entry in
    /// `mcp.json` is invalid, or the source was created outside of a tokio runtime.
    Failed {
        /// The cause, with a remedy if one is known. It may contain output of the server.
        reason: String,
    },
    /// The source cannot start the server again: its tokio runtime was shut down, or the connection
    /// of [`McpSource::from_service`](crate::McpSource::from_service) ended.
    Closed,
}

impl From<&SourceStatus> for ServerStatus {
    fn from(status: &SourceStatus) -> Self {
        match status {
            SourceStatus::Idle { .. } => Self::Idle,
            SourceStatus::Starting => Self::Starting,
            SourceStatus::Ready { .. } => Self::Ready,
            SourceStatus::Restarting { .. } => Self::Restarting,
            SourceStatus::Failed { reason } => Self::Failed { reason: reason.clone() },
        }
    }
}

impl fmt::Display for ServerStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Starting => f.write_str("starting"),
            Self::Ready => f.write_str("ready"),
            Self::Restarting => f.write_str("restarting"),
            Self::Failed { reason } => write!(f, "failed: {reason}"),
            Self::Closed => f.write_str("closed"),
        }
    }
}
