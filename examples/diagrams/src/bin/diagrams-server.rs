//! An MCP server over HTTP with the tools that draw diagrams into the working directory. Run
//! `diagrams-server 127.0.0.1:8002`.

use std::{env, error::Error};

use haft_mcp::{HttpServiceConfig, McpService, serve_http};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).ok_or("usage: diagrams-server ADDRESS")?;
    let listener = TcpListener::bind(address).await?;
    eprintln!("serving at http://{}/mcp", listener.local_addr()?);
    let service = McpService::new(diagrams::tools("."), HttpServiceConfig::default());
    serve_http(service, listener, std::future::pending()).await?;
    Ok(())
}
