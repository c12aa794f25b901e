//! Tasks: a server responds to a call with the handle of a task, which the client polls until its
//! result (extension `io.modelcontextprotocol/tasks` of MCP 2026-07-28).

mod cancel_on_drop;

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use haft_core::{ToolError, text::without_hidden_chars, tool::Progress};
use rmcp::model::{
    ClientRequest, ErrorData, GetTaskParams, GetTaskRequest, UpdateTaskParams, UpdateTaskRequest,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use self::cancel_on_drop::CancelOnDrop;
use super::call::{Continuation, Exchange, McpCall, suspended};
use crate::{connection::RequestError, input_round::InputRound};

/// The time between two polls if the server suggests none.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The bounds of the time between two polls.
const POLL_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);
/// The maximum number of attempts to send a request about a task, for example while the server
/// restarts, or while it limits the rate.
const MAX_ATTEMPTS: u32 = 4;

/// A task of a server. It is saved with a suspended call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    id: String,
    /// The keys of the input requests that have a response.
    answered: BTreeSet<String>,
    /// The number of rounds of input so far.
    rounds: u32,
}

/// The state of a task, in the result of `tools/call` or `tasks/get`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskState {
    task_id: String,
    status: TaskStatus,
    status_message: Option<String>,
    poll_interval_ms: Option<u64>,
    #[serde(default)]
    input_requests: Value,
    result: Option<Value>,
    #[serde(default)]
    error: Value,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl TaskState {
    fn poll_interval(&self) -> Duration {
        let interval = self.poll_interval_ms.map_or(DEFAULT_POLL_INTERVAL, Duration::from_millis);
        interval.clamp(*POLL_INTERVAL.start(), *POLL_INTERVAL.end())
    }
}

impl McpCall<'_> {
    /// Polls the task in `created`, the result of `tools/call`, until its end.
    pub(super) async fn run_task(&self, created: &Value) -> Result<Exchange, ToolError> {
        let state = parse(created)?;
        let task = Task { id: state.task_id.clone(), answered: BTreeSet::new(), rounds: 0 };
        let mut running = RunningTask::new(self, task);
        running.report(&state);
        running.wait_for_end(state.poll_interval()).await
    }

    /// Continues the suspended `task` with the responses in `round`.
    pub(super) async fn resume_task(&self, task: Task, round: InputRound) -> Result<Exchange, ToolError> {
        let mut running = RunningTask::new(self, task);
        match running.send_input(round).await? {
            Some(suspended) => Ok(suspended),
            None => running.wait_for_end(*POLL_INTERVAL.start()).await,
        }
    }
}

/// A task that is polled. Dropping it before the end of the task sends `tasks/cancel`.
struct RunningTask<'a> {
    call: &'a McpCall<'a>,
    task: Task,
    cancellation: CancelOnDrop,
    /// The number of progress reports.
    reports: u32,
    status_message: Option<String>,
}

impl<'a> RunningTask<'a> {
    fn new(call: &'a McpCall<'a>, task: Task) -> Self {
        let cancellation = CancelOnDrop::new(call.tool.handle.clone(), task.id.clone(), call.data.clone());
        Self { call, task, cancellation, reports: 0, status_message: None }
    }

