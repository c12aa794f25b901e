//! Runs that no process continues.

use haft_core::tool::RunContext;
use haft_session::StoreError;

use super::{StoredAgent, StoredRunError};

impl StoredAgent {
    /// Continues the active runs whose processes have ended, again and again. `context` returns the
    /// context for a tenant. Runs until it is dropped.
    pub async fn keep_abandoned_running(&self, context: impl Fn(&str) -> RunContext) {
        loop {
            match self.continue_abandoned(&context).await {
                Ok(0) => {}
                Ok(runs) => tracing::info!(runs, "runs of an earlier process continue"),
                Err(error) => tracing::warn!(%error, "the runs of earlier processes are not continued"),
            }
            tokio::time::sleep(self.0.lease).await;
        }
    }

    /// Continues the active runs whose processes have ended, and the runs that wait although there
    /// is a decision. `context` returns the context for a tenant. Returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub async fn continue_abandoned(
        &self,
        context: impl Fn(&str) -> RunContext,
    ) -> Result<usize, StoredRunError> {
        let mut continued = 0;
        for (tenant, run) in self.0.store.abandoned_runs(u32::MAX).await? {
            // After a sleep of the machine, the lease of a run of this process can have ended.
            if self.0.live.get(&tenant, &run).is_some() {
                continue;
            }
            match self.resume(&tenant, &run, context(&tenant)).await {
                Ok(()) => continued += 1,
                // Another process was faster.
                Err(StoredRunError::Store(StoreError::Owned { .. } | StoreError::RunOver(_))) => {}
                // The next attempt or another process continues the rest.
                Err(StoredRunError::Overloaded | StoredRunError::ShuttingDown) => break,
                Err(error) => tracing::warn!(run, %error, "an abandoned run cannot be continued"),
            }
        }
        Ok(continued)
    }
}
