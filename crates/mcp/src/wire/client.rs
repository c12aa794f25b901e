use std::{
    collections::HashMap,
    future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_core::text::truncate;
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, CustomResult, ErrorCode, ErrorData, JsonRpcMessage,
        RequestId, ServerJsonRpcMessage, ServerResult,
    },
    transport::Transport,
};
use serde_json::value::RawValue;
use tokio::{
    io::{self, AsyncRead, AsyncWrite},
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::{
    Notices,
    envelope::{Envelope, salvage_id, salvage_last_id},
    lines::{Line, Lines},
    reports::Subscriber,
    writer::Writer,
};

/// Length of an excerpt of a server's output, in bytes.
const EXCERPT: usize = 200;

/// How much a client's wire puts up with.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// How long a message of the server may be, in bytes.
    pub(crate) line_bytes: usize,
    /// How long the server may take to say whether it knows `server/discover`. One that says nothing is taken for
    /// one of the era before it.
    pub(crate) probe: Duration,
}

/// The client's end of a connection. A second one can go on where a first failed.
pub(crate) struct ClientWire<R, W> {
    lines: Arc<Mutex<Lines<R>>>,
    writer: Writer<W>,
    awaited: HashMap<RequestId, Asked>,
    probe: Option<(RequestId, Instant)>,
    notices: Arc<Notices>,
    patience: Patience,
    noise: u64,
}

/// A request that has no answer yet.
struct Asked {
    awaited: Awaited,
    subscriber: Option<Subscriber>,
}

/// How the answer to a request is read.
#[derive(Clone, Copy)]
enum Awaited {
    /// Kept as it is: what rmcp makes of it loses details.
    Raw,
    /// Read by rmcp.
    Typed,
    /// As `Typed`, and it may never come.
    Subscription,
    /// As `Typed`; what is no proper answer means that the server does not know the request.
    Probe,
    /// A probe that rmcp does not wait for any more.
    LateProbe,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> ClientWire<R, W> {
    pub(crate) fn new(reader: R, writer: W, notices: Arc<Notices>, patience: Patience) -> Self {
        let lines = Arc::new(Mutex::new(Lines::new(reader, patience.line_bytes)));
        let writer = Writer::new(writer);
        Self { lines, writer, awaited: HashMap::new(), probe: None, notices, patience, noise: 0 }
    }

    /// Another wire over the same streams, for when rmcp has let go of this one.
    pub(crate) fn again(&self) -> Self {
        let (lines, writer) = (Arc::clone(&self.lines), self.writer.clone());
        let (notices, patience) = (Arc::clone(&self.notices), self.patience);
        Self { lines, writer, awaited: HashMap::new(), probe: None, notices, patience, noise: 0 }
    }

    fn note_sent(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let awaited = match request.request.method() {
                    "tools/list" | "tools/call" => Awaited::Raw,
                    "server/discover" => Awaited::Probe,
                    "subscriptions/listen" => Awaited::Subscription,
                    _ => Awaited::Typed,
                };
                if matches!(awaited, Awaited::Probe) {
                    self.probe = Some((request.id.clone(), Instant::now() + self.patience.probe));
                }
                let subscriber = Subscriber::of(&request.request);
                self.awaited.insert(request.id.clone(), Asked { awaited, subscriber });
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.awaited.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Makes a message of a line, unless it is noise or the answer to nothing.
    fn read(&mut self, line: Line) -> Option<ServerJsonRpcMessage> {
        if !line.start().trim_ascii_start().starts_with(b"{") {
            self.hear_noise(line.start());
            return None;
        }
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { head, tail, length } => {
                let id = salvage_id(&head).or_else(|| salvage_last_id(&tail));
                let reason =
                    format!("it is {length} bytes long, at most {} are read", self.patience.line_bytes);
                return self.fail(id, reason, &head);
            }
        };
        let Ok(text) = str::from_utf8(&line) else {
            return self.fail(salvage_id(&line), "it is not UTF-8".to_owned(), &line);
        };
        match serde_json::from_str::<Envelope<'_>>(text) {
            // Many programs write their log as JSON, and it may well have an `id` or an `error`.
            Ok(envelope) if envelope.jsonrpc.is_none() => {
                self.hear_noise(&line);
                None
            }
            Ok(envelope) if envelope.method.is_some() => self.read_unasked(&envelope, text),
            Ok(envelope) => self.read_answer(&envelope),
            Err(error) => self.fail(salvage_id(&line), error.to_string(), &line),
        }
    }

    fn read_answer(&mut self, envelope: &Envelope<'_>) -> Option<ServerJsonRpcMessage> {
        let error = envelope.error.map(read_error);
        let id = match (&envelope.id, &error) {
            (Some(id), _) => id.clone(),
            // A server that could not even read the id of a request says so without one.
            (None, Some(Ok(_))) => self.only_request()?,
            (None, _) => return None,
        };
        let (id, awaited) = self.take_awaited(id)?;
        if matches!(awaited, Awaited::LateProbe) {
            let discovered = envelope.result.is_some_and(|result| read_result(awaited, result).is_ok());
            self.notices.discovered.store(discovered, Ordering::Relaxed);
            return None;
        }
        let answer = match (envelope.result, error) {
            (Some(result), _) => read_result(awaited, result).map_err(|error| error.to_string()),
            (None, Some(Ok(error) | Err(error))) => return Some(JsonRpcMessage::error(error, Some(id))),
            (None, None) => Err("it has neither a result nor an error".to_owned()),
        };
        Some(match answer {
            Ok(result) => JsonRpcMessage::response(result, id),
            Err(reason) => unreadable(id, awaited, &reason),
        })
    }

