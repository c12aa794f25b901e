//! MCP requests to a server. Dropping the future of a request cancels the request. Over the
//! transports of this crate, requests also have an idle timeout.

use std::{fmt, future, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt as _;
use haft_core::{ToolContext, ToolError, tool::Progress};
use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, CustomResult, ErrorData, PingRequest, ServerCapabilities, ServerResult},
    service::{PeerRequestOptions, RequestHandle, ServiceError},
};
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

#[cfg(feature = "http")]
use crate::{
    LoginRequired,
    call_data::{CallHeaders, RequestHeaders},
    http::{HttpError, needs_connection, parse_headers},
};
use crate::{
    ServerOptions,
    call_data::CallData,
    elicitation::ElicitationHandler,
    gateway::TraceContext,
    suspended_calls::{SuspendedCall, SuspendedCalls},
    transport::{CallEvent, CallEvents, PendingElicitation, ServerEvents},
};

/// The maximum time to wait for the transport to detect the end of the server's output after a
/// failed write.
const CLOSE_DETECTION_TIMEOUT: Duration = Duration::from_millis(500);
/// The number of pings without a response after which a server is started again.
const MAX_MISSED_PINGS: u32 = 3;
/// The minimum time between two pings.
const MIN_PING_INTERVAL: Duration = Duration::from_secs(1);

/// A connection to an MCP server.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    /// Held by the request that is added to the queue of rmcp.
    queue_turn: Mutex<()>,
    monitor: Option<Arc<Monitor>>,
    #[cfg(feature = "http")]
    call_headers: Option<CallHeaders>,
}

/// The options, the server events and the suspended calls of a connection. Only a connection over a
/// transport of this crate has a monitor.
struct Monitor {
    events: Arc<ServerEvents>,
    options: ServerOptions,
    suspended: Arc<SuspendedCalls>,
    /// The requests in flight have clones of this reference.
    open_requests: Arc<()>,
}

/// An MCP request in flight. Dropping it before the response arrives sends
/// `notifications/cancelled`.
pub(crate) struct InFlightRequest {
    /// Boxed, because several futures of a call contain the request.
    handle: Option<Box<RequestHandle<RoleClient>>>,
    events: Option<CallEvents>,
    monitor: Option<Arc<Monitor>>,
    _open: Option<Arc<()>>,
}

/// A step of an MCP request.
pub(crate) enum Step {
    /// The result of the request, as JSON. The request has ended.
    Response(Value),
    /// An `elicitation/create` request of the server, without a response.
    Elicitation(PendingElicitation),
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
    /// The HTTP server rejected the access token of the request.
    #[cfg(feature = "http")]
    #[error(transparent)]
    LoginRequired(#[from] LoginRequired),
    /// The server returned a JSON-RPC error.
    #[error("{} (code {}){}", .0.message, .0.code.0, error_data(.0))]
    Rejected(ErrorData),
    /// The server returned a response that rmcp could not process.
    #[error("{0}")]
    InvalidResponse(String),
}

impl Connection {
    /// Creates a connection over a transport of this crate: stdio or HTTP.
    pub(crate) fn new(peer: Peer<RoleClient>, events: Arc<ServerEvents>, options: &ServerOptions) -> Self {
        let (suspended, open_requests) = (Arc::default(), Arc::default());
        let monitor = Monitor { events, options: options.clone(), suspended, open_requests };
        Self { monitor: Some(Arc::new(monitor)), ..Self::from_peer(peer) }
    }

    /// Creates a connection from `peer`, which uses a user-supplied transport.
    ///
    /// Progress notifications are not available on a user-supplied transport, so MCP requests have
    /// no idle timeout. Only the deadline of the tool call applies.
    pub(crate) fn from_peer(peer: Peer<RoleClient>) -> Self {
        Self {
            peer,
            queue_turn: Mutex::default(),
            monitor: None,
            #[cfg(feature = "http")]
            call_headers: None,
        }
    }

    /// Sets the function that returns the HTTP headers of a call.
    #[cfg(feature = "http")]
    pub(crate) fn with_call_headers(self, call_headers: Option<CallHeaders>) -> Self {
        Self { call_headers, ..self }
    }

