//! An MCP server for the tools of a toolset.

mod call;
mod definition;
#[cfg(feature = "http-server")]
pub(crate) mod http;
mod input;
mod result;

use std::{borrow::Cow, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt as _;
use haft_core::{
    ToolCall, Toolset,
    pipeline::CallOutcome,
    toolset::{ListContext, ToolList},
};
use rmcp::{
    RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestMethod, CallToolRequestParams, CallToolResponse, ConstString as _, CustomRequest,
        CustomResult, ErrorCode, ErrorData, Implementation, InputResponses, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, ServerResult,
    },
    service::{RequestContext, ServerInitializeError},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use self::input::{Question, States};
use crate::transport::ServerTransport;

/// An error from [`serve`] or [`serve_stdio`].
///
/// A client that closes the connection does not cause an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The first messages of the client are not valid in any supported protocol revision, or the
    /// response to them cannot be written.
    #[error("the MCP handshake failed")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The server task panicked or was aborted.
    #[error("the server ended unexpectedly")]
    TaskFailed(#[source] tokio::task::JoinError),
}

/// The time for calls in progress to finish after the end of the input. Unfinished calls are then
/// cancelled.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// The maximum number of questions that a call asks during a session.
const MAX_QUESTIONS: u32 = 10;

/// Serves `tools` over standard input and output until the input ends.
///
/// Supports protocol revision 2026-07-28, and revisions up to 2025-11-25.
///
/// Calls run through the pipeline of the toolset, which validates and repairs arguments, catches
/// panics and limits the size of results. If a call fails or panics, or if its arguments are
/// invalid, the client receives a result with `isError`. A call to an unknown tool returns a
/// JSON-RPC error. If the client sends `notifications/cancelled` for a call, the call is dropped
/// and no response is sent.
///
/// # Shutdown
///
/// After the end of the input, calls in progress have one second to finish before they are
/// cancelled. A client can therefore write a request, close its side of the connection and still
/// read the response.
///
/// Exit the process when the future completes, because a blocking thread of tokio may still be
/// waiting for standard input.
///
/// # Standard output
///
/// Standard output is reserved for MCP messages, so the program must not write to it. Write logs to
/// standard error.
///
/// # Errors
///
/// Fails if the handshake fails, or if the server task panics.
///
/// # Examples
///
/// ```no_run
/// use haft_core::{export::schemars::{self, JsonSchema}, tool_fn, Toolset};
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Add {
///     x: i64,
///     y: i64,
/// }
///
/// # async fn example() -> Result<(), haft_mcp::ServeError> {
/// let add = tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y });
/// let tools = Toolset::new().with_tool(add);
/// haft_mcp::serve_stdio(tools).await
/// # }
/// ```
pub async fn serve_stdio(tools: Toolset) -> Result<(), ServeError> {
    serve(tools, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves `tools` over the byte streams `reader` and `writer`. See [`serve_stdio`].
///
/// # Errors
///
/// Fails if the handshake fails, or if the server task panics.
pub async fn serve<R, W>(tools: Toolset, reader: R, writer: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let input_closed = CancellationToken::new();
    let server = Server::new(tools, input_closed.clone());
    let transport = ServerTransport::new(reader, writer, input_closed.clone());
    let service = match server.serve(transport).await {
        Ok(service) => service,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    let stop = service.cancellation_token();
    let mut served = pin!(service.waiting());
    let served = tokio::select! {
        served = &mut served => served,
        () = async { input_closed.cancelled().await; sleep(SHUTDOWN_GRACE).await } => {
            stop.cancel();
            served.await
        }
    };
    served.map(drop).map_err(ServeError::TaskFailed)
}

#[derive(Clone)]
struct Server {
    tools: Toolset,
    /// A token that is cancelled when the input of the server ends.
    input_closed: CancellationToken,
    /// The states of suspended calls. `None` if the system has no source of randomness. Calls of
    /// clients of revision 2026-07-28 are then not suspended.
    states: Option<States>,
}

/// The parameters of a call.
struct CallParams {
    name: String,
    arguments: String,
    input_responses: Option<InputResponses>,
    request_state: Option<String>,
}

impl Server {
    fn new(tools: Toolset, input_closed: CancellationToken) -> Self {
        Self { tools, input_closed, states: States::new() }
    }

    async fn list(&self) -> ToolList {
        self.tools.list(&ListContext::default()).await
    }

    async fn call(
        &self,
        params: CallParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let CallParams { name, arguments, input_responses, request_state } = params;
        let tools = catch_panic(self.list()).await?;
        let Some(tool) = tools.get(&name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
        };
        let definition = tool.definition().clone();
        let call = ToolCall::new(cx.id.to_string(), name, arguments);
        let mut resumed = match (&self.states, request_state) {
            (Some(states), Some(state)) => {
                let pending = states.open(&state, &call, call::principal(cx).as_ref())?;
                // Without an answer, the call begins again, and asks again.
                input::answer(input_responses).map(|answer| input::resume(pending, answer)).transpose()?
            }
            _ => None,
        };
        for _ in 0..MAX_QUESTIONS {
            let (tools, call, pipeline) = (tools.clone(), call.clone(), self.tools.pipeline());
            let running =
                call::run_call(pipeline, tools, call.clone(), resumed.take(), cx, &self.input_closed);
            let outcome = catch_panic(running).await?;
            let outcome = outcome.ok_or_else(|| ErrorData::internal_error("the call has no result", None))?;
            let question = match &outcome {
                CallOutcome::Pending(pending) if input::supports_forms(cx) => {
                    Question::new(&call, &pending.pending)
                }
                _ => None,
            };
            let (question, pending) = match (question, outcome) {
                (Some(question), CallOutcome::Pending(pending)) => (question, pending.pending),
                (_, outcome) => {
                    return Ok(result::encode_result(&definition, outcome.into_result()).into());
                }
            };
            if has_sessions(cx) {
                resumed = Some(input::resume(pending, question.ask(cx).await?)?);
            } else {
                let states = self.states.as_ref();
                let state = states.and_then(|it| it.seal(&pending, &call, call::principal(cx).as_ref()));
                let result = state.and_then(|state| question.into_result(state));
                let no_state = || ErrorData::internal_error("the call cannot be suspended", None);
                return result.map(CallToolResponse::from).ok_or_else(no_state);
            }
        }
        Err(ErrorData::internal_error(format!("the call asks more than {MAX_QUESTIONS} questions"), None))
    }
}

/// Returns `true` if the client uses a revision up to 2025-11-25. The server then sends requests to
/// the client while a call is open.
fn has_sessions(cx: &RequestContext<RoleServer>) -> bool {
    cx.protocol_version().is_none_or(|version| version.has_initialize())
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("haft", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = catch_panic(self.list()).await?;
        let tools = list.memoize::<Vec<rmcp::model::Tool>>(|list| {
            list.tools().iter().map(|tool| definition::encode_definition(tool.definition())).collect()
        });
        Ok(ListToolsResult::with_all_items(Arc::unwrap_or_clone(tools)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The pipeline accepts the arguments as JSON text, which it parses and repairs.
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let params = CallParams {
            name: request.name.into_owned(),
            arguments,
            input_responses: request.input_responses,
            request_state: request.request_state,
        };
        self.call(params, &cx).await
    }

    /// Handles `tools/call` requests that rmcp cannot parse, for example if `arguments` is a list.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        cx: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        if method != CallToolRequestMethod::VALUE {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        let field = |key| params.as_ref().and_then(|params| params.get(key));
        let Some(name) = field("name").and_then(Value::as_str) else {
            return Err(ErrorData::invalid_params("`tools/call` without `name`", None));
        };
        // The pipeline repairs the arguments or rejects them with an error for the model.
        let arguments = field("arguments").unwrap_or(&Value::Null).to_string();
        let params =
            CallParams { name: name.to_owned(), arguments, input_responses: None, request_state: None };
        let mut response = self.call(params, &cx).await?;
        if let CallToolResponse::Complete(result) = &mut response
            && has_sessions(&cx)
        {
            // Only clients of revision 2026-07-28 or later support `resultType`.
            result.result_type = None;
        }
        let result = serde_json::to_value(ServerResult::from(response));
        result.map(CustomResult::new).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

/// Awaits `work` and converts a panic into a JSON-RPC error. Without this conversion, rmcp would
/// never respond to the request.
async fn catch_panic<F: Future>(work: F) -> Result<F::Output, ErrorData> {
    let internal = |_panic| ErrorData::internal_error(Cow::Borrowed("the server panicked"), None);
    AssertUnwindSafe(work).catch_unwind().await.map_err(internal)
}

#[cfg(test)]
mod tests;
