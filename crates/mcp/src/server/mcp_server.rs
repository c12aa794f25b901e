use std::{fmt, sync::Arc, time::Duration};

use haft_core::{Toolset, tool::Principal};
use rmcp::{
    ServerHandler,
    model::{Implementation, ServerCapabilities, ServerConfig},
};

/// An MCP server: the tools of a toolset, and optionally further features.
///
/// [`serve_stdio`](crate::serve_stdio), [`serve`](crate::serve) and
/// [`McpService`](crate::McpService) accept it, or a [`Toolset`].
///
/// # Suspended calls
///
/// A call that needs an approval or input sends an elicitation to a client with this capability. A
/// client of revision 2026-07-28 keeps the state of the call: the request for input, and the
/// [continuation](haft_core::call::Pending::continuation) of the tool. The state is signed, so that
/// the client cannot change it, but the client can read it. It is valid for 30 minutes, and may be
/// used repeatedly.
///
/// # State of tools
///
/// A tool can read the `rmcp::Peer<RoleServer>` of its call from the
/// [state](haft_core::ToolContext::state) of its context, for example to send log messages.
///
/// # Tools per principal
///
/// The toolset is listed for the [`Principal`] of each request: it is in the
/// [state](haft_core::toolset::ListContext::state) of the context of the listing, for example for
/// [`Toolset::prepared`]. A tool that is not listed for a principal cannot be called by it.
///
/// # Examples
///
/// A server with tools of haft, and with prompts of an `rmcp` handler:
///
/// ```no_run
/// use haft_core::Toolset;
/// use haft_mcp::{McpServer, serve_stdio};
/// use rmcp::{
///     RoleServer, ServerHandler,
///     model::{
///         ErrorData, ListPromptsResult, PaginatedRequestParams, Prompt, ServerCapabilities, ServerConfig,
///     },
///     service::RequestContext,
/// };
///
/// struct Prompts;
///
/// impl ServerHandler for Prompts {
///     fn get_info(&self) -> ServerConfig {
///         ServerConfig::new(ServerCapabilities::builder().enable_prompts().build())
///     }
///
///     async fn list_prompts(
///         &self,
///         _page: Option<PaginatedRequestParams>,
///         _cx: RequestContext<RoleServer>,
///     ) -> Result<ListPromptsResult, ErrorData> {
///         let greeting = Prompt::new("greeting", Some("Greets the user."), None);
///         Ok(ListPromptsResult::with_all_items(vec![greeting]))
///     }
/// }
///
/// # async fn example() -> Result<(), haft_mcp::ServeError> {
/// serve_stdio(McpServer::new(Toolset::new()).with_handler(Prompts)).await
/// # }
/// ```
pub struct McpServer<H = NoHandler> {
    pub(super) tools: Toolset,
    pub(super) handler: Arc<H>,
    /// The maximum number of tools in a page of the list. `None` if there is a single page.
    pub(super) page_size: Option<usize>,
    /// The time during which a client may reuse the list.
    pub(super) list_ttl: Duration,
    /// The principal of requests without authentication.
    pub(super) principal: Option<Principal>,
}

/// The handler of an [`McpServer`] with tools only.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NoHandler;

impl ServerHandler for NoHandler {
    fn get_info(&self) -> ServerConfig {
        let implementation = Implementation::new("haft", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::default()).with_server_info(implementation)
    }
}

impl McpServer {
    /// Creates a server for `tools`.
    pub fn new(tools: Toolset) -> Self {
        Self {
            tools,
            handler: Arc::new(NoHandler),
            page_size: None,
            list_ttl: Duration::ZERO,
            principal: None,
        }
    }
}

impl<H: ServerHandler> McpServer<H> {
    /// Sets the handler of prompts, resources, completions, subscriptions, tasks and custom
    /// requests. The server advertises the capabilities and the name of `handler`. It handles
    /// `initialize`, `server/discover` and `ping` itself.
    ///
    /// If the handler has the capability `tools`, its tools are listed after those of the toolset.
    /// Calls to them do not use the pipeline of the toolset.
    #[must_use]
    pub fn with_handler<Other: ServerHandler>(self, handler: Other) -> McpServer<Other> {
        let Self { tools, page_size, list_ttl, principal, .. } = self;
        McpServer { tools, handler: Arc::new(handler), page_size, list_ttl, principal }
    }

    /// Sets the maximum number of tools of the toolset in a page of the list, at least 1. Default:
    /// a single page.
    #[must_use]
    pub fn with_page_size(mut self, tools: usize) -> Self {
        self.page_size = Some(tools.max(1));
        self
    }

    /// Sets the time during which a client may reuse the tool list (`ttlMs`, revision 2026-07-28).
    /// Default: 0.
    #[must_use]
    pub fn with_list_ttl(mut self, ttl: Duration) -> Self {
        self.list_ttl = ttl;
        self
    }

    /// Sets the principal of requests without authentication, for example of the client over
    /// standard input and output. Default: none.
    #[must_use]
    pub fn with_principal(mut self, principal: Principal) -> Self {
        self.principal = Some(principal);
        self
    }
}

impl<H> Clone for McpServer<H> {
    fn clone(&self) -> Self {
        let Self { tools, handler, page_size, list_ttl, principal } = self;
        let (tools, handler, principal) = (tools.clone(), Arc::clone(handler), principal.clone());
        Self { tools, handler, page_size: *page_size, list_ttl: *list_ttl, principal }
    }
}

impl From<Toolset> for McpServer {
    fn from(tools: Toolset) -> Self {
        Self::new(tools)
    }
}

impl<H> fmt::Debug for McpServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("tools", &self.tools)
            .field("page_size", &self.page_size)
            .field("list_ttl", &self.list_ttl)
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}
