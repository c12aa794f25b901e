//! Any toolset as an MCP server.

mod call;
mod content;
mod definition;

use std::{borrow::Cow, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use haft_core::{ListContext, ToolList, Toolset};
use rmcp::{
    RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::{RequestContext, ServerInitializeError},
};
use tokio::io::{AsyncRead, AsyncWrite};

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

/// Serves tools over standard input and output, in the words of either era, until the input ends.
///
/// Calls go through the toolset's pipeline: they are validated, repaired, caught and bounded. A call that fails, a
/// panic and arguments that do not fit are answered as a failed call, an unknown tool as a protocol error. A
/// cancelled call is dropped.
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
/// use haft_core::{Toolset, schemars::{self, JsonSchema}, tool_fn};
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
    let server = Server { tools };
    let service = match server.serve(ServerWire::new(reader, writer)).await {
        Ok(service) => service,
        // A client that goes away at once is no failure.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(Box::new(error))),
    };
    service.waiting().await.map(drop).map_err(ServeError::Ended)
}

struct Server {
    tools: Toolset,
}

impl Server {
    async fn list(&self) -> ToolList {
        self.tools.list(&ListContext::default()).await
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
        let list = caught(self.list()).await?;
        caught(call::answer(self.tools.pipeline(), list, request, cx)).await?.map(CallToolResponse::from)
    }
}

/// Answers also when the code of a source panics: rmcp would leave the client waiting.
async fn caught<F: Future>(work: F) -> Result<F::Output, ErrorData> {
    let internal = |_panic| ErrorData::internal_error(Cow::Borrowed("the server failed to answer"), None);
    AssertUnwindSafe(work).catch_unwind().await.map_err(internal)
}

#[cfg(test)]
mod tests;