    /// Returns the metadata and the HTTP headers for the requests of a call. Returns `None` if the
    /// program adds none. `tool` is the name that the server uses for the tool.
    ///
    /// # Errors
    ///
    /// Fails if the function that returns the headers fails, or if a header is invalid.
    #[cfg_attr(not(feature = "http"), expect(clippy::unused_async, reason = "headers need HTTP"))]
    pub(crate) async fn call_data(
        &self,
        tool: &str,
        cx: &ToolContext,
    ) -> Result<Option<Arc<CallData>>, ToolError> {
        let metadata = self.monitor.as_ref().and_then(|monitor| monitor.options.request_metadata.as_ref());
        #[cfg(feature = "http")]
        let has_headers = self.call_headers.is_some();
        #[cfg(not(feature = "http"))]
        let has_headers = false;
        let trace = TraceContext::metadata(cx);
        if metadata.is_none() && trace.is_none() && !has_headers {
            return Ok(None);
        }
        let mut data = CallData::default();
        data.metadata.extend(trace.into_iter().flatten());
        if let Some(metadata) = metadata {
            data.metadata.extend(metadata(tool, cx));
        }
        #[cfg(feature = "http")]
        if let Some(headers) = &self.call_headers {
            let headers = headers(tool, cx).await?;
            data.headers = RequestHeaders(parse_headers(&headers).map_err(ToolError::Fatal)?);
        }
        Ok(Some(Arc::new(data)))
    }

    /// Returns the capabilities of the server.
    pub(crate) fn server_capabilities(&self) -> Option<ServerCapabilities> {
        self.peer.peer_info().map(|info| info.capabilities.clone())
    }

    /// Returns `true` if an empty string is the cursor of a page. Before revision 2026-07-28, it is
    /// the end of a list.
    pub(crate) fn has_empty_cursors(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Returns the handler of elicitations, if there is one.
    pub(crate) fn elicitation_handler(&self) -> Option<ElicitationHandler> {
        self.monitor.as_ref()?.options.elicitation_handler.clone()
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

    /// Sends `request` and returns its result as JSON. Elicitations are cancelled.
    ///
    /// # Cancellation
    ///
    /// Dropping the future before the response arrives sends `notifications/cancelled`.
    pub(crate) async fn request(&self, request: ClientRequest) -> Result<Value, RequestError> {
        let mut open = self.send(|| request.clone()).await?;
        loop {
            if let Step::Response(result) = open.next_step(|_progress| {}).await? {
                return Ok(result);
            }
        }
    }

    /// Sends the request of `build`.
    pub(crate) async fn send(
        &self,
        build: impl Fn() -> ClientRequest,
    ) -> Result<InFlightRequest, RequestError> {
        // The future has more than 4 KB. At the first poll, it is on the stack. It completes there,
        // unless the queue of rmcp is full, in which case nothing was sent.
        // Thousands of requests may wait for space in the queue. Only the first of them has this
        // future, and the others are sent in their order.
        let _turn = match self.queue_turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => self.queue_turn.lock().await,
        };
        match self.enqueue(build()).now_or_never() {
            Some(sent) => sent,
            None => Box::pin(self.enqueue(build())).await,
        }
    }

    /// Adds `request` to the queue of rmcp.
    async fn enqueue(&self, mut request: ClientRequest) -> Result<InFlightRequest, RequestError> {
        let events = self.monitor.as_ref().map(|_| CallEvents::subscribe(&mut request));
        let handle = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(|_closed| RequestError::NotSent)?;
        let monitor = self.monitor.clone();
        let open = monitor.as_ref().map(|monitor| Arc::clone(&monitor.open_requests));
        Ok(InFlightRequest { handle: Some(Box::new(handle)), events, monitor, _open: open })
    }

    /// Returns `true` if a request is in flight, or if a call is suspended.
    fn has_open_requests(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| Arc::strong_count(&monitor.open_requests) > 1)
    }

    /// Sends a `ping` after each `interval` without a request in flight. Returns an error message
    /// after [`MAX_MISSED_PINGS`] consecutive pings without a response.
    pub(crate) async fn check_health(&self, interval: Duration) -> String {
        let interval = interval.max(MIN_PING_INTERVAL);
        let mut missed = 0;
        while missed < MAX_MISSED_PINGS {
            sleep(interval).await;
            // A server may handle one request at a time, so pings would wait for calls.
            if self.has_open_requests() {
                continue;
            }
            let ping = self.request(ClientRequest::PingRequest(PingRequest::default()));
            match timeout(interval, ping).await {
                // A server may still work on a call that was dropped.
                Err(_) if !self.has_open_requests() => missed += 1,
                Ok(Err(RequestError::NotSent)) => return "a ping cannot be sent".to_owned(),
                // Every response counts, also an HTTP error, after which a call is lost.
                _ => missed = 0,
            }
        }
        format!("no response to {MAX_MISSED_PINGS} pings, each within {interval:?}")
    }

