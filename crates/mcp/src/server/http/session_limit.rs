use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

/// The maximum number of sessions.
pub(super) struct SessionLimit {
    max: usize,
    sessions: Arc<LocalSessionManager>,
    /// The number of requests in progress that may open a session.
    opening: AtomicUsize,
}

/// The permission to open a session. It is held until the session exists.
pub(super) struct OpeningSession<'a>(&'a SessionLimit);

impl SessionLimit {
    pub(super) fn new(max: usize, sessions: Arc<LocalSessionManager>) -> Self {
        Self { max, sessions, opening: AtomicUsize::new(0) }
    }

    /// Returns the permission to open a session, or `None` at the maximum number.
    pub(super) async fn open(&self) -> Option<OpeningSession<'_>> {
        // Counted before the sessions, so that concurrent requests cannot exceed the maximum.
        let opening = self.opening.fetch_add(1, Ordering::AcqRel);
        let permission = OpeningSession(self);
        let sessions = self.sessions.sessions.read().await.len();
        (sessions + opening < self.max).then_some(permission)
    }
}

impl Drop for OpeningSession<'_> {
    fn drop(&mut self) {
        self.0.opening.fetch_sub(1, Ordering::AcqRel);
    }
}
