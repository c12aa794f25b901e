//! A call to a tool of a server, with the questions that the server asks until it returns a result.

use std::time::Duration;

use haft_core::{
    ToolContext, ToolError,
    call::{Pending, ToolResponse},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::sleep;

use super::McpTool;
use crate::{
    connection::{InFlightRequest, RequestError, Step},
    elicitation::{Elicitation, ElicitationHandler, ElicitationResponse},
    input_round::InputRound,
    result,
    transport::PendingElicitation,
};

/// The maximum number of attempts to send a call. Another attempt is made only if the previous one
/// failed before the call was written to the connection.
const MAX_SEND_ATTEMPTS: usize = 3;
/// The delay before a call is sent again, for each round without questions.
const ROUND_DELAY: Duration = Duration::from_millis(20);

/// A call in progress.
pub(super) struct Call<'a> {
    tool: &'a McpTool,
    arguments: &'a Value,
    cx: &'a ToolContext,
    /// The number of rounds of input so far.
    rounds: u32,
}

/// The data that a suspended call needs when it is resumed.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Continuation {
    /// The request is open, and the server waits for the response (revisions up to 2025-11-25).
    OpenRequest { id: String },
    /// The request has ended, and is sent again with the responses (revision 2026-07-28).
    InputRequired(InputRound),
}

/// The end of an exchange with the server.
enum Exchange {
    Result(Value),
    /// The server requests input, and the call is sent again with it.
    InputRequired(InputRound),
    /// The call is suspended.
    Suspended(Box<Pending>),
}

impl<'a> Call<'a> {
    pub(super) fn new(tool: &'a McpTool, arguments: &'a Value, cx: &'a ToolContext) -> Self {
        Self { tool, arguments, cx, rounds: 0 }
    }

    /// Performs or resumes the call. Suspends it if the server asks a question, and the source has
    /// no handler.
    pub(super) async fn run(mut self) -> Result<ToolResponse, ToolError> {
        let saved = self.cx.continuation().filter(|saved| !saved.is_null());
        let continuation = saved.map(Continuation::deserialize).transpose().map_err(|error| {
            // The call has begun, so it is not sent again.
            ToolError::Unconfirmed(format!("the saved state of the call is invalid: {error}"))
        })?;
        let mut exchange = match continuation {
            None => self.send(None).await?,
            Some(Continuation::OpenRequest { id }) => self.resume(&id).await?,
            Some(Continuation::InputRequired(mut round)) => {
                self.rounds = round.number();
                round.respond(self.decision()).map_err(invalid_input)?;
                Exchange::InputRequired(round)
            }
        };
        loop {
            exchange = match exchange {
                Exchange::Result(result) => return result::convert_result(result),
                Exchange::Suspended(pending) => return Ok(ToolResponse::Pending(*pending)),
                Exchange::InputRequired(round) => self.send_with_input(round).await?,
            }
        }
    }

    /// Sends the call and waits for the end of the exchange. `round` has the responses to the
    /// questions of the server.
    async fn send(&self, round: Option<&InputRound>) -> Result<Exchange, ToolError> {
        for _ in 0..MAX_SEND_ATTEMPTS {
            let connection = self.tool.handle.wait_for_connection().await?;
            let request = self.tool.build_request(self.arguments, round);
            let exchange = match connection.send(request).await {
                Ok(open) => self.exchange(open).await,
                Err(error) => Err(Failure::Request(error)),
            };
            match exchange {
                Err(Failure::Request(RequestError::NotSent)) => connection.wait_until_closed().await,
                exchange => return exchange.map_err(|failure| self.to_tool_error(failure)),
            }
        }
        Err(self.tool.to_tool_error(RequestError::NotSent))
    }

    /// Sends the response to the question of the open request `id`, and waits for the end of the
    /// exchange.
    async fn resume(&self, id: &str) -> Result<Exchange, ToolError> {
        let connection = self.tool.handle.wait_for_connection().await?;
        let Some((open, question)) = connection.take_suspended(id) else {
            let label = self.tool.handle.label();
            let reason = format!("{label} no longer waits for the input: the call was cancelled");
            return Err(ToolError::Unconfirmed(reason));
        };
        let response = question.elicitation.encode(self.decision()).map_err(invalid_input)?;
        // The server may have cancelled the question. It then returns a result, or an error.
        let _ = question.response.send(response);
        self.exchange(open).await.map_err(|failure| self.to_tool_error(failure))
    }