    /// Fails the call that an unreadable answer belongs to. What belongs to none is noise.
    fn fail(&mut self, id: Option<RequestId>, reason: String, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let Some(id) = id else {
            self.hear_noise(line);
            return None;
        };
        let (id, awaited) = self.take_awaited(id)?;
        Some(unreadable(id, awaited, &reason))
    }

    /// The request that an answer belongs to.
    fn take_awaited(&mut self, id: RequestId) -> Option<(RequestId, Awaited)> {
        let id = match id {
            RequestId::String(text) if !self.awaited.contains_key(&RequestId::String(text.clone())) => {
                RequestId::Number(text.parse().ok()?)
            }
            id => id,
        };
        let Some(Asked { awaited, .. }) = self.awaited.remove(&id) else {
            tracing::debug!(%id, "dropped an answer that nobody waits for");
            return None;
        };
        self.probe.take_if(|(probe, _)| *probe == id);
        Some((id, awaited))
    }

    /// The request that is open, if it is one. A subscription, which is open all the time, does not count.
    fn only_request(&self) -> Option<RequestId> {
        let mut open =
            self.awaited.iter().filter(|(_, asked)| !matches!(asked.awaited, Awaited::Subscription));
        let (id, _) = open.next()?;
        open.next().is_none().then(|| id.clone())
    }

    fn read_unasked(&self, envelope: &Envelope<'_>, text: &str) -> Option<ServerJsonRpcMessage> {
        match (envelope.method.as_deref(), envelope.params) {
            (Some("notifications/progress"), Some(params)) => {
                if let Ok(report) = serde_json::from_str(params.get()) {
                    self.awaited
                        .values()
                        .filter_map(|asked| asked.subscriber.as_ref())
                        .for_each(|it| it.tell(&report));
                }
                return None;
            }
            // It goes on to rmcp as well, which may have a subscription for it.
            (Some("notifications/tools/list_changed"), _) => self.notices.list_changed.notify_one(),
            _ => {}
        }
        serde_json::from_str(text)
            .inspect_err(|error| tracing::warn!(%error, "dropped a message that cannot be read"))
            .ok()
    }

    /// A server should write nothing but messages. It is told once, in the log.
    fn hear_noise(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        self.noise += 1;
        if self.noise == 1 {
            tracing::warn!(
                line = truncate(&String::from_utf8_lossy(line), EXCERPT),
                "the server writes what is no message to its standard output"
            );
        }
    }

    /// What rmcp is told when the probe found nobody.
    fn give_up_probe(&mut self) -> Option<ServerJsonRpcMessage> {
        let (id, _) = self.probe.take()?;
        self.awaited.insert(id.clone(), Asked { awaited: Awaited::LateProbe, subscriber: None });
        Some(unreadable(id, Awaited::Probe, "there is none yet"))
    }
}

fn read_result(awaited: Awaited, result: &RawValue) -> serde_json::Result<ServerResult> {
    match awaited {
        Awaited::Raw => serde_json::from_str(result.get()).map(|value| CustomResult::new(value).into()),
        Awaited::Typed | Awaited::Subscription => serde_json::from_str(result.get()),
        Awaited::Probe | Awaited::LateProbe => {
            serde_json::from_str(result.get()).map(ServerResult::DiscoverResult)
        }
    }
}

fn unreadable(id: RequestId, awaited: Awaited, reason: &str) -> ServerJsonRpcMessage {
    let code = match awaited {
        Awaited::Probe | Awaited::LateProbe => ErrorCode::METHOD_NOT_FOUND,
        Awaited::Raw | Awaited::Typed | Awaited::Subscription => ErrorCode::PARSE_ERROR,
    };
    JsonRpcMessage::error(
        ErrorData::new(code, format!("the answer cannot be read: {reason}"), None),
        Some(id),
    )
}

/// Reads an error; some servers send a text or an object of their own where one belongs, which is an error too.
fn read_error(error: &RawValue) -> Result<ErrorData, ErrorData> {
    serde_json::from_str(error.get())
        .map_err(|_foreign| ErrorData::internal_error(truncate(error.get(), EXCERPT).to_owned(), None))
}

impl<R, W> Transport<RoleClient> for ClientWire<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.note_sent(&message);
        self.writer.send(&message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let probe = self.probe.as_ref().map(|(_, deadline)| *deadline);
            let given_up = async {
                match probe {
                    Some(deadline) => sleep_until(deadline).await,
                    None => future::pending().await,
                }
            };
            let lines = Arc::clone(&self.lines);
            let line = async { lines.lock().await.next().await };
            let message = tokio::select! {
                biased;
                line = line => match line {
                    Ok(Some(line)) => self.read(line),
                    Ok(None) | Err(_) => {
                        self.notices.ended.cancel();
                        return None;
                    }
                },
                () = given_up => self.give_up_probe(),
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
