//! A call to a tool of a server, with the elicitations before its result.

use std::{sync::Arc, time::Duration};

use haft_core::{
    ToolContext, ToolError,
    call::{Pending, ToolResponse},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use super::{McpTool, Operation, task::Task};
use crate::{
    call_data::CallData,
    connection::{Connection, InFlightRequest, RequestError, Step},
    elicitation::{Elicitation, ElicitationHandler, ElicitationResponse},
    input_round::{InputRound, invalid_content},
    transport::PendingElicitation,
};

/// The maximum number of attempts to send a call. Another attempt is made only if the previous one
/// failed before the call was written to the connection.
const MAX_SEND_ATTEMPTS: usize = 3;
/// The delay before a call is sent again, for each round without requests.
const ROUND_DELAY: Duration = Duration::from_millis(20);

/// A call in progress.
pub(super) struct McpCall<'a> {
    pub(super) tool: &'a McpTool,
    arguments: &'a Value,
    pub(super) cx: &'a ToolContext,
    /// The number of rounds of input so far.
    rounds: u32,
    /// The data of the latest request, if the program adds any.
    pub(super) data: Option<Arc<CallData>>,
}

/// The data that a suspended call needs when it is resumed.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Continuation {
    /// The request is open, and the server waits for the response (revisions up to 2025-11-25).
    OpenRequest { id: String },
    /// The request has ended, and is sent again with the responses (revision 2026-07-28).
    InputRequired(InputRound),
    /// A task waits for the responses (extension `io.modelcontextprotocol/tasks`).
    Task { task: Task, round: InputRound },
}

/// The end of an exchange with the server.
pub(super) enum Exchange {
    Result(Value),
    /// The server has created a task for the call.
    Task(Value),
    /// The server requests input, and the call is sent again with it.
    InputRequired(InputRound),
    /// The call is suspended.
    Suspended(Box<Pending>),
}

impl<'a> McpCall<'a> {
    pub(super) fn new(tool: &'a McpTool, arguments: &'a Value, cx: &'a ToolContext) -> Self {
        Self { tool, arguments, cx, rounds: 0, data: None }
    }

    /// Performs or resumes the call. Suspends it if the server sends an elicitation, and the source
    /// has no handler.
    pub(super) async fn run(&mut self) -> Result<ToolResponse, ToolError> {
        let saved = self.cx.continuation().filter(|saved| !saved.is_null());
        // The rare cases are boxed, so that they do not enlarge the future of every call.
        let mut exchange = match saved {
            None => self.send(None).await?,
            Some(saved) => Box::pin(self.resume(saved)).await?,
        };
        loop {
            exchange = match exchange {
                Exchange::Task(created) => Box::pin(self.run_task(&created)).await?,
                Exchange::Result(result) => return self.tool.convert(result),
                Exchange::Suspended(pending) => return Ok(ToolResponse::Pending(*pending)),
                Exchange::InputRequired(round) => Box::pin(self.send_with_input(round)).await?,
            }
        }
    }

    /// Continues the call with its state `saved` from a suspension.
    async fn resume(&mut self, saved: &Value) -> Result<Exchange, ToolError> {
        let continuation = Continuation::deserialize(saved).map_err(|error| {
            // The call has begun, so it is not sent again.
            ToolError::Unconfirmed(format!("the saved state of the call is invalid: {error}"))
        })?;
        match continuation {
            Continuation::OpenRequest { id } => self.resume_request(&id).await,
            Continuation::InputRequired(mut round) => {
                self.rounds = round.number();
                round.respond(self.decision())?;
                Ok(Exchange::InputRequired(round))
            }
            Continuation::Task { task, mut round } => {
                round.respond(self.decision())?;
                self.resume_task(task, round).await
            }
        }
    }

    /// Sends the call and waits for the end of the exchange. `round` has the responses to
    /// elicitations.
    async fn send(&mut self, round: Option<&InputRound>) -> Result<Exchange, ToolError> {
        for _ in 0..MAX_SEND_ATTEMPTS {
            let connection = self.tool.handle.wait_for_tool(self.tool.definition.name()).await?;
            if let Some(exchange) = self.attempt(&connection, round).await? {
                return Ok(exchange);
            }
            connection.wait_until_closed().await;
        }
        Err(self.tool.to_tool_error(RequestError::NotSent))
    }

    /// Sends the call over `connection`, and waits for the end of the exchange. Returns `None` if
    /// the request was not written.
    async fn attempt(
        &mut self,
        connection: &Connection,
        round: Option<&InputRound>,
    ) -> Result<Option<Exchange>, ToolError> {
        let McpTool { original_name, operation, .. } = self.tool;
        self.data = connection.call_data(original_name, self.cx).await?;
        let build = || {
            let mut request = operation.request(original_name, self.arguments, round);
            if let Some(data) = &self.data {
                data.add_to(&mut request);
            }
            request
        };
        let open = match connection.send(build).await {
            Ok(open) => open,
            Err(RequestError::NotSent) => return Ok(None),
            Err(error) => return Err(self.tool.to_tool_error(error)),
        };
        match self.exchange(open, connection.elicitation_handler()).await {
            Err(ExchangeError::Request(RequestError::NotSent)) => Ok(None),
            Ok(Exchange::Result(mut result)) => {
                operation.end_list(&mut result, self.arguments, connection.has_empty_cursors());
                Ok(Some(Exchange::Result(result)))
            }
            exchange => exchange.map(Some).map_err(|error| self.to_tool_error(error)),
        }
    }

