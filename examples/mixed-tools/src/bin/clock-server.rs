//! An MCP server over stdio with one tool, which returns the current date and time.

use haft_core::Toolset;
use haft_tools::GetCurrentDatetime;

#[tokio::main]
async fn main() -> Result<(), haft_mcp::ServeError> {
    haft_mcp::serve_stdio(Toolset::new().with_tool(GetCurrentDatetime)).await
}
