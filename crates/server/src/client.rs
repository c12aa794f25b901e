//! Clients that leave before the end of a response.

use std::time::Duration;

use haft_session::SessionKey;
use serde::Deserialize;
use tokio::{runtime::Handle, time::timeout};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::{
    error::ApiError,
    live::{Feed, LiveRun},
    stored::StoredAgent,
};

/// The maximum grace period, in seconds.
const MAX_GRACE: u64 = 3600;

/// The effect on a run if its client leaves before the end of the response. A run that waits for a
/// decision goes on waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnect {
    /// The run is cancelled.
    Cancel,
    /// The run continues.
    Continue,
}

/// The effect of a lost client, with the grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disconnect {
    Continue,
    CancelAfter(Duration),
}

impl Disconnect {
    pub(crate) fn new(on_disconnect: OnDisconnect, grace_seconds: u64) -> Result<Self, ApiError> {
        if grace_seconds > MAX_GRACE {
            return Err(ApiError::invalid(format!("`grace_seconds` is at most {MAX_GRACE}")));
        }
        Ok(match on_disconnect {
            OnDisconnect::Continue => Self::Continue,
            OnDisconnect::Cancel => Self::CancelAfter(Duration::from_secs(grace_seconds)),
        })
    }
}

/// A client that waits for the end of a run. When it is dropped earlier, the client has left.
pub(crate) struct ClientGuard {
    disconnect: Disconnect,
    live: LiveRun,
    feed: Feed,
    closing: CancellationToken,
}

impl ClientGuard {
    /// Guards the run of `live`, whose session is `key`.
    pub(crate) fn new(disconnect: Disconnect, live: LiveRun, stored: &StoredAgent, key: &SessionKey) -> Self {
        Self { disconnect, live, feed: stored.live().feed(key), closing: stored.live().closing().clone() }
    }

    /// Lets the run continue, because the server ends the response.
    pub(crate) fn disarm(mut self) {
        self.disconnect = Disconnect::Continue;
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        let Disconnect::CancelAfter(grace) = self.disconnect else { return };
        // The server ends, not the client.
        if self.closing.is_cancelled() {
            return;
        }
        if grace.is_zero() {
            if !self.feed.has_readers() {
                self.live.client_gone.cancel();
            }
        } else if let Ok(runtime) = Handle::try_current() {
            let (live, feed) = (self.live.clone(), self.feed.clone());
            // Ends with the run.
            runtime.spawn(async move {
                let has_ended = timeout(grace, live.ended.cancelled()).await.is_ok();
                if !has_ended && !feed.has_readers() {
                    live.client_gone.cancel();
                }
            });
        }
    }
}
