//! The server for the official MCP conformance suite. The tools of `tools` are tools of haft. The
//! prompts, the resources and a few tools are those of an `rmcp` handler.

mod handler;
mod input;
mod tools;

use std::{env, io::Write as _};

use haft_mcp::{HttpServiceConfig, McpServer, McpService, serve_http};
use tokio::net::TcpListener;

use self::handler::Handler;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let server = McpServer::new(tools::toolset()?).with_handler(Handler);
    let service = McpService::new(server, HttpServiceConfig::default());
    let listener = TcpListener::bind(address).await?;
    writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    serve_http(service, listener, std::future::pending()).await?;
    Ok(())
}
