use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rmcp::model::RequestId;

/// The maximum number of requests that are known. The oldest one is forgotten first.
const MAX_REQUESTS: usize = 256;

/// The requests whose session the server did not know.
///
/// rmcp opens the session again after the first such response and repeats the request, with the
/// same id. The second such response is the response to the request.
#[derive(Default)]
pub(super) struct ForgottenSessions {
    requests: Mutex<VecDeque<RequestId>>,
    is_open: AtomicBool,
}

impl ForgottenSessions {
    /// Records a response about the session to the request `id`. Returns `true` for the first one.
    pub(super) fn record(&self, id: &RequestId) -> bool {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(position) = requests.iter().position(|known| known == id) {
            requests.remove(position);
            return false;
        }
        if requests.len() >= MAX_REQUESTS {
            requests.pop_front();
        }
        requests.push_back(id.clone());
        true
    }

    /// Records that `initialize` has succeeded.
    pub(super) fn set_open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if `initialize` has succeeded before.
    pub(super) fn was_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}
