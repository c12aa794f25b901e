use haft_core::tool::Progress;
use rmcp::model::{
    ClientRequest, GetExtensions as _, GetMeta as _, ProgressNotificationParam, ProgressToken,
};
use tokio::sync::mpsc;

/// The maximum number of queued progress reports per request. Further reports are dropped while the
/// queue is full.
const PROGRESS_CAPACITY: usize = 16;

/// Subscribes to the progress notifications of `request`. Returns a receiver for the reports.
///
/// Must be called before `request` is sent, because the first notification may arrive immediately.
/// Reports are queued before the response is delivered, unless the queue is full.
pub(crate) fn subscribe_to_progress(request: &mut ClientRequest) -> mpsc::Receiver<Progress> {
    let (sender, reports) = mpsc::channel(PROGRESS_CAPACITY);
    request.extensions_mut().insert(ProgressSender(sender));
    reports
}

/// The sender of the progress reports of a [`ClientRequest`]. It is an extension of the request, so
/// it is not serialized. The transport reads the extension when it sends the request.
#[derive(Clone)]
struct ProgressSender(mpsc::Sender<Progress>);

/// The recipient of the progress reports of an open request.
pub(crate) struct ProgressForwarder {
    token: ProgressToken,
    sender: mpsc::Sender<Progress>,
}

impl ProgressForwarder {
    pub(crate) fn from_request(request: &ClientRequest) -> Option<Self> {
        let ProgressSender(sender) = request.extensions().get()?;
        Some(Self { token: request.get_meta().get_progress_token()?, sender: sender.clone() })
    }

    #[cfg(feature = "http")]
    pub(crate) fn token(&self) -> &ProgressToken {
        &self.token
    }

    /// Returns `true` if the request has ended.
    #[cfg(feature = "http")]
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Forwards `report` if its progress token belongs to the open request.
    pub(crate) fn forward(&self, report: &ProgressNotificationParam) {
        if report.progress_token == self.token {
            let ProgressNotificationParam { progress, total, message, .. } = report;
            let _ = self.sender.try_send(Progress {
                progress: *progress,
                total: *total,
                message: message.clone(),
            });
        }
    }
}
