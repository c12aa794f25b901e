use haft_core::{limits, schema::first_rounded_number};
use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use tokio::{
    io::{self, AsyncRead, AsyncWrite},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    envelope::{Envelope, salvage_id, salvage_last_id},
    inexact::{inexact_client_response, inexact_reason},
    lines::{Line, Lines},
    writer::MessageWriter,
};

/// The server side of the stdio transport.
///
/// It responds to invalid messages with a JSON-RPC error.
pub(crate) struct ServerTransport<R, W> {
    lines: Lines<R>,
    writer: MessageWriter<W>,
    /// A token that is cancelled when the transport stops reading its input.
    input_closed: CancellationToken,
    /// The task that writes an error response to an invalid message.
    ///
    /// It is a separate task because rmcp may drop the `receive` future at any time, and a
    /// partially written line would corrupt the stream.
    error_response: Option<JoinHandle<io::Result<()>>>,
    /// `true` after the first request other than `ping` and `server/discover` was received.
    ///
    /// Before this request, messages that are not requests are dropped, because rmcp 3.11 would end
    /// the session with `ExpectedInitializeRequest`.
    has_session_started: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> ServerTransport<R, W> {
    pub(crate) fn new(reader: R, writer: W, input_closed: CancellationToken) -> Self {
        let (lines, writer) = (Lines::new(reader, limits::SERVER_MESSAGE_BYTES), MessageWriter::new(writer));
        Self { lines, writer, input_closed, error_response: None, has_session_started: false }
    }

    /// Reads the next message. Returns `None` at the end of the input, if reading fails, or if an
    /// error response cannot be written.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.flush_error_response().await?;
            let line = self.lines.next_line().await.ok()??;
            if matches!(&line, Line::Complete(line) if line.trim_ascii().is_empty()) {
                continue;
            }
            match parse(line) {
                Ok(message) => {
                    self.has_session_started |= starts_session(&message);
                    if self.has_session_started || matches!(message, JsonRpcMessage::Request(_)) {
                        return Some(message);
                    }
                }
                Err(response) => {
                    self.error_response = Some(tokio::spawn(self.writer.send(&*response)));
                }
            }
        }
    }

    /// Waits until the pending error response, if any, is written. Returns `None` if the write
    /// fails.
    async fn flush_error_response(&mut self) -> Option<()> {
        if let Some(task) = &mut self.error_response {
            let written = task.await;
            self.error_response = None;
            written.ok()?.ok()?;
        }
        Some(())
    }
}

/// Parses `line` as a message. If `line` is not a valid message, returns the error response for the
/// client.
fn parse(line: Line) -> Result<ClientJsonRpcMessage, Box<ServerJsonRpcMessage>> {
    let response = |error, id: Option<RequestId>| Box::new(ServerJsonRpcMessage::error(error, id));
    let line = match line {
        Line::Complete(line) => line,
        Line::TooLong { head, tail, length } => {
            let reason =
                format!("message of {length} bytes exceeds the limit of {}", limits::SERVER_MESSAGE_BYTES);
            let id = salvage_id(&head).or_else(|| salvage_last_id(&tail));
            return Err(response(ErrorData::invalid_request(reason, None), id));
        }
    };
    // The arguments of a call must not be changed by parsing.
    let inexact = str::from_utf8(&line).ok().and_then(first_rounded_number).map(inexact_reason);
    match serde_json::from_slice::<Envelope<'_>>(&line) {
        Ok(envelope) if inexact.is_some() && envelope.method.is_some() && envelope.id.is_some() => {
            let error = ErrorData::invalid_params(inexact.unwrap_or_default(), None);
            Err(response(error, envelope.id))
        }
        Err(error) => Err(response(ErrorData::parse_error(error.to_string(), None), salvage_id(&line))),
        Ok(envelope) => match inexact_client_response(&envelope) {
            Some(error) => Ok(error),
            None => serde_json::from_slice(&line)
                .map_err(|error| response(ErrorData::invalid_request(error.to_string(), None), envelope.id)),
        },
    }
}

/// Returns `true` if `message` is a request other than `ping` and `server/discover`.
fn starts_session(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    !matches!(request.request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_))
}

impl<R, W> Transport<RoleServer> for ServerTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.writer.send(&message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.next().await;
        if message.is_none() {
            self.input_closed.cancel();
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        self.flush_error_response().await;
        self.writer.close().await;
        Ok(())
    }
}
