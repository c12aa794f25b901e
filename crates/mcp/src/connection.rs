//! One connection: requests with a deadline that are cancelled when nobody waits for them any more.

use std::{future, pin::pin, sync::Arc, time::Duration};

use haft_core::Progress;
use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, ErrorData},
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
    #[error("{} (code {})", .0.message, .0.code.0)]
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
                answer = pending.answer() => return answer,
                () = &mut silence, if idle_timeout.is_some() => {
                    return Err(RequestError::Silent(idle_timeout.unwrap_or_default()));
                }
            }
        }
    }
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
    async fn answer(&mut self) -> Result<Value, RequestError> {
        let Some(handle) = &mut self.0 else { return Err(RequestError::Lost) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        match answer {
            Ok(Ok(result)) => {
                serde_json::to_value(result).map_err(|error| RequestError::Unreadable(error.to_string()))
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_connection_ended) => Err(RequestError::Lost),
        }
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

impl From<ServiceError> for RequestError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::Refused(error),
            ServiceError::TransportSend(_) => Self::NotSent,
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => Self::Lost,
            other => Self::Unreadable(other.to_string()),
        }
    }
}
