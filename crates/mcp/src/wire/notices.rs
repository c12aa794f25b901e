use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_core::Progress;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// How many reports of one call wait for it; more are dropped, the next says more anyway.
const WAITING_REPORTS: usize = 16;

/// What a server says without being asked, and that it is gone. Told by the wire itself, in order: reports
/// never come after the answer of their call.
#[derive(Default)]
pub(crate) struct Notices {
    calls: Mutex<HashMap<ProgressToken, mpsc::Sender<Progress>>>,
    /// The list of tools is another now.
    pub(crate) list_changed: Notify,
    /// The server closed its side.
    pub(crate) ended: CancellationToken,
}

impl Notices {
    /// Subscribes to the progress of one call.
    pub(crate) fn watch(&self, token: ProgressToken) -> Watch<'_> {
        let (sender, reports) = mpsc::channel(WAITING_REPORTS);
        self.calls().insert(token.clone(), sender);
        Watch { notices: self, token, reports }
    }

    pub(crate) fn progress(&self, report: ProgressNotificationParam) {
        if let Some(call) = self.calls().get(&report.progress_token) {
            let ProgressNotificationParam { progress, total, message, .. } = report;
            let _ = call.try_send(Progress { progress, total, message });
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<Progress>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A subscription to the progress of one call; ends when it is dropped.
pub(crate) struct Watch<'a> {
    notices: &'a Notices,
    token: ProgressToken,
    pub(crate) reports: mpsc::Receiver<Progress>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.notices.calls().remove(&self.token);
    }
}
