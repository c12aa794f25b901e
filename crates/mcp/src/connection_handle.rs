//! A handle through which tools access the current connection of their source.

use std::{sync::Arc, time::Duration};

use haft_core::{ToolError, ToolName, toolset::ToolList};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;

/// The status of an [`McpSource`](crate::McpSource).
#[derive(Clone)]
pub(crate) enum SourceStatus {
    /// The server starts at the first call. `tools` are its accepted definitions.
    Idle { tools: ToolList },
    /// The server is being started for the first time.
    Starting,
    /// The server is connected.
    Ready { connection: Arc<Connection>, tools: ToolList },
    /// The server is being restarted. The tool list of the previous session remains available.
    Restarting { tools: ToolList },
    /// The latest attempt to start the server failed. The next attempt starts after the backoff
    /// delay.
    Failed { reason: String },
}

impl SourceStatus {
    /// Returns the status after the end of a source. It replaces [`Ready`](Self::Ready), because
    /// the tools of that status hold receivers of its channel and would keep it open.
    pub(crate) fn closed() -> Self {
        Self::Failed { reason: "the source is closed".to_owned() }
    }
}

/// A handle to the current connection of a source. The handle stays valid when the server is
/// restarted. Clones refer to the same source.
#[derive(Clone)]
pub(crate) struct ConnectionHandle {
    label: String,
    status: watch::Receiver<SourceStatus>,
    closed: CancellationToken,
    start_timeout: Duration,
    /// Notified when a call needs the server.
    needed: Arc<Notify>,
    /// `true` if the connection is never replaced, and its tools are unknown.
    is_fixed: bool,
}

/// The error for a call that was not sent because there was no connection to the server.
///
/// There is no connection if the source was dropped or closed, if the server is not running, or if
/// the rmcp connection passed to [`McpSource::from_service`](crate::McpSource::from_service) or
/// [`mcp_tool`](crate::mcp_tool) is closed.
///
/// `NotConnected` is the `source` of a [`ToolError::Failed`]. It distinguishes a call that was
/// never sent from a failure of the tool itself. If the connection is lost *during* a call, the
/// error is [`ToolError::Unconfirmed`] instead, because the server may have executed the call.
///
/// # Examples
///
/// ```
/// use haft_core::ToolError;
/// use haft_mcp::NotConnected;
///
/// fn is_retryable(error: &ToolError) -> bool {
///     let ToolError::Failed { source: Some(source), .. } = error else { return false };
///     source.is::<NotConnected>()
/// }
/// # assert!(!is_retryable(&ToolError::failed("no such file")));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct NotConnected {
    /// The label of the source, such as `mcp:files`.
    pub source_label: String,
    /// A description of the cause, for people and logs.
    ///
    /// It may contain output of the server, so do not send it to a model.
    pub reason: String,
}

impl ConnectionHandle {
    /// Creates a handle to the connection in `status`. A restart of the server replaces this
    /// connection. While the server starts or restarts, a call waits up to `start_timeout` for a
    /// connection.
    pub(crate) fn new(
        label: String,
        status: watch::Receiver<SourceStatus>,
        closed: CancellationToken,
        start_timeout: Duration,
    ) -> Self {
        Self { label, status, closed, start_timeout, needed: Arc::default(), is_fixed: false }
    }

    /// Returns `true` if the source was dropped or closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Creates a handle to a connection that is never replaced.
    pub(crate) fn fixed(label: String, connection: Arc<Connection>) -> Self {
        let (_, status) = watch::channel(SourceStatus::Ready { connection, tools: ToolList::default() });
        Self { is_fixed: true, ..Self::new(label, status, CancellationToken::new(), Duration::ZERO) }
    }

    /// Waits until a call needs the server.
    pub(crate) async fn wait_until_needed(&self) {
        self.needed.notified().await;
    }

    /// Returns the current connection. While the server starts or restarts, waits up to the start
    /// timeout for a new connection. Fails with a [`NotConnected`] error if the latest start
    /// failed, the timeout expires, or the source is closed.
    pub(crate) async fn wait_for_connection(&self) -> Result<Arc<Connection>, ToolError> {
        Ok(self.wait_until_ready().await?.0)
    }

    /// Returns the current connection for a call to the tool `name`, like
    /// [`wait_for_connection`](Self::wait_for_connection). Also fails if the server no longer
    /// offers the tool, or not with its accepted definition.
    pub(crate) async fn wait_for_tool(&self, name: &ToolName) -> Result<Arc<Connection>, ToolError> {
        let (connection, tools) = match self.current().filter(|_| !self.is_closed()) {
            Some(current) => current,
            None => Box::pin(self.wait_until_ready()).await?,
        };
        if !self.is_fixed && tools.get(name.as_str()).is_none() {
            let message = format!("{} no longer offers {name}, or its definition has changed", self.label);
            return Err(ToolError::failed(message));
        }
        Ok(connection)
    }

    /// Returns the connection and the tools of the source if it is connected.
    fn current(&self) -> Option<(Arc<Connection>, ToolList)> {
        match &*self.status.borrow() {
            SourceStatus::Ready { connection, tools } if !connection.is_closed() => {
                Some((Arc::clone(connection), tools.clone()))
            }
            _ => None,
        }
    }

    async fn wait_until_ready(&self) -> Result<(Arc<Connection>, ToolList), ToolError> {
        let wait = async {
            let mut status = self.status.clone();
            loop {
                match &*status.borrow_and_update() {
                    SourceStatus::Ready { connection, tools } if !connection.is_closed() => {
                        return Ok((Arc::clone(connection), tools.clone()));
                    }
                    SourceStatus::Idle { .. } => self.needed.notify_one(),
                    SourceStatus::Failed { reason } => {
                        return Err(self.unavailable_error("is not running", reason));
                    }
                    _ => {}
                }
                if status.changed().await.is_err() {
                    return Err(self.closed_error());
                }
            }
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(self.closed_error()),
            connection = timeout(self.start_timeout, wait) => {
                connection.unwrap_or_else(|_| Err(self.unavailable_error("is not running", "the server is still starting")))
            }
        }
    }

    fn closed_error(&self) -> ToolError {
        self.unavailable_error("is closed", "the source or its connection is closed")
    }

    /// Creates the error for a call that was not sent. The error message consists of the label and
    /// `state`, for example `mcp:files is closed`. `reason` appears only in [`NotConnected`] and in
    /// logs.
    pub(crate) fn unavailable_error(&self, state: &str, reason: &str) -> ToolError {
        let source_label = self.label.clone();
        tracing::debug!(source = source_label, reason, "a call was not sent: no connection to the server");
        let message = format!("{source_label} {state}");
        let error = NotConnected { source_label, reason: reason.to_owned() };
        ToolError::Failed { message, source: Some(error.into()) }
    }
}

#[cfg(test)]
mod tests;
