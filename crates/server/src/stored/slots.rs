//! The bound of the runs in progress.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::InProgress;

/// The default maximum number of runs that a process drives at once.
pub(crate) const MAX_RUNS: usize = 512;

/// The bound and the count of the runs in progress.
#[derive(Clone, Debug)]
pub(crate) struct RunSlots {
    /// A permit for each run and each direct call in progress.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) active: Option<InProgress>,
}

impl RunSlots {
    /// Takes a permit. `None` if there is none.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).try_acquire_owned().ok()
    }
}