    /// Waits for the result of `open`. Passes questions of the server to the handler.
    async fn exchange(&self, mut open: InFlightRequest) -> Result<Exchange, Failure> {
        loop {
            let result = match open.next_step(|progress| self.cx.report_progress(progress)).await {
                Ok(Step::Response(result)) => Some(result),
                Ok(Step::Elicitation(question)) => match open.elicitation_handler() {
                    Some(handler) => respond(&handler, question, &mut open).await?,
                    None => return suspend(open, question, self.tool.handle.label()),
                },
                Err(RequestError::Rejected(error)) => {
                    return match InputRound::from_error(&error, self.rounds) {
                        Some(round) => Ok(Exchange::InputRequired(round)),
                        None => Err(RequestError::Rejected(error).into()),
                    };
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(result) = result {
                return match result.get("resultType").and_then(Value::as_str) {
                    Some("input_required") => InputRound::parse(&result, self.rounds)
                        .map(Exchange::InputRequired)
                        .map_err(|reason| Failure::Input(self.invalid_request(&reason))),
                    _ => Ok(Exchange::Result(result)),
                };
            }
        }
    }

    /// Passes the questions of `round` to the handler, and sends the call with the responses.
    /// Suspends the call if there is no handler.
    async fn send_with_input(&mut self, mut round: InputRound) -> Result<Exchange, ToolError> {
        self.rounds = round.number();
        if round.has_no_requests() {
            sleep(ROUND_DELAY * self.rounds).await;
        }
        while let Some(question) = round.next_elicitation().cloned() {
            let Some(handler) = self.tool.handle.wait_for_connection().await?.elicitation_handler() else {
                let label = self.tool.handle.label();
                return suspended(&question, &Continuation::InputRequired(round), label);
            };
            let response = handler.respond(question).await;
            round.respond(response).map_err(invalid_input)?;
        }
        self.send(Some(&round)).await
    }

    /// Returns the response of the person who has decided about the suspended call.
    fn decision(&self) -> ElicitationResponse {
        self.cx.decision().map_or(ElicitationResponse::Cancel, ElicitationResponse::from_decision)
    }

    fn invalid_request(&self, reason: &str) -> ToolError {
        let message = format!("invalid response from {}: {reason}", self.tool.handle.label());
        ToolError::Failed { message, source: None }
    }

    fn to_tool_error(&self, failure: Failure) -> ToolError {
        match failure {
            Failure::Request(error) => self.tool.to_tool_error(error),
            Failure::Input(error) => error,
        }
    }
}

/// The error of an exchange.
enum Failure {
    Request(RequestError),
    /// The server requests invalid input, or the input is invalid.
    Input(ToolError),
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

fn invalid_input(reason: String) -> ToolError {
    ToolError::Failed { message: format!("invalid input for the server: {reason}"), source: None }
}

/// Passes `question` to `handler`, and sends its response. The future of the handler is dropped if
/// the server cancels the question, or if the result of `open` arrives. Returns this result.
async fn respond(
    handler: &ElicitationHandler,
    mut question: PendingElicitation,
    open: &mut InFlightRequest,
) -> Result<Option<Value>, Failure> {
    let response = tokio::select! {
        response = handler.respond(question.elicitation.clone()) => response,
        () = question.response.closed() => return Ok(None),
        result = open.response() => return Ok(Some(result?)),
    };
    let response = question.elicitation.encode(response);
    let response = response.map_err(|reason| Failure::Input(invalid_input(reason)))?;
    let _ = question.response.send(response);
    Ok(None)
}

/// Suspends the call of `open` until `question` has a response.
fn suspend(open: InFlightRequest, question: PendingElicitation, label: &str) -> Result<Exchange, Failure> {
    let elicitation = question.elicitation.clone();
    let Some(id) = open.suspend(question) else {
        let message = "too many calls of the server wait for input".to_owned();
        return Err(Failure::Input(ToolError::Failed { message, source: None }));
    };
    suspended(&elicitation, &Continuation::OpenRequest { id }, label).map_err(Failure::Input)
}

/// Creates the pending state of a call that waits for the response to `question`.
fn suspended(
    question: &Elicitation,
    continuation: &Continuation,
    label: &str,
) -> Result<Exchange, ToolError> {
    let continuation = serde_json::to_value(continuation)
        .map_err(|error| ToolError::Fatal(format!("the call cannot be suspended: {error}")))?;
    let pending = Pending::new(question.pending_kind(label)).with_continuation(continuation);
    Ok(Exchange::Suspended(Box::new(pending.with_denial_handling())))
}
