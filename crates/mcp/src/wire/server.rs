use haft_core::limits;
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
    lines::{Line, Lines},
    writer::Writer,
};

/// The server's end of a connection.
pub(crate) struct ServerWire<R, W> {
    lines: Lines<R>,
    writer: Writer<W>,
    /// Cancelled at the end of the input.
    ended: CancellationToken,
    /// What a client is being told about a message of its that cannot be read. On a task of its own: whoever waits
    /// for the next message may stop waiting in the middle of it.
    objecting: Option<JoinHandle<io::Result<()>>>,
    /// Whether the conversation began. Before that rmcp takes what is no request for the end of it.
    begun: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> ServerWire<R, W> {
    pub(crate) fn new(reader: R, writer: W, ended: CancellationToken) -> Self {
        let (lines, writer) = (Lines::new(reader, limits::LINE_BYTES), Writer::new(writer));
        Self { lines, writer, ended, objecting: None, begun: false }
    }

    /// The next message; none at the end.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.objected().await?;
            let line = self.lines.next().await.ok()??;
            if matches!(&line, Line::Whole(line) if line.trim_ascii().is_empty()) {
                continue;
            }
            match read(line) {
                Ok(message) => {
                    self.begun |= begins(&message);
                    if self.begun || matches!(message, JsonRpcMessage::Request(_)) {
                        return Some(message);
                    }
                }
                Err(objection) => self.objecting = Some(tokio::spawn(self.writer.send(&*objection))),
            }
        }
    }

    /// Waits until the client was told; none if it cannot be.
    async fn objected(&mut self) -> Option<()> {
        if let Some(objecting) = &mut self.objecting {
            let told = objecting.await;
            self.objecting = None;
            told.ok()?.ok()?;
        }
        Some(())
    }
}

/// Makes a message of a line, or what its sender is told.
fn read(line: Line) -> Result<ClientJsonRpcMessage, Box<ServerJsonRpcMessage>> {
    let objection = |error, id: Option<RequestId>| Box::new(ServerJsonRpcMessage::error(error, id));
    let line = match line {
        Line::Whole(line) => line,
        Line::TooLong { head, tail, length } => {
            let reason =
                format!("the message is {length} bytes long, at most {} are read", limits::LINE_BYTES);
            let id = salvage_id(&head).or_else(|| salvage_last_id(&tail));
            return Err(objection(ErrorData::invalid_request(reason, None), id));
        }
    };
    match serde_json::from_slice::<Envelope<'_>>(&line) {
        Err(error) => Err(objection(ErrorData::parse_error(error.to_string(), None), salvage_id(&line))),
        Ok(envelope) => serde_json::from_slice(&line)
            .map_err(|error| objection(ErrorData::invalid_request(error.to_string(), None), envelope.id)),
    }
}

/// Whether a message is a request that is more than a question whether, and in which era, somebody is there.
fn begins(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else { return false };
    !matches!(request.request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_))
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
        let message = self.next().await;
        if message.is_none() {
            self.ended.cancel();
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        self.objected().await;
        self.writer.close().await;
        Ok(())
    }
}