    /// Polls the task until its end, the first time after `interval`. Passes input requests to the
    /// handler of elicitations, or suspends the call.
    async fn wait_for_end(mut self, mut interval: Duration) -> Result<Exchange, ToolError> {
        loop {
            sleep(interval).await;
            let id = self.task.id.clone();
            let get = || ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id.clone())));
            let state = parse(&self.request(get).await?)?;
            interval = state.poll_interval();
            self.report(&state);
            match state.status {
                TaskStatus::Working => {}
                TaskStatus::InputRequired => {
                    let requests = &state.input_requests;
                    let round = InputRound::from_task(requests, self.task.rounds, &self.task.answered);
                    if let Some(round) = round.map_err(unconfirmed)? {
                        if let Some(suspended) = self.send_input(round).await? {
                            return Ok(suspended);
                        }
                        interval = *POLL_INTERVAL.start();
                    }
                }
                TaskStatus::Completed => {
                    self.cancellation.disarm();
                    let result = state.result.map(Exchange::Result);
                    return result.ok_or_else(|| unconfirmed("the completed task has no result".to_owned()));
                }
                TaskStatus::Failed => {
                    self.cancellation.disarm();
                    let error = ErrorData::deserialize(&state.error)
                        .unwrap_or_else(|_| ErrorData::internal_error(state.error.to_string(), None));
                    return Err(self.call.tool.to_tool_error(RequestError::Rejected(error)));
                }
                TaskStatus::Cancelled => {
                    self.cancellation.disarm();
                    let reason = state.status_message.map(|text| format!(": {text}")).unwrap_or_default();
                    let reason = without_hidden_chars(&reason);
                    let message = format!("the server cancelled the task{reason}");
                    return Err(ToolError::Failed { message, source: None });
                }
            }
        }
    }

    /// Passes the open elicitations of `round` to the handler, and sends the responses with
    /// `tasks/update`. Returns the suspended call if there is no handler.
    async fn send_input(&mut self, mut round: InputRound) -> Result<Option<Exchange>, ToolError> {
        self.task.rounds = round.number();
        let handle = &self.call.tool.handle;
        while let Some(elicitation) = round.next_elicitation().cloned() {
            let Some(handler) = handle.wait_for_connection().await?.elicitation_handler() else {
                let continuation = Continuation::Task { task: self.task.clone(), round };
                self.cancellation.disarm();
                return suspended(&elicitation, &continuation, handle.label()).map(Some);
            };
            let response = handler.respond(elicitation).await;
            round.respond(response)?;
        }
        let (id, responses) = (self.task.id.clone(), round.into_responses());
        let keys: Vec<_> = responses.keys().cloned().collect();
        let update = || {
            let params = UpdateTaskParams::new(id.clone(), responses.clone());
            ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params))
        };
        self.request(update).await?;
        self.task.answered.extend(keys);
        Ok(None)
    }

    /// Sends the request of `build`. These requests can be repeated, so it is sent again after the
    /// loss of the connection.
    async fn request(&mut self, build: impl Fn() -> ClientRequest) -> Result<Value, ToolError> {
        let McpCall { tool, cx, .. } = self.call;
        let mut attempt = 1;
        loop {
            let sent = async {
                let connection = tool.handle.wait_for_connection().await.map_err(RequestFault::Call)?;
                let data = connection.call_data(&tool.original_name, cx).await.map_err(RequestFault::Call)?;
                let mut request = build();
                if let Some(data) = &data {
                    data.add_to(&mut request);
                }
                self.cancellation.set_data(data);
                connection.request(request).await.map_err(RequestFault::Request)
            };
            match sent.await {
                Ok(result) => return Ok(result),
                Err(fault) if attempt < MAX_ATTEMPTS && fault.is_transient() && !tool.handle.is_closed() => {
                    sleep(DEFAULT_POLL_INTERVAL * attempt).await;
                    attempt += 1;
                }
                Err(fault) => return Err(unconfirmed(fault.to_string())),
            }
        }
    }

    /// Reports the status message of `state` as progress, if it has changed.
    fn report(&mut self, state: &TaskState) {
        let message = state.status_message.as_deref().map(|text| without_hidden_chars(text).into_owned());
        if message.is_some() && message != self.status_message {
            self.reports += 1;
            let progress =
                Progress { progress: f64::from(self.reports), total: None, message: message.clone() };
            self.call.cx.report_progress(progress);
            self.status_message = message;
        }
    }
}

/// The fault of a request about a task.
#[derive(Debug, thiserror::Error)]
enum RequestFault {
    /// There is no connection, or the data of the call is not available.
    #[error(transparent)]
    Call(ToolError),
    #[error(transparent)]
    Request(RequestError),
}

impl RequestFault {
    /// Returns `true` if the same request may succeed later.
    fn is_transient(&self) -> bool {
        match self {
            Self::Call(error) => matches!(error, ToolError::Failed { .. }),
            #[cfg(feature = "http")]
            Self::Request(RequestError::Refused(_)) => true,
            Self::Request(error) => {
                matches!(error, RequestError::NotSent | RequestError::Lost | RequestError::IdleTimeout(_))
            }
        }
    }
}

fn parse(state: &Value) -> Result<TaskState, ToolError> {
    TaskState::deserialize(state).map_err(|error| unconfirmed(format!("invalid task: {error}")))
}

/// Creates the error for a task whose result is unknown. The call has begun.
fn unconfirmed(reason: String) -> ToolError {
    let reason = without_hidden_chars(&reason);
    ToolError::Unconfirmed(format!("the result of the task is unknown: {reason}"))
}
