use std::{pin::pin, sync::Arc};

use haft_core::{
    Batch, CallOutcome, Pipeline, Progress, ProgressSink, ResumedCalls, RunContext, ToolCall, ToolDefinition,
    ToolList,
};
use rmcp::{
    Peer, RoleServer,
    model::{CallToolRequestParams, CallToolResult, ErrorData, ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::content;

/// How many reports wait to be sent; more are dropped.
const WAITING_REPORTS: usize = 16;

/// Runs a call through the pipeline, on a task of its own.
pub(super) async fn answer(
    pipeline: &Pipeline,
    tools: ToolList,
    request: CallToolRequestParams,
    cx: RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let Some(tool) = tools.get(&request.name) else {
        return Err(ErrorData::invalid_params(format!("unknown tool: {}", request.name), None));
    };
    let definition: ToolDefinition = tool.definition().clone();
    let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
    let call = ToolCall::new(cx.id.to_string(), request.name, arguments);
    let (reports, mut progress) = reports(cx.meta.get_progress_token());
    let run = RunContext { cancellation: cx.ct.clone(), progress: reports, ..RunContext::default() };
    let batch = Batch { tools, calls: vec![call], resumed: ResumedCalls::default(), run: Arc::new(run) };
    let mut running = pin!(pipeline.call_all(batch));
    let outcomes = loop {
        tokio::select! {
            biased;
            Some(report) = progress.recv() => send(&cx.peer, report).await,
            outcomes = &mut running => break outcomes,
        }
    };
    while let Ok(report) = progress.try_recv() {
        send(&cx.peer, report).await;
    }
    let result = outcomes.into_iter().next().map(CallOutcome::into_result);
    let result = result.ok_or_else(|| ErrorData::internal_error("the call has no outcome", None))?;
    Ok(content::written(&definition, result))
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

async fn send(client: &Peer<RoleServer>, report: ProgressNotificationParam) {
    // A client that is gone needs no report.
    let _ = client.notify_progress(report).await;
}