    /// Removes and returns the suspended call `id`. Returns `None` if the call is unknown, or if
    /// its timeout has elapsed.
    pub(crate) fn take_suspended(&self, id: &str) -> Option<(InFlightRequest, PendingElicitation)> {
        let monitor = self.monitor.as_ref()?;
        let SuspendedCall { mut request, elicitation, .. } = monitor.suspended.remove(id)?;
        request.monitor = Some(Arc::clone(monitor));
        Some((request, elicitation))
    }
}

impl InFlightRequest {
    /// Waits for the response, or for an elicitation. On the transports of this crate, calls
    /// `report` with each progress notification.
    pub(crate) async fn next_step(&mut self, mut report: impl FnMut(Progress)) -> Result<Step, RequestError> {
        let idle_timeout = self.monitor.as_ref().map(|monitor| monitor.options.idle_timeout);
        let mut idle = pin!(sleep(idle_timeout.unwrap_or_default()));
        loop {
            tokio::select! {
                biased;
                event = next_event(&mut self.events) => match event {
                    CallEvent::Progress(progress) => {
                        report(*progress);
                        idle.as_mut().reset(Instant::now() + idle_timeout.unwrap_or_default());
                    }
                    CallEvent::Elicitation(elicitation) => return Ok(Step::Elicitation(*elicitation)),
                },
                response = response(&mut self.handle) => {
                    return self.convert_response(response).map(Step::Response);
                }
                () = &mut idle, if idle_timeout.is_some() => {
                    return Err(RequestError::IdleTimeout(idle_timeout.unwrap_or_default()));
                }
            }
        }
    }

    /// Waits for the response, without a timeout and without events.
    pub(crate) async fn response(&mut self) -> Result<Value, RequestError> {
        let response = response(&mut self.handle).await;
        self.convert_response(response)
    }

    /// Suspends the request until `elicitation` has a response. Returns the id of the suspended
    /// call. Returns `None` if too many calls are suspended, or without a transport of this crate.
    pub(crate) fn suspend(mut self, elicitation: PendingElicitation) -> Option<String> {
        // The monitor owns the suspended calls, so a suspended call must not own the monitor.
        let monitor = self.monitor.take()?;
        let (timeout, closed) = (monitor.options.elicitation_timeout, monitor.events.closed.clone());
        monitor.suspended.insert(self, elicitation, timeout, closed)
    }

    fn convert_response(&self, response: Result<ServerResult, ServiceError>) -> Result<Value, RequestError> {
        let invalid = |error: &dyn fmt::Display| RequestError::InvalidResponse(error.to_string());
        match response {
            // The transports of this crate keep the result of most requests as JSON.
            Ok(ServerResult::CustomResult(CustomResult(result))) => Ok(result),
            Ok(result) => serde_json::to_value(result).map_err(|error| invalid(&error)),
            Err(ServiceError::McpError(error)) => Err(RequestError::Rejected(error)),
            #[cfg(feature = "http")]
            Err(ServiceError::TransportSend(error)) if error.error.is::<HttpError>() => {
                let error = error.error.downcast_ref::<HttpError>();
                // The connection ends after its error has reached the caller.
                if let Some(monitor) = self.monitor.as_ref().filter(|_| error.is_some_and(needs_connection)) {
                    monitor.events.closed.cancel();
                }
                Err(error.map_or(RequestError::Lost, RequestError::from))
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

async fn next_event(events: &mut Option<CallEvents>) -> CallEvent {
    match events {
        Some(events) => events.next().await,
        None => future::pending().await,
    }
}

/// Waits for the response. The request of `handle` is cancelled only before the response arrives.
async fn response(handle: &mut Option<Box<RequestHandle<RoleClient>>>) -> Result<ServerResult, ServiceError> {
    let Some(open) = handle else { return Err(ServiceError::TransportClosed) };
    let response = (&mut open.rx).await;
    *handle = None;
    response.unwrap_or(Err(ServiceError::TransportClosed))
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take()
            && let Ok(runtime) = Handle::try_current()
        {
            // The task ends when the notification is written or the connection closes.
            runtime.spawn(handle.cancel(Some("the caller dropped the request".to_owned())));
        }
    }
}
