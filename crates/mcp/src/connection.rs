//! MCP requests to a server. Dropping the future of a request cancels the request. Over the
//! transports of this crate, requests also have an idle timeout.

use std::{fmt, future, pin::pin, sync::Arc, time::Duration};

use haft_core::tool::Progress;
use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, ErrorData, ServerResult},
    service::{PeerRequestOptions, RequestHandle, ServiceError},
};
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

#[cfg(feature = "http")]
use crate::http::HttpError;
use crate::transport::{self, ServerEvents};

/// The maximum time to wait for the transport to detect the end of the server's output after a
/// failed write.
const CLOSE_DETECTION_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection to an MCP server. Clones share the connection.
#[derive(Clone)]
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    monitor: Option<Monitor>,
}

/// The idle timeout and the server events of a connection. Only a connection over a transport of
/// this crate has a monitor.
#[derive(Clone)]
struct Monitor {
    events: Arc<ServerEvents>,
    idle_timeout: Duration,
}

/// An error from an MCP request to the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The connection was closed before the request was written. A retry is safe.
    #[error("the connection is closed")]
    NotSent,
    /// The connection was closed before the response arrived. The server may have processed the
    /// request.
    #[error("the connection was lost")]
    Lost,
    /// Neither a response nor a progress notification arrived within the idle timeout.
    #[error("no message from the server for {} s", .0.as_secs_f32())]
    IdleTimeout(Duration),
    /// The HTTP server rejected the request before it processed the request.
    #[cfg(feature = "http")]
    #[error("{0}")]
    Refused(String),
    /// The server returned a JSON-RPC error.
    #[error("{} (code {}){}", .0.message, .0.code.0, error_data(.0))]
    Rejected(ErrorData),
    /// The server returned a response that rmcp could not process.
    #[error("{0}")]
    InvalidResponse(String),
}

impl Connection {
    /// Creates a connection over a transport of this crate: stdio or HTTP.
    pub(crate) fn new(peer: Peer<RoleClient>, events: Arc<ServerEvents>, idle_timeout: Duration) -> Self {
        Self { peer, monitor: Some(Monitor { events, idle_timeout }) }
    }

    /// Creates a connection from `peer`, which uses a user-supplied transport.
    ///
    /// Progress notifications are not available on a user-supplied transport, so MCP requests have
    /// no idle timeout. Only the deadline of the tool call applies.
    pub(crate) fn from_peer(peer: Peer<RoleClient>) -> Self {
        Self { peer, monitor: None }
    }

    pub(crate) fn is_closed(&self) -> bool {
        let closed = self.monitor.as_ref().is_some_and(|monitor| monitor.events.closed.is_cancelled());
        closed || self.peer.is_transport_closed()
    }

    /// Waits up to 500 ms for the transport to detect that the server closed its output. Returns
    /// immediately if the connection uses a user-supplied transport.
    ///
    /// Call this method after a failed write, because the write may fail shortly before
    /// [`is_closed`](Self::is_closed) returns `true`.
    pub(crate) async fn wait_until_closed(&self) {
        if let Some(monitor) = &self.monitor {
            let _ = timeout(CLOSE_DETECTION_TIMEOUT, monitor.events.closed.cancelled()).await;
        }
    }

    /// Sends `request` and returns its result as JSON. On the transports of this crate, calls
    /// `report` with each progress notification.
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the response arrives sends `notifications/cancelled`.
    pub(crate) async fn request(
        &self,
        mut request: ClientRequest,
        mut report: impl FnMut(Progress),
    ) -> Result<Value, RequestError> {
        let mut reports = self.monitor.as_ref().map(|_| transport::subscribe_to_progress(&mut request));
        let handle = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(|_closed| RequestError::NotSent)?;
        let idle_timeout = self.monitor.as_ref().map(|monitor| monitor.idle_timeout);
        let mut request = CancelOnDrop(Some(handle));
        let mut idle = pin!(sleep(idle_timeout.unwrap_or_default()));
        loop {
            tokio::select! {
                biased;
                progress = next_report(&mut reports) => {
                    report(progress);
                    idle.as_mut().reset(Instant::now() + idle_timeout.unwrap_or_default());
                }
                response = request.response() => return self.convert_response(response),
                () = &mut idle, if idle_timeout.is_some() => {
                    return Err(RequestError::IdleTimeout(idle_timeout.unwrap_or_default()));
                }
            }
        }
    }

    fn convert_response(&self, response: Result<ServerResult, ServiceError>) -> Result<Value, RequestError> {
        let invalid = |error: &dyn fmt::Display| RequestError::InvalidResponse(error.to_string());
        match response {
            Ok(result) => serde_json::to_value(result).map_err(|error| invalid(&error)),
            Err(ServiceError::McpError(error)) => Err(RequestError::Rejected(error)),
            #[cfg(feature = "http")]
            Err(ServiceError::TransportSend(error)) if error.error.is::<HttpError>() => {
                Err(error.error.downcast_ref::<HttpError>().map_or(RequestError::Lost, RequestError::from))
            }
            // The stdio transport of this crate returns this error only if the message was not
            // written completely. A user-supplied transport may also return it if the request was
            // sent and only the response was lost.
            Err(ServiceError::TransportSend(_)) if self.monitor.is_some() => Err(RequestError::NotSent),
            Err(
                ServiceError::TransportSend(_)
                | ServiceError::TransportClosed
                | ServiceError::Cancelled { .. },
            ) => Err(RequestError::Lost),
            Err(other) => Err(invalid(&other)),
        }
    }
}

/// Formats the `data` field of `error` as a suffix for the error message. Returns an empty string
/// if the field is missing.
fn error_data(error: &ErrorData) -> String {
    error.data.as_ref().filter(|data| !data.is_null()).map(|data| format!(": {data}")).unwrap_or_default()
}

async fn next_report(reports: &mut Option<mpsc::Receiver<Progress>>) -> Progress {
    if let Some(reports) = reports
        && let Some(progress) = reports.recv().await
    {
        return progress;
    }
    future::pending().await
}

/// An MCP request in flight. Dropping it before the response arrives sends
/// `notifications/cancelled`.
struct CancelOnDrop(Option<RequestHandle<RoleClient>>);

impl CancelOnDrop {
    async fn response(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let response = (&mut handle.rx).await;
        self.0 = None;
        response.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            // The task ends when the notification is written or the connection closes.
            runtime.spawn(handle.cancel(Some("the caller dropped the request".to_owned())));
        }
    }
}
