//! What a tool has in its hand: the way to the connection of today.

use haft_core::{ToolError, ToolList, limits};
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
}

/// The source of a tool is gone: it was dropped or closed.
#[derive(Debug, thiserror::Error)]
#[error("{label} is closed")]
pub(crate) struct Closed {
    label: String,
}

impl Link {
    pub(crate) fn new(label: String, status: watch::Receiver<Status>, closed: CancellationToken) -> Self {
        Self { label, status, closed }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// A link to a connection that does not change.
    pub(crate) fn fixed(label: String, connection: Connection) -> Self {
        let (_, status) = watch::channel(Status::Ready { connection, tools: ToolList::default() });
        Self { label, status, closed: CancellationToken::new() }
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
                    Status::Failed { reason } => return Err(self.unavailable(reason)),
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
            connection = timeout(limits::HANDSHAKE_TIMEOUT, wait) => {
                connection.unwrap_or_else(|_| Err(self.unavailable("it has not started yet")))
            }
        }
    }

    fn closed(&self) -> ToolError {
        ToolError::failed(Closed { label: self.label.clone() })
    }

    fn unavailable(&self, reason: &str) -> ToolError {
        tracing::debug!(source = self.label, reason, "a call finds no server");
        ToolError::Failed { message: format!("{} is not running", self.label), source: Some(reason.into()) }
    }
}
