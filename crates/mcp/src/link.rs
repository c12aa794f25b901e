//! What a tool has in its hand: the way to the connection of today.

use std::time::Duration;

use haft_core::{ToolError, toolset::ToolList};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;

/// How a source is.
#[derive(Clone)]
pub(crate) enum Status {
    /// It starts for the first time.
    Starting,
    /// It can be called.
    Ready { connection: Connection, tools: ToolList },
    /// It was lost and starts again. Its tools stay on offer.
    Restarting { tools: ToolList },
    /// It did not start; that is tried again later.
    Failed { reason: String },
}

/// The way to the connection of today. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Link {
    label: String,
    status: watch::Receiver<Status>,
    closed: CancellationToken,
    patience: Duration,
}

/// There is no connection to the server of a tool: its source was dropped or closed, a given connection ended, or
/// the server does not run now.
///
/// It is the source of the [`ToolError::Failed`] of a call that was not made, so that a caller can tell it from a
/// failure of the tool. A call that was under way when the connection was lost may have had its effect: that is
/// [`ToolError::Unconfirmed`].
///
/// # Examples
///
/// ```
/// use haft_core::ToolError;
/// use haft_mcp::ConnectionLost;
///
/// fn can_wait(error: &ToolError) -> bool {
///     matches!(error, ToolError::Failed { source: Some(source), .. } if source.is::<ConnectionLost>())
/// }
/// # assert!(!can_wait(&ToolError::failed("no such file")));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct ConnectionLost {
    /// The label of the source, such as `mcp:files`.
    pub source_label: String,
    /// Why there is none. It may quote the server: for people and logs, not for a model.
    pub reason: String,
}

impl Link {
    /// Calls wait for a source that starts, as long as `patience`.
    pub(crate) fn new(
        label: String,
        status: watch::Receiver<Status>,
        closed: CancellationToken,
        patience: Duration,
    ) -> Self {
        Self { label, status, closed, patience }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// A link to a connection that does not change.
    pub(crate) fn fixed(label: String, connection: Connection) -> Self {
        let (_, status) = watch::channel(Status::Ready { connection, tools: ToolList::default() });
        Self { label, status, closed: CancellationToken::new(), patience: Duration::ZERO }
    }

    /// The connection, waited for while the source starts.
    pub(crate) async fn connection(&self) -> Result<Connection, ToolError> {
        let wait = async {
            let mut status = self.status.clone();
            loop {
                match &*status.borrow_and_update() {
                    Status::Ready { connection, .. } if !connection.is_closed() => {
                        return Ok(connection.clone());
                    }
                    Status::Failed { reason } => return Err(self.lost("is not running", reason)),
                    _ => {}
                }
                if status.changed().await.is_err() {
                    return Err(self.closed());
                }
            }
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(self.closed()),
            connection = timeout(self.patience, wait) => {
                connection.unwrap_or_else(|_| Err(self.lost("is not running", "it has not started yet")))
            }
        }
    }

    fn closed(&self) -> ToolError {
        self.lost("is closed", "the source or its connection is closed")
    }

    /// The failure of a call that was not made.
    pub(crate) fn lost(&self, what: &str, reason: &str) -> ToolError {
        let source_label = self.label.clone();
        tracing::debug!(source = source_label, reason, "a call finds no server");
        let message = format!("{source_label} {what}");
        let lost = ConnectionLost { source_label, reason: reason.to_owned() };
        ToolError::Failed { message, source: Some(lost.into()) }
    }
}

#[cfg(test)]
mod tests;
