use std::{sync::Arc, time::Duration};

use rmcp::model::{CancelTaskParams, CancelTaskRequest, ClientRequest};
use tokio::{runtime::Handle, time::timeout};

use crate::{call_data::CallData, connection_handle::ConnectionHandle};

/// The maximum time for sending `tasks/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The cancellation of a task. Dropping it sends `tasks/cancel`, unless it is disarmed.
pub(super) struct CancelOnDrop(Option<Armed>);

struct Armed {
    handle: ConnectionHandle,
    task_id: String,
    /// The data of the latest request about the task, for example the token of its user.
    data: Option<Arc<CallData>>,
}

impl CancelOnDrop {
    pub(super) fn new(handle: ConnectionHandle, task_id: String, data: Option<Arc<CallData>>) -> Self {
        Self(Some(Armed { handle, task_id, data }))
    }

    pub(super) fn set_data(&mut self, data: Option<Arc<CallData>>) {
        if let Some(armed) = &mut self.0 {
            armed.data = data;
        }
    }

    /// Prevents the cancellation: the task has ended, or its call is suspended.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(Armed { handle, task_id, data }) = self.0.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let mut request =
            ClientRequest::CancelTaskRequest(CancelTaskRequest::new(CancelTaskParams::new(task_id)));
        if let Some(data) = data {
            data.add_to(&mut request);
        }
        // The task ends after the timeout, or with the connection.
        runtime.spawn(timeout(CANCEL_TIMEOUT, async move {
            let connection = handle.wait_for_connection().await.ok()?;
            connection.request(request).await.ok()
        }));
    }
}