    /// Sends the response to the elicitation of the suspended call `id`, and waits for the end of
    /// the exchange.
    async fn resume_request(&self, id: &str) -> Result<Exchange, ToolError> {
        let connection = self.tool.handle.wait_for_connection().await?;
        let Some((open, pending)) = connection.take_suspended(id) else {
            let label = self.tool.handle.label();
            let reason = format!("{label} no longer waits for the input: the call was cancelled");
            return Err(ToolError::Unconfirmed(reason));
        };
        let response = pending.elicitation.encode(self.decision()).map_err(invalid_content)?;
        // The server may have cancelled the elicitation. It then returns a result, or an error.
        let _ = pending.response.send(response);
        let exchange = self.exchange(open, connection.elicitation_handler()).await;
        exchange.map_err(|error| self.to_tool_error(error))
    }

    /// Waits for the result of `open`. Passes elicitations to `handler`, or suspends the call.
    async fn exchange(
        &self,
        mut open: InFlightRequest,
        handler: Option<ElicitationHandler>,
    ) -> Result<Exchange, ExchangeError> {
        let result = loop {
            match open.next_step(|progress| self.cx.report_progress(progress)).await {
                Ok(Step::Response(result)) => break result,
                Ok(Step::Elicitation(elicitation)) => match &handler {
                    Some(handler) => {
                        if let Some(result) = Box::pin(respond(handler, elicitation, &mut open)).await? {
                            break result;
                        }
                    }
                    None => return suspend(open, elicitation, self.tool.handle.label()),
                },
                Err(RequestError::Rejected(error)) => {
                    if let Some(result) = self.tool.operation.result_for_error(&error) {
                        break result;
                    }
                    return match InputRound::from_error(&error, self.rounds) {
                        Some(round) => Ok(Exchange::InputRequired(round)),
                        None => Err(RequestError::Rejected(error).into()),
                    };
                }
                Err(error) => return Err(error.into()),
            }
        };
        match result.get("resultType").and_then(Value::as_str) {
            Some("input_required") => InputRound::parse(&result, self.rounds)
                .map(Exchange::InputRequired)
                .map_err(|reason| RequestError::InvalidResponse(reason).into()),
            Some("task") if self.tool.operation == Operation::CallTool => Ok(Exchange::Task(result)),
            _ => Ok(Exchange::Result(result)),
        }
    }

    /// Passes the elicitations of `round` to the handler, and sends the call with the responses.
    /// Suspends the call if there is no handler.
    async fn send_with_input(&mut self, mut round: InputRound) -> Result<Exchange, ToolError> {
        self.rounds = round.number();
        if round.has_no_requests() {
            sleep(ROUND_DELAY * self.rounds).await;
        }
        while let Some(elicitation) = round.next_elicitation().cloned() {
            let Some(handler) = self.tool.handle.wait_for_connection().await?.elicitation_handler() else {
                let label = self.tool.handle.label();
                return suspended(&elicitation, &Continuation::InputRequired(round), label);
            };
            let response = handler.respond(elicitation).await;
            round.respond(response)?;
        }
        self.send(Some(&round)).await
    }

    /// Returns the response to the elicitation of the resumed call.
    fn decision(&self) -> ElicitationResponse {
        self.cx.decision().map_or(ElicitationResponse::Cancel, ElicitationResponse::from_decision)
    }

    fn to_tool_error(&self, error: ExchangeError) -> ToolError {
        match error {
            ExchangeError::Request(error) => self.tool.to_tool_error(error),
            ExchangeError::Input(error) => error,
        }
    }
}

/// The error of an exchange.
enum ExchangeError {
    Request(RequestError),
    /// The server requests invalid input, or the input is invalid.
    Input(ToolError),
}

impl From<RequestError> for ExchangeError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

/// Passes `pending` to `handler`, and sends its response. The future of the handler is dropped if
/// the server cancels the elicitation, or if the result of `open` arrives. Returns this result.
async fn respond(
    handler: &ElicitationHandler,
    mut pending: PendingElicitation,
    open: &mut InFlightRequest,
) -> Result<Option<Value>, ExchangeError> {
    let response = tokio::select! {
        response = handler.respond(pending.elicitation.clone()) => response,
        () = pending.response.closed() => return Ok(None),
        result = open.response() => return Ok(Some(result?)),
    };
    let response = pending.elicitation.encode(response);
    let response = response.map_err(|reason| ExchangeError::Input(invalid_content(reason)))?;
    let _ = pending.response.send(response);
    Ok(None)
}

/// Suspends the call of `open` until `pending` has a response.
fn suspend(
    open: InFlightRequest,
    pending: PendingElicitation,
    label: &str,
) -> Result<Exchange, ExchangeError> {
    let elicitation = pending.elicitation.clone();
    let Some(id) = open.suspend(pending) else {
        let message = "too many calls of the server wait for input".to_owned();
        return Err(ExchangeError::Input(ToolError::Failed { message, source: None }));
    };
    suspended(&elicitation, &Continuation::OpenRequest { id }, label).map_err(ExchangeError::Input)
}

/// Creates the pending state of a call that waits for the response to `elicitation`.
pub(super) fn suspended(
    elicitation: &Elicitation,
    continuation: &Continuation,
    label: &str,
) -> Result<Exchange, ToolError> {
    let continuation = serde_json::to_value(continuation)
        .map_err(|error| ToolError::Fatal(format!("the call cannot be suspended: {error}")))?;
    let pending = Pending::new(elicitation.pending_kind(label)).with_continuation(continuation);
    Ok(Exchange::Suspended(Box::new(pending.with_denial_handling())))
}
