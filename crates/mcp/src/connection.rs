//! One connection: requests with a deadline that are cancelled when nobody waits for them any more.

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

use crate::wire::{self, Notices};

/// How long it may take after a request that could not be sent until the connection is known to be closed.
const LOSS_NOTICED: Duration = Duration::from_millis(500);

/// A server that can be asked. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    heard: Option<Heard>,
}

/// What is known of a connection whose wire is ours.
#[derive(Clone)]
struct Heard {
    notices: Arc<Notices>,
    idle_timeout: Duration,
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The server never read it.
    #[error("the connection is closed")]
    NotSent,
    /// The server may have read it; its answer will not come.
    #[error("the connection was lost")]
    Lost,
    #[error("the server said nothing for {} s", .0.as_secs_f32())]
    Silent(Duration),
    #[error("{} (code {}){}", .0.message, .0.code.0, details(.0))]
    Refused(ErrorData),
    #[error("{0}")]
    Unreadable(String),
}

impl Connection {
    /// A connection over our own wire.
    pub(crate) fn new(peer: Peer<RoleClient>, notices: Arc<Notices>, idle_timeout: Duration) -> Self {
        Self { peer, heard: Some(Heard { notices, idle_timeout }) }
    }

    /// A connection that somebody else made. Its progress is not heard here, so that silence has no deadline;
    /// the call as a whole has one.
    pub(crate) fn foreign(peer: Peer<RoleClient>) -> Self {
        Self { peer, heard: None }
    }

    /// Whether nothing can be asked any more.
    pub(crate) fn is_closed(&self) -> bool {
        let ended = self.heard.as_ref().is_some_and(|heard| heard.notices.ended.is_cancelled());
        ended || self.peer.is_transport_closed()
    }

    /// Waits until it is known that the connection is closed, after a request that could not be sent.
    pub(crate) async fn lost(&self) {
        if let Some(heard) = &self.heard {
            let _ = timeout(LOSS_NOTICED, heard.notices.ended.cancelled()).await;
        }
    }

    /// Sends a request and waits for its result, as the server wrote it.
    ///
    /// Dropping the future tells the server that the result is not wanted any more.
    pub(crate) async fn request(
        &self,
        mut request: ClientRequest,
        mut report: impl FnMut(Progress),
    ) -> Result<Value, RequestError> {
        let mut reports = self.heard.as_ref().map(|_| wire::subscribe(&mut request));
        let handle = self
            .peer
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(|_closed| RequestError::NotSent)?;
        let idle_timeout = self.heard.as_ref().map(|heard| heard.idle_timeout);
        let mut pending = Pending(Some(handle));
        let mut silence = pin!(sleep(idle_timeout.unwrap_or_default()));
        loop {
            tokio::select! {
                biased;
                progress = next_report(&mut reports) => {
                    report(progress);
                    silence.as_mut().reset(Instant::now() + idle_timeout.unwrap_or_default());
                }
                answer = pending.answer() => return self.read(answer),
                () = &mut silence, if idle_timeout.is_some() => {
                    return Err(RequestError::Silent(idle_timeout.unwrap_or_default()));
                }
            }
        }
    }

    fn read(&self, answer: Result<ServerResult, ServiceError>) -> Result<Value, RequestError> {
        let unreadable = |error: &dyn fmt::Display| RequestError::Unreadable(error.to_string());
        match answer {
            Ok(result) => serde_json::to_value(result).map_err(|error| unreadable(&error)),
            Err(ServiceError::McpError(error)) => Err(RequestError::Refused(error)),
            // Our own wire means that no whole message was written. Another may mean that it could not read what
            // came back, as HTTP does.
            Err(ServiceError::TransportSend(_)) if self.heard.is_some() => Err(RequestError::NotSent),
            Err(
                ServiceError::TransportSend(_)
                | ServiceError::TransportClosed
                | ServiceError::Cancelled { .. },
            ) => Err(RequestError::Lost),
            Err(other) => Err(unreadable(&other)),
        }
    }
}

/// What a server says of an error besides.
fn details(error: &ErrorData) -> String {
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

/// A request under way; the server is told when it is dropped before its answer.
struct Pending(Option<RequestHandle<RoleClient>>);

impl Pending {
    async fn answer(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            // It ends when the notice is written, or with the connection.
            runtime.spawn(handle.cancel(Some("the caller does not wait any more".to_owned())));
        }
    }
}
