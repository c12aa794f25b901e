#![doc = include_str!("../README.md")]

mod config;
mod connection;
mod connection_handle;
mod listing;
mod metadata;
mod process;
mod result;
mod server;
mod session;
mod source;
mod stdio_server;
mod tool;
mod transport;

pub use config::{HttpServer, McpConfig, McpConfigError, McpConfigProblem, ServerConfig};
pub use connection_handle::NotConnected;
pub use server::{ServeError, serve, serve_stdio};
pub use source::McpSource;
pub use stdio_server::StdioServer;
pub use tool::{McpTool, mcp_tool};
