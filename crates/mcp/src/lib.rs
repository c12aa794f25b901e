#![doc = include_str!("../README.md")]

mod call_data;
mod callback;
pub mod config;
mod connection;
mod connection_handle;
#[cfg(feature = "http")]
mod connection_pool;
pub mod elicitation;
mod feature_tools;
pub mod gateway;
mod hidden_chars;
#[cfg(feature = "http")]
mod http;
mod http_server;
mod input_round;
mod listing;
mod locked_file;
#[cfg(feature = "http")]
mod login_required;
mod metadata;
#[cfg(feature = "oauth")]
mod oauth;
mod pages;
pub mod pins;
pub mod process;
#[cfg(feature = "http")]
pub mod registry;
mod result;
mod revision_cache;
mod server;
mod server_options;
mod session;
pub mod source;
mod start_failure;
mod stdio_server;
mod suspended_calls;
pub mod testing;
mod text_file;
mod tolerant_schema;
mod tool;
mod tool_filter;
mod transport;

pub use config::{McpConfig, McpConfigError, ServerConfig};
pub use connection_handle::NotConnected;
#[cfg(feature = "http")]
pub use connection_pool::ConnectionPool;
pub use http_server::{HttpServer, HttpTransport};
#[cfg(feature = "http")]
pub use login_required::LoginRequired;
#[cfg(feature = "oauth")]
pub use oauth::{CredentialFile, LoginError, LoginOptions, client_credentials, login};
#[cfg(feature = "http-server")]
pub use server::http::{ClientAddress, HttpServiceConfig, McpService, authorization, serve_http};
pub use server::{McpServer, NoHandler, ServeError, serve, serve_stdio};
pub use server_options::ServerOptions;
pub use source::McpSource;
pub use stdio_server::StdioServer;
pub use tool::{McpTool, mcp_tool};
pub use tool_filter::ToolFilter;
