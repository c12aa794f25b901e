use haft_core::limits;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use tokio::io::{self, AsyncRead, AsyncWrite};

use super::{
    envelope::{Envelope, salvage_id, salvage_last_id},
    lines::{Line, Lines},
    writer::Writer,
};

/// The server's end of a connection.
pub(crate) struct ServerWire<R, W> {
    lines: Lines<R>,
    writer: Writer<W>,
    /// Whether a request came. Before that rmcp takes anything else for the end of the conversation.
    begun: bool,
}

/// A message, or what its sender is told.
type Read = Result<ClientJsonRpcMessage, (Option<RequestId>, ErrorData)>;

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> ServerWire<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        Self { lines: Lines::new(reader, limits::LINE_BYTES), writer: Writer::new(writer), begun: false }
    }
}

fn read(line: Line) -> Read {
    let line = match line {
        Line::Whole(line) => line,
        Line::TooLong { head, tail, length } => {
            let reason =
                format!("the message is {length} bytes long, at most {} are read", limits::LINE_BYTES);
            let id = salvage_id(&head).or_else(|| salvage_last_id(&tail));
            return Err((id, ErrorData::invalid_request(reason, None)));
        }
    };
    match serde_json::from_slice::<Envelope<'_>>(&line) {
        Err(error) => Err((salvage_id(&line), ErrorData::parse_error(error.to_string(), None))),
        Ok(envelope) => serde_json::from_slice(&line)
            .map_err(|error| (envelope.id, ErrorData::invalid_request(error.to_string(), None))),
    }
}

impl<R, W> Transport<RoleServer> for ServerWire<R, W>
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
        loop {
            let line = self.lines.next().await.ok()??;
            if matches!(&line, Line::Whole(line) if line.trim_ascii().is_empty()) {
                continue;
            }
            match read(line) {
                Ok(message) => {
                    self.begun |= matches!(message, JsonRpcMessage::Request(_));
                    if self.begun {
                        return Some(message);
                    }
                }
                Err((id, error)) => {
                    // Nobody waits for the answer to a notification or an answer; others learn what was wrong.
                    let answer = ServerJsonRpcMessage::error(error, id);
                    self.writer.send(&answer).await.ok()?;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.writer.close().await;
        Ok(())
    }
}
