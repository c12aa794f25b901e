//! Any toolset as an MCP server.

mod call;
mod content;
mod definition;

use std::{borrow::Cow, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt as _;
use haft_core::{
    ToolCall, Toolset,
    toolset::{ListContext, ToolList},
};
use rmcp::{
    RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult, ConstString as _,
        CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::{RequestContext, ServerInitializeError},
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::wire::ServerWire;

/// Why a toolset is not served any more, although its client is still there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client began in a way that no era of the protocol knows.
    #[error("the client began with what is no MCP")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The server itself failed.
    #[error("the server ended unexpectedly")]
    Ended(#[source] tokio::task::JoinError),
}

/// How long calls that are under way at the end of the input may still take.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// Serves tools over standard input and output, in the words of either era, until the input ends.
///
/// Calls go through the toolset's pipeline: they are validated, repaired, caught and bounded. A call that fails, a
/// panic and arguments that do not fit are answered as a failed call, an unknown tool as a protocol error. A
/// cancelled call is dropped.
///
/// At the end of the input the calls that are under way have one second to end, so that a client may write a request,
/// close its side and read the answer. Then they are cancelled.
///
/// Nothing else may be written to standard output; logs go to standard error. When the future is done the
/// program should end: a thread of the runtime may still wait for input.
///
/// # Errors
///
/// Fails when the client does not speak the protocol.
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
/// let tools = Toolset::new().with(tool_fn("add", "Adds two integers.", |Add { x, y }| async move { x + y }));
/// haft_mcp::serve_stdio(tools).await
/// # }
/// ```
pub async fn serve_stdio(tools: Toolset) -> Result<(), ServeError> {
    serve(tools, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Serves tools over any pair of streams, as [`serve_stdio`] does.
///
/// # Errors
///
/// As [`serve_stdio`].
pub async fn serve<R, W>(tools: Toolset, reader: R, writer: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ended = CancellationToken::new();
    let server = Server { tools, ended: ended.clone() };
    let service = match server.serve(ServerWire::new(reader, writer, ended.clone())).await {
        Ok(service) => service,
        // A client that goes away at once is no failure.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    let stop = service.cancellation_token();
    let mut served = pin!(service.waiting());
    let served = tokio::select! {
        served = &mut served => served,
        () = async { ended.cancelled().await; sleep(LAST_CALLS).await } => {
            stop.cancel();
            served.await
        }
    };
    served.map(drop).map_err(ServeError::Ended)
}

struct Server {
    tools: Toolset,
    /// Cancelled when the client says no more.
    ended: CancellationToken,
}

impl Server {
    async fn list(&self) -> ToolList {
        self.tools.list(&ListContext::default()).await
    }

    async fn answer(
        &self,
        name: &str,
        arguments: String,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let tools = caught(self.list()).await?;
        let Some(tool) = tools.get(name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool: {name}"), None));
        };
        let definition = tool.definition().clone();
        let call = ToolCall::new(cx.id.to_string(), name, arguments);
        let result = caught(call::run(self.tools.pipeline(), tools, call, cx, &self.ended)).await?;
        let result = result.ok_or_else(|| ErrorData::internal_error("the call has no outcome", None))?;
        Ok(content::written(&definition, result))
    }
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
        let list = caught(self.list()).await?;
        let written = list.rendering::<Vec<rmcp::model::Tool>>(|list| {
            list.tools().iter().map(|tool| definition::written(tool.definition())).collect()
        });
        Ok(ListToolsResult::with_all_items(Arc::unwrap_or_clone(written)))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // What was parsed has a text again.
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        self.answer(&request.name, arguments, cx).await.map(CallToolResponse::from)
    }

    /// Takes what rmcp could not read as a request that it knows.
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
            return Err(ErrorData::invalid_params("the parameters of tools/call have no \"name\"", None));
        };
        // Arguments of the wrong kind are a matter between the model and the tool.
        let arguments = field("arguments").unwrap_or(&Value::Null).to_string();
        let older_era = cx.protocol_version().is_none_or(|version| version.has_initialize());
        let mut result = self.answer(name, arguments, cx).await?;
        if older_era {
            result.result_type = None;
        }
        let result = serde_json::to_value(result);
        result.map(CustomResult::new).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

/// Answers also when the code of a source panics: rmcp would leave the client waiting.
async fn caught<F: Future>(work: F) -> Result<F::Output, ErrorData> {
    let internal = |_panic| ErrorData::internal_error(Cow::Borrowed("the server failed to answer"), None);
    AssertUnwindSafe(work).catch_unwind().await.map_err(internal)
}

#[cfg(test)]
mod tests;
