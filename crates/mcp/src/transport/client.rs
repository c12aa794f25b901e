use std::{
    cmp::Reverse,
    collections::HashMap,
    future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_core::text::{truncate, without_hidden_chars};
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage,
    },
    transport::Transport,
};
use tokio::{
    io::{self, AsyncRead, AsyncWrite},
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{
    EventForwarder, ServerEvents,
    envelope::{Envelope, salvage_id, salvage_last_id},
    lines::{Line, Lines},
    response::{ResponseKind, parse_error},
    writer::MessageWriter,
};

/// The maximum length of server output that is quoted in logs and errors, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// The limits of the client side of the stdio transport.
#[derive(Clone, Copy)]
pub(crate) struct TransportLimits {
    /// The maximum length of a message from the server, in bytes.
    pub(crate) line_bytes: usize,
    /// The maximum time to wait for the response to `server/discover`.
    ///
    /// After this time, the client assumes that the server requires `initialize`.
    pub(crate) probe_timeout: Duration,
}

/// The client side of the stdio transport.
///
/// rmcp drops the transport if the handshake fails. Before the first handshake,
/// [`with_same_streams`](Self::with_same_streams) creates a second transport over the same streams,
/// so a second handshake does not need a new process.
pub(crate) struct ClientTransport<R, W> {
    lines: Arc<Mutex<Lines<R>>>,
    writer: MessageWriter<W>,
    open_requests: HashMap<RequestId, OpenRequest>,
    /// The id of the `server/discover` request in flight, and the time at which it times out.
    /// `None` if there is no such request, or if it has timed out.
    probe: Option<(RequestId, Instant)>,
    events: Arc<ServerEvents>,
    limits: TransportLimits,
    has_stray_output: bool,
}

/// An MCP request that was sent and has no response yet.
struct OpenRequest {
    response_kind: ResponseKind,
    events: Option<EventForwarder>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> ClientTransport<R, W> {
    pub(crate) fn new(reader: R, writer: W, events: Arc<ServerEvents>, limits: TransportLimits) -> Self {
        let lines = Arc::new(Mutex::new(Lines::new(reader, limits.line_bytes)));
        Self::over(lines, MessageWriter::new(writer), events, limits)
    }

    /// Creates a transport over the same streams for a second handshake. It has no open requests.
    pub(crate) fn with_same_streams(&self) -> Self {
        Self::over(Arc::clone(&self.lines), self.writer.clone(), Arc::clone(&self.events), self.limits)
    }

    fn over(
        lines: Arc<Mutex<Lines<R>>>,
        writer: MessageWriter<W>,
        events: Arc<ServerEvents>,
        limits: TransportLimits,
    ) -> Self {
        let open_requests = HashMap::new();
        Self { lines, writer, open_requests, probe: None, events, limits, has_stray_output: false }
    }

    fn track_sent(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let response_kind = ResponseKind::of(request.request.method());
                if matches!(response_kind, ResponseKind::Probe) {
                    let deadline = Instant::now() + self.limits.probe_timeout;
                    self.probe = Some((request.id.clone(), deadline));
                }
                let events = EventForwarder::from_request(&request.request);
                self.open_requests.insert(request.id.clone(), OpenRequest { response_kind, events });
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open_requests.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Parses `line`, a line of the server's standard output. Returns `None` if rmcp must not
    /// receive a message, for example for a log line or for a response without an open request.
    fn parse(&mut self, line: Line) -> Option<ServerJsonRpcMessage> {
        if !line.head().trim_ascii_start().starts_with(b"{") {
            self.log_stray_output(line.head());
            return None;
        }
        let line = match line {
            Line::Complete(line) => line,
            Line::TooLong { head, tail, length } => {
                let id = salvage_id(&head).or_else(|| salvage_last_id(&tail));
                let reason = format!("{length} bytes exceed the limit of {}", self.limits.line_bytes);
                return self.fail_request(id, &reason, &head);
            }
        };
        let Ok(text) = str::from_utf8(&line) else {
            return self.fail_request(salvage_id(&line), "not UTF-8", &line);
        };
        match serde_json::from_str::<Envelope<'_>>(text) {
            // Some programs write their logs as JSON, and a log record may contain an `id` or an
            // `error`. An object without the key `jsonrpc` is therefore not treated as a message.
            Ok(envelope) if envelope.jsonrpc.is_none() => {
                self.log_stray_output(&line);
                None
            }
            Ok(envelope) if envelope.method.is_some() => self.parse_server_message(&envelope, text),
            Ok(envelope) => self.parse_response(&envelope),
            Err(error) => self.fail_request(salvage_id(&line), &error.to_string(), &line),
        }
    }

    fn parse_response(&mut self, envelope: &Envelope<'_>) -> Option<ServerJsonRpcMessage> {
        let error = envelope.error.map(parse_error);
        let id = match (&envelope.id, &error) {
            (Some(id), _) => id.clone(),
            // JSON-RPC 2.0, section 5: `id` is null if the server could not read the id of the
            // request. If only one request is open, the error is assigned to this request.
            (None, Some(Ok(_))) => self.only_open_request()?,
            (None, _) => return None,
        };
        let (id, kind) = self.take_request(id)?;
        if matches!(kind, ResponseKind::LateProbe) {
            let is_valid = envelope.result.is_some_and(|result| kind.parse(result).is_ok());
            self.events.has_late_discover.store(is_valid, Ordering::Relaxed);
            return None;
        }
        let response = match (envelope.result, error) {
            (Some(result), _) => kind.parse(result).map_err(|error| error.to_string()),
            (None, Some(Ok(error) | Err(error))) => return Some(JsonRpcMessage::error(error, Some(id))),
            (None, None) => Err("neither `result` nor `error`".to_owned()),
        };
        Some(match response {
            Ok(result) => JsonRpcMessage::response(result, id),
            Err(reason) => kind.invalid_response(id, &reason),
        })
    }

    /// Removes the open request `id` and returns an error response for it. The error message
    /// contains `reason`. Returns `None` if there is no open request `id`.
    ///
    /// If `id` is `None`, `line` cannot be assigned to a request. In this case, logs `line` as
    /// stray output and returns `None`.
    fn fail_request(
        &mut self,
        id: Option<RequestId>,
        reason: &str,
        line: &[u8],
    ) -> Option<ServerJsonRpcMessage> {
        let Some(id) = id else {
            self.log_stray_output(line);
            return None;
        };
        let (id, kind) = self.take_request(id)?;
        Some(kind.invalid_response(id, reason))
    }

    /// Removes the open request `id`. Returns its id and its kind. Returns `None` if no open
    /// request has this id.
    ///
    /// The string `"1"` also matches the numeric id 1, because some servers return numeric ids as
    /// strings.
    fn take_request(&mut self, id: RequestId) -> Option<(RequestId, ResponseKind)> {
        let id = match id {
            RequestId::String(text) if !self.open_requests.contains_key(&RequestId::String(text.clone())) => {
                RequestId::Number(text.parse().ok()?)
            }
            id => id,
        };
        let Some(OpenRequest { response_kind, .. }) = self.open_requests.remove(&id) else {
            tracing::debug!(%id, "dropped a response without an open request");
            return None;
        };
        self.probe.take_if(|(probe, _)| *probe == id);
        Some((id, response_kind))
    }

    /// Returns the id of the only open request. Subscriptions do not count. Returns `None` if no
    /// request or more than one request is open.
    ///
    /// A `server/discover` request that timed out counts as open: a server that starts slowly reads
    /// it before `initialize`, so an error without an id may be its late response.
    fn only_open_request(&self) -> Option<RequestId> {
        let mut open = self
            .open_requests
            .iter()
            .filter(|(_, request)| !matches!(request.response_kind, ResponseKind::Subscription));
        let (id, _) = open.next()?;
        open.next().is_none().then(|| id.clone())
    }

    /// Parses a notification or a request from the server. Forwards a progress notification to the
    /// caller of its request and returns `None`. Also returns `None` for a message that rmcp cannot
    /// parse. The default handler of rmcp answers `ping` and drops log notifications
    /// (`notifications/message`).
    fn parse_server_message(&self, envelope: &Envelope<'_>, text: &str) -> Option<ServerJsonRpcMessage> {
        match (envelope.method.as_deref(), envelope.params) {
            (Some("notifications/progress"), Some(params)) => {
                if let Ok(report) = serde_json::from_str(params.get()) {
                    self.open_requests
                        .values()
                        .filter_map(|request| request.events.as_ref())
                        .for_each(|events| events.forward(&report));
                }
                return None;
            }
            // rmcp receives the notification as well and routes it to the subscription, if there is
            // one.
            (Some("notifications/tools/list_changed"), _) => self.events.list_changed.notify_one(),
            (Some("elicitation/create"), _) => {
                self.events.elicitations.record(envelope, self.open_calls());
            }
            _ => {}
        }
        serde_json::from_str(text)
            .inspect_err(|error| tracing::warn!(%error, "dropped an invalid message from the server"))
            .ok()
    }

    /// Returns the events of the open requests with a subscriber, the latest first. A request of a
    /// server over stdio does not name the call that it belongs to.
    fn open_calls(&self) -> Vec<EventForwarder> {
        let number = |id: &RequestId| match id {
            RequestId::Number(number) => *number,
            RequestId::String(_) => i64::MIN,
        };
        let open = self.open_requests.iter().filter_map(|(id, request)| {
            let events = request.events.as_ref().filter(|events| events.may_elicit())?;
            Some((number(id), events))
        });
        let mut open: Vec<_> = open.collect();
        open.sort_unstable_by_key(|(number, _)| Reverse(*number));
        open.into_iter().map(|(_, events)| events.clone()).collect()
    }

    /// Logs `line` if it is the first non-empty line of the server that is not a message. Later
    /// lines of this kind are dropped without a log entry.
    fn log_stray_output(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() || self.has_stray_output {
            return;
        }
        self.has_stray_output = true;
        tracing::warn!(
            line = truncate(&without_hidden_chars(&String::from_utf8_lossy(line)), MAX_EXCERPT_BYTES),
            "the server writes lines to its standard output that are not MCP messages"
        );
    }

    /// Times out the open `server/discover` request, if any. Returns the error response "method not
    /// found" for it, so that rmcp falls back to `initialize`.
    fn time_out_probe(&mut self) -> Option<ServerJsonRpcMessage> {
        let (id, _) = self.probe.take()?;
        self.events.has_unanswered_discover.store(true, Ordering::Relaxed);
        let request = OpenRequest { response_kind: ResponseKind::LateProbe, events: None };
        self.open_requests.insert(id.clone(), request);
        let reason = format!("no response within {:?}", self.limits.probe_timeout);
        let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None);
        Some(JsonRpcMessage::error(error, Some(id)))
    }
}

impl<R, W> Transport<RoleClient> for ClientTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.track_sent(&message);
        self.writer.send(&message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let probe = self.probe.as_ref().map(|(_, deadline)| *deadline);
            let probe_timeout = async {
                match probe {
                    Some(deadline) => sleep_until(deadline).await,
                    None => future::pending().await,
                }
            };
            let lines = Arc::clone(&self.lines);
            let line = async { lines.lock().await.next_line().await };
            let message = tokio::select! {
                biased;
                line = line => match line {
                    Ok(Some(line)) => self.parse(line),
                    Ok(None) | Err(_) => {
                        self.events.closed.cancel();
                        return None;
                    }
                },
                () = probe_timeout => self.time_out_probe(),
            };
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.close().await;
        Ok(())
    }
}
