//! An MCP server over stdio with the tools of the airline.

use airline::airline::Airline;
use haft_core::Toolset;

#[tokio::main]
async fn main() -> Result<(), haft_mcp::ServeError> {
    haft_mcp::serve_stdio(Toolset::new().with_tools(Airline::default())).await
}
