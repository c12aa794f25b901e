//! Calls that wait for the response to an elicitation, while their request stays open.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{connection::InFlightRequest, transport::PendingElicitation};

/// The maximum number of suspended calls of a connection.
const MAX_SUSPENDED_CALLS: usize = 256;

/// The suspended calls of a connection, by id. They end with the connection.
#[derive(Default)]
pub(crate) struct SuspendedCalls(Mutex<HashMap<String, SuspendedCall>>);

/// A suspended call with its open request. Dropping it cancels the elicitation and the request.
pub(crate) struct SuspendedCall {
    pub(crate) request: InFlightRequest,
    pub(crate) elicitation: PendingElicitation,
    /// The task that removes the call after the timeout.
    _expiry: AbortOnDropHandle<()>,
}

impl SuspendedCalls {
    /// Stores a call for up to `timeout`, or until `closed` is cancelled. Returns its random id.
    /// Returns
    /// `None` if too many calls are suspended. The call is then cancelled.
    ///
    /// Must be called in a tokio runtime.
    pub(crate) fn insert(
        self: &Arc<Self>,
        request: InFlightRequest,
        elicitation: PendingElicitation,
        timeout: Duration,
        closed: CancellationToken,
    ) -> Option<String> {
        let id = format!("{:032x}", fastrand::u128(..));
        // The task removes the call under the same lock, so not before it is inserted.
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() >= MAX_SUSPENDED_CALLS {
            return None;
        }
        let expiry = tokio::spawn(expire(Arc::downgrade(self), id.clone(), timeout, closed));
        let call = SuspendedCall { request, elicitation, _expiry: AbortOnDropHandle::new(expiry) };
        calls.insert(id.clone(), call);
        Some(id)
    }

    /// Removes and returns the call `id`. Returns `None` if the call is unknown, or if its timeout
    /// has elapsed.
    pub(crate) fn remove(&self, id: &str) -> Option<SuspendedCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }
}

/// Removes the call `id` after `timeout`, or when the connection is closed.
async fn expire(calls: Weak<SuspendedCalls>, id: String, timeout: Duration, closed: CancellationToken) {
    let _ = closed.run_until_cancelled(sleep(timeout)).await;
    if let Some(calls) = calls.upgrade() {
        drop(calls.remove(&id));
    }
}
