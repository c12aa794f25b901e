use async_trait::async_trait;
use haft_core::{Tool, ToolContext, ToolDefinition, ToolError, call::ToolOutcome, toolset::SourceError};
use rmcp::{
    Peer, RoleClient,
    model::{CallToolRequest, CallToolRequestParams, ClientRequest},
};
use serde_json::Value;

use crate::{
    connection::{Connection, RequestError},
    link::Link,
    listing, result,
};

/// How often a call is taken to the next connection because the last was gone before the call was sent.
const ATTEMPTS: usize = 3;

/// A tool of an MCP server: what an [`McpSource`](crate::McpSource) lists, and [`mcp_tool`] makes.
///
/// Its name is one that every model accepts; the server is called by the name that it gave.
pub struct McpTool {
    definition: ToolDefinition,
    foreign_name: String,
    link: Link,
}

/// Makes a tool of one that a connection of yours lists.
///
/// The connection stays yours: the tool works for as long as it does. Calls have no deadline for silence here,
/// because progress goes to your handler; the call as a whole has the deadline of its policy.
///
/// # Errors
///
/// Fails when the tool's schema is refused.
///
/// # Examples
///
/// ```no_run
/// use haft_core::ToolExt as _;
/// use haft_mcp::mcp_tool;
/// use serde_json::json;
///
/// # async fn example(service: rmcp::service::RunningService<rmcp::RoleClient, ()>) -> Result<(), Box<dyn std::error::Error>> {
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
    let refused = |reason: String| SourceError::new(label.clone(), format!("tool {:?}: {reason}", tool.name));
    let written = serde_json::to_value(tool).map_err(|error| refused(error.to_string()))?;
    let (foreign_name, definition) = listing::definition(&written).map_err(refused)?;
    let link = Link::fixed(label.clone(), Connection::foreign(peer.clone()));
    Ok(McpTool::new(definition, foreign_name.to_owned(), link))
}

impl McpTool {
    pub(crate) fn new(definition: ToolDefinition, foreign_name: String, link: Link) -> Self {
        Self { definition, foreign_name, link }
    }

    fn request(&self, arguments: &Value) -> ClientRequest {
        let mut params = CallToolRequestParams::new(self.foreign_name.clone());
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments.clone());
        }
        ClientRequest::CallToolRequest(CallToolRequest::new(params))
    }

    fn failure(&self, error: RequestError) -> ToolError {
        let label = self.link.label();
        match error {
            RequestError::NotSent => self.link.lost("cannot be reached", &error.to_string()),
            RequestError::Refused(_) => {
                ToolError::Failed { message: error.to_string(), source: Some(error.into()) }
            }
            RequestError::Silent(after) => ToolError::TimedOut { after },
            RequestError::Lost => ToolError::Unconfirmed(format!("{label} was lost during the call")),
            RequestError::Unreadable(reason) => {
                ToolError::Failed { message: format!("{label} answered, but {reason}"), source: None }
            }
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let mut outcome = Err(RequestError::NotSent);
        for _ in 0..ATTEMPTS {
            let connection = self.link.connection().await?;
            outcome = connection.request(self.request(&arguments), |progress| cx.report(progress)).await;
            // Only a call that no server has read may be made again.
            if !matches!(outcome, Err(RequestError::NotSent)) {
                break;
            }
            connection.lost().await;
        }
        let written = outcome.map_err(|error| self.failure(error))?;
        result::outcome(written)
    }
}

impl std::fmt::Debug for McpTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpTool").field("name", self.definition.name()).finish_non_exhaustive()
    }
}
