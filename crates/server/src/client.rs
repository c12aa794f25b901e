//! Clients that leave before the end of a response.

use std::time::Duration;

use serde::Deserialize;
use tokio::{runtime::Handle, sync::watch, time::timeout};
use utoipa::ToSchema;

use crate::{error::ApiError, live::LiveRun};

/// The maximum grace period, in seconds.
const MAX_GRACE: u64 = 3600;

/// What happens to a run when its client leaves before the end of the response. A run that waits for
/// a decision goes on waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnect {
    /// The run is cancelled.
    #[default]
    Cancel,
    /// The run continues.
    Continue,
}

/// What happens to a run when its client leaves, with the grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    Continue,
    CancelAfter(Duration),
}

impl Leaving {
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
    leaving: Leaving,
    live: LiveRun,
    /// The receivers are the readers of the session.
    readers: watch::Sender<u64>,
}

impl ClientGuard {
    pub(crate) fn new(leaving: Leaving, live: LiveRun, readers: watch::Sender<u64>) -> Self {
        Self { leaving, live, readers }
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        let Leaving::CancelAfter(grace) = self.leaving else { return };
        if grace.is_zero() {
            self.live.left.cancel();
        } else if let Ok(runtime) = Handle::try_current() {
            let (live, readers) = (self.live.clone(), self.readers.clone());
            // Ends with the run.
            runtime.spawn(async move {
                let has_ended = timeout(grace, live.ended.cancelled()).await.is_ok();
                if !has_ended && readers.receiver_count() == 0 {
                    live.left.cancel();
                }
            });
        }
    }
}
