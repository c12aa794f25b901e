//! An MCP server with the tools of the airline: over stdio, or with `--http 127.0.0.1:8001` over
//! HTTP.

use std::{env, error::Error};

use airline::airline::Airline;
use haft_core::Toolset;
use haft_mcp::{HttpServiceConfig, McpService, serve_http, serve_stdio};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tools = Toolset::new().with_tools(Airline::default());
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve_stdio(tools).await?,
        ["--http", address] => {
            let listener = TcpListener::bind(address).await?;
            eprintln!("serving at http://{}/mcp", listener.local_addr()?);
            let service = McpService::new(tools, HttpServiceConfig::default());
            serve_http(service, listener, std::future::pending()).await?;
        }
        _ => return Err("usage: airline-server [--http ADDRESS]".into()),
    }
    Ok(())
}
