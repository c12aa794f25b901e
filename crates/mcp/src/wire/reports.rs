use haft_core::tool::Progress;
use rmcp::model::{
    ClientRequest, GetExtensions as _, GetMeta as _, ProgressNotificationParam, ProgressToken,
};
use tokio::sync::mpsc;

/// How many reports of one call wait for it; more are dropped, the next says more anyway.
const WAITING: usize = 16;

/// Asks the wire for the progress of a request, before it is sent: the first report may come at once. All reports
/// come before the answer.
pub(crate) fn subscribe(request: &mut ClientRequest) -> mpsc::Receiver<Progress> {
    let (sender, reports) = mpsc::channel(WAITING);
    request.extensions_mut().insert(Wanted(sender));
    reports
}

/// Travels with a request as far as the wire, and no further.
#[derive(Clone)]
struct Wanted(mpsc::Sender<Progress>);

/// Whom to tell of the progress of a request that was sent.
pub(super) struct Subscriber {
    token: ProgressToken,
    sender: mpsc::Sender<Progress>,
}

impl Subscriber {
    pub(super) fn of(request: &ClientRequest) -> Option<Self> {
        let Wanted(sender) = request.extensions().get()?;
        Some(Self { token: request.get_meta().get_progress_token()?, sender: sender.clone() })
    }

    /// Takes a report, if it is of this request.
    pub(super) fn tell(&self, report: &ProgressNotificationParam) {
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
