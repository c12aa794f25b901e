mod call;
mod operation;
mod task;

use std::sync::Arc;

use async_trait::async_trait;
use haft_core::{
    Tool, ToolContext, ToolDefinition, ToolError, call::ToolResponse, text::without_hidden_chars,
    toolset::SourceError,
};
use rmcp::{Peer, RoleClient};
use serde_json::Value;

use self::call::McpCall;
pub(crate) use self::operation::{Operation, TEMPLATES};
use crate::{
    connection::{Connection, RequestError},
    connection_handle::ConnectionHandle,
    listing::{self, ParsedTool},
    result,
    transport::has_omissions,
};

/// A tool of an MCP server, from an [`McpSource`](crate::McpSource) or from [`mcp_tool`].
///
/// The tool name is changed if a model provider would reject it: `get.weather` becomes
/// `get_weather_` followed by a hash. A name that already ends with such a hash is changed as well.
/// Requests to the server use the original name.
pub struct McpTool {
    definition: ToolDefinition,
    original_name: String,
    handle: ConnectionHandle,
    operation: Operation,
}

/// Creates a tool from `tool`, an entry of a server's tool list. Calls are sent over `peer`, an
/// existing rmcp connection.
///
/// Dropping the tool does not close the connection. Calls fail if the connection is closed.
///
/// Progress notifications are delivered to the handler of the connection and not to the tool. Calls
/// therefore have no idle timeout, and only the timeout in the tool's policy applies.
///
/// # Errors
///
/// Fails if the tool has no name or an invalid schema.
///
/// # Examples
///
/// ```no_run
/// use haft_core::ToolExt as _;
/// use haft_mcp::mcp_tool;
/// use rmcp::{RoleClient, service::RunningService};
/// use serde_json::json;
///
/// # async fn example(
/// #     service: RunningService<RoleClient, ()>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let page = service.peer().list_tools(None).await?;
/// if let Some(tool) = page.tools.first() {
///     let tool = mcp_tool(service.peer(), tool)?;
///     println!("{}", tool.invoke(json!({"x": 1})).await.model_text());
/// }
/// # Ok(())
/// # }
/// ```
pub fn mcp_tool(peer: &Peer<RoleClient>, tool: &rmcp::model::Tool) -> Result<McpTool, SourceError> {
    let server =
        peer.peer_info().and_then(|info| info.server_info.as_ref().map(|server| server.name.clone()));
    let label = crate::source::label(server.as_deref().unwrap_or("server"));
    let invalid = |reason: String| SourceError::new(label.clone(), format!("tool {:?}: {reason}", tool.name));
    let tool = serde_json::to_value(tool).map_err(|error| invalid(error.to_string()))?;
    let ParsedTool { original_name, definition, unchecked } =
        listing::parse_definition(&tool).map_err(invalid)?;
    for reason in unchecked {
        tracing::warn!(source = label, tool = original_name, reason, "a part of a schema is not checked");
    }
    let handle = ConnectionHandle::fixed(label.clone(), Arc::new(Connection::from_peer(peer.clone())));
    Ok(McpTool::new(definition, original_name.to_owned(), handle, Operation::CallTool))
}

impl McpTool {
    pub(crate) fn new(
        definition: ToolDefinition,
        original_name: String,
        handle: ConnectionHandle,
        operation: Operation,
    ) -> Self {
        Self { definition, original_name, handle, operation }
    }

    /// Converts `result`, the result of a request.
    ///
    /// # Errors
    ///
    /// Also fails if the structured content that the output schema requires was omitted. The error
    /// has the rest of the result.
    fn convert(&self, result: Value) -> Result<ToolResponse, ToolError> {
        let has_omissions = has_omissions(&result);
        match self.operation.convert(result)? {
            ToolResponse::Done(output)
                if has_omissions
                    && output.structured.is_none()
                    && self.definition.output_schema().is_some() =>
            {
                Err(result::unstructured_error(output))
            }
            response => Ok(response),
        }
    }

    fn to_tool_error(&self, error: RequestError) -> ToolError {
        let label = self.handle.label();
        match error {
            RequestError::Rejected(error) if self.operation.is_argument_error(&error) => {
                ToolError::InvalidArguments(without_hidden_chars(&error.message).into_owned().into())
            }
            RequestError::NotSent => self.handle.unavailable_error("cannot be reached", &error.to_string()),
            RequestError::Rejected(_) => {
                let message = without_hidden_chars(&error.to_string()).into_owned();
                ToolError::Failed { message, source: Some(error.into()) }
            }
            #[cfg(feature = "http")]
            RequestError::Refused(_) => {
                ToolError::Failed { message: error.to_string(), source: Some(error.into()) }
            }
            #[cfg(feature = "http")]
            RequestError::LoginRequired(error) => {
                ToolError::Failed { message: error.to_string(), source: Some(error.into()) }
            }
            RequestError::IdleTimeout(after) => ToolError::TimedOut { after },
            RequestError::Lost => ToolError::Unconfirmed(format!("the connection to {label} was lost")),
            RequestError::InvalidResponse(reason) => ToolError::Failed {
                message: format!("invalid response from {label}: {reason}"),
                source: None,
            },
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        McpCall::new(self, &arguments, cx).run().await
    }
}

impl std::fmt::Debug for McpTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpTool").field("name", self.definition.name()).finish_non_exhaustive()
    }
}
