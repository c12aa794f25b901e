use std::sync::Arc;

use haft_core::{
    Pipeline, ToolCall,
    call::ResumedCall,
    pipeline::{Batch, BatchCall, CallOutcome},
    tool::{HostState, Principal, Progress, ProgressSink, RunContext},
    toolset::ToolList,
};
use rmcp::{
    Peer, RoleServer,
    model::{Extensions, ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::gateway::TraceContext;

/// The maximum number of queued progress reports per call. If the queue is full, new reports are
/// dropped.
const PROGRESS_BUFFER: usize = 16;

/// Returns a batch with `call`, which acts for `principal`. `resumed` is the decision about a call
/// that was suspended.
pub(super) fn batch(
    tools: ToolList,
    call: ToolCall,
    resumed: Option<ResumedCall>,
    principal: Option<Principal>,
) -> Batch {
    let run_context = Arc::new(RunContext { principal, ..RunContext::default() });
    let call = BatchCall { resumed, ..BatchCall::new(call) };
    Batch { run_context, ..Batch::new(tools, [call]) }
}

/// Runs the call in `batch` through `pipeline` and returns its outcome. Progress reports are sent
/// to the client until the input of the server ends.
pub(super) async fn run_batch(
    pipeline: &Pipeline,
    mut batch: Batch,
    cx: &RequestContext<RoleServer>,
    input_closed: &CancellationToken,
) -> Option<CallOutcome> {
    let (sink, reports) = progress_channel(cx.meta.get_progress_token());
    let run = Arc::make_mut(&mut batch.run_context);
    (run.cancellation, run.progress) = (cx.ct.clone(), sink);
    let state = HostState::new().with_value(cx.peer.clone());
    run.state = match TraceContext::from_meta(&cx.meta.0) {
        Some(trace) => state.with_value(trace),
        None => state,
    };
    let done = CancellationToken::new();
    let running = async {
        let outcomes = pipeline.call_all(batch).await;
        done.cancel();
        outcomes
    };
    // After the end of the input, rmcp sends only responses, so forwarding stops.
    let forwarding = input_closed.run_until_cancelled(forward_progress(&cx.peer, reports, &done));
    let (outcomes, _) = tokio::join!(running, forwarding);
    outcomes.into_iter().next()
}

/// Returns the principal of the HTTP request with `extensions`. `None` over standard input and
/// output, and without authentication.
pub(super) fn http_principal(extensions: &Extensions) -> Option<Principal> {
    #[cfg(feature = "http-server")]
    {
        extensions.get::<::http::request::Parts>()?.extensions.get().cloned()
    }
    #[cfg(not(feature = "http-server"))]
    {
        let _ = extensions;
        None
    }
}

/// Forwards the progress reports in `reports` to `client` until the call is done and the queue is
/// empty.
async fn forward_progress(
    client: &Peer<RoleServer>,
    mut reports: mpsc::Receiver<ProgressNotificationParam>,
    done: &CancellationToken,
) {
    loop {
        let report = tokio::select! {
            biased;
            report = reports.recv() => report,
            () = done.cancelled() => None,
        };
        let Some(report) = report else { return };
        // Sending fails only if the connection is closed.
        let _ = client.notify_progress(report).await;
    }
}

/// A progress sink that queues the reports of one call. `token` is the progress token of the MCP
/// request.
struct ChannelSink {
    token: ProgressToken,
    sender: mpsc::Sender<ProgressNotificationParam>,
}

fn progress_channel(
    token: Option<ProgressToken>,
) -> (Option<Arc<dyn ProgressSink>>, mpsc::Receiver<ProgressNotificationParam>) {
    let (sender, receiver) = mpsc::channel(PROGRESS_BUFFER);
    let sink = token.map(|token| Arc::new(ChannelSink { token, sender }) as Arc<dyn ProgressSink>);
    (sink, receiver)
}

impl ProgressSink for ChannelSink {
    fn report(&self, _call_id: &str, progress: Progress) {
        let mut report = ProgressNotificationParam::new(self.token.clone(), progress.progress);
        (report.total, report.message) = (progress.total, progress.message);
        let _ = self.sender.try_send(report);
    }
}
