use std::sync::Arc;

use haft_core::{
    Pipeline, ToolCall, ToolResult,
    pipeline::{Batch, CallOutcome},
    tool::{Progress, ProgressSink, RunContext},
    toolset::ToolList,
};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many reports wait to be sent; more are dropped.
const WAITING_REPORTS: usize = 16;

/// Runs a call through the pipeline, on a task of its own. Its progress is told until the client has `ended`.
pub(super) async fn run(
    pipeline: &Pipeline,
    tools: ToolList,
    call: ToolCall,
    cx: RequestContext<RoleServer>,
    ended: &CancellationToken,
) -> Option<ToolResult> {
    let (reports, progress) = reports(cx.meta.get_progress_token());
    let run = RunContext { cancellation: cx.ct.clone(), progress: reports, ..RunContext::default() };
    let batch = Batch { tools, calls: vec![call], run: Arc::new(run), ..Batch::default() };
    let done = CancellationToken::new();
    let running = async {
        let outcomes = pipeline.call_all(batch).await;
        done.cancel();
        outcomes
    };
    // After the end of the input rmcp sends answers only.
    let telling = ended.run_until_cancelled(tell(&cx.peer, progress, &done));
    let (outcomes, _) = tokio::join!(running, telling);
    outcomes.into_iter().next().map(CallOutcome::into_result)
}

/// Tells the client what is reported until the call is done, and what was reported before that.
async fn tell(
    client: &Peer<RoleServer>,
    mut progress: mpsc::Receiver<ProgressNotificationParam>,
    done: &CancellationToken,
) {
    loop {
        let report = tokio::select! {
            biased;
            report = progress.recv() => report,
            () = done.cancelled() => None,
        };
        let Some(report) = report else { return };
        // A client that is gone needs no report.
        let _ = client.notify_progress(report).await;
    }
}

/// Takes reports to the client that asked for them.
struct Reports {
    token: ProgressToken,
    sender: mpsc::Sender<ProgressNotificationParam>,
}

fn reports(
    token: Option<ProgressToken>,
) -> (Option<Arc<dyn ProgressSink>>, mpsc::Receiver<ProgressNotificationParam>) {
    let (sender, receiver) = mpsc::channel(WAITING_REPORTS);
    let sink = token.map(|token| Arc::new(Reports { token, sender }) as Arc<dyn ProgressSink>);
    (sink, receiver)
}

impl ProgressSink for Reports {
    fn report(&self, _call_id: &str, progress: Progress) {
        let mut report = ProgressNotificationParam::new(self.token.clone(), progress.progress);
        (report.total, report.message) = (progress.total, progress.message);
        let _ = self.sender.try_send(report);
    }
}
