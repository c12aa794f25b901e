//! A gateway: the tools of several servers as one toolset, with rules per client.

mod client_tools;
mod trace_context;

use std::{collections::BTreeMap, fmt};

#[cfg(feature = "http-server")]
use haft_core::tool::Principal;
use haft_core::{ToolSource, Toolset, tool::InvalidToolName};

pub use self::trace_context::TraceContext;

use self::client_tools::ClientTools;
#[cfg(feature = "http-server")]
use crate::HttpServiceConfig;
use crate::ToolFilter;

/// The key of the rules for the clients without an entry in [`GatewayConfig::clients`].
pub const OTHER_CLIENTS: &str = "*";

/// The rules of a gateway.
///
/// A gateway offers the tools of several sources, usually MCP servers, as one toolset.
/// [`McpConfig::gateway`](crate::McpConfig::gateway) reads the rules from an `mcp.json` file.
/// [`toolset`](Self::toolset) applies them to the sources. The toolset is then served like any
/// other, with [`serve_stdio`](crate::serve_stdio) or [`McpService`](crate::McpService). The tokens
/// of the clients have an effect only in an HTTP endpoint with the configuration of `http_config`.
///
/// The rules are applied in this order: prefixes, [`renamed_tools`](Self::renamed_tools),
/// [`tool_filter`](Self::tool_filter), [`approval_patterns`](Self::approval_patterns), and the
/// filters of the clients. All patterns match the name that a client sees.
///
/// # Examples
///
/// ```
/// use haft_core::{Toolset, tool, tool::{HostState, Principal}, toolset::ListContext};
/// use haft_mcp::{ToolFilter, gateway::{GatewayClient, GatewayConfig}};
///
/// #[tool]
/// fn read(path: String) -> String {
///     path
/// }
///
/// #[tool]
/// fn delete(path: String) -> String {
///     path
/// }
///
/// # fn main() -> Result<(), haft_core::tool::InvalidToolName> {
/// # futures::executor::block_on(async {
/// let config = GatewayConfig::default()
///     .with_tool_filter(ToolFilter::deny(["*_delete"]))
///     .with_client("ann", GatewayClient::new(ToolFilter::allow(["files_*"])));
/// let files = Toolset::new().with_tool(Read).with_tool(Delete);
/// let mail = Toolset::new().with_tool(Read);
/// let tools = config.toolset([("files", files), ("mail", mail)])?;
///
/// let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
/// let cx = ListContext { state: HostState::new().with_value(ann), ..ListContext::default() };
/// let list = tools.list(&cx).await;
/// assert!(list.get("files_read").is_some() && list.len() == 1);
/// assert!(tools.names().await.is_empty());
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayConfig {
    /// `true` if the name of a tool begins with the name of its source, as in `files_read`.
    /// Default: `true`. If it is `false` and two sources have a tool with the same name, the tool
    /// of the first source is offered.
    pub has_prefixes: bool,
    /// The tools that are offered. Default: all.
    pub tool_filter: ToolFilter,
    /// The new names of tools by their names with the prefix, or by their own names without
    /// [prefixes](Self::has_prefixes). Unknown names are ignored. Default: none.
    pub renamed_tools: BTreeMap<String, String>,
    /// The patterns of the tools whose calls need an approval. A client with the capability
    /// `elicitation` receives an elicitation; for other clients, the call fails. In a pattern, `*`
    /// stands for any number of characters. Default: none.
    pub approval_patterns: Vec<String>,
    /// The clients by the id of their principal. [`OTHER_CLIENTS`] stands for all other callers,
    /// with and without a principal. Default: none, so that all callers have all tools of the
    /// gateway. If there are clients, a caller without an entry has no tools.
    ///
    /// [`McpServer::with_principal`](crate::McpServer::with_principal) sets the principal of a
    /// client over standard input and output.
    pub clients: BTreeMap<String, GatewayClient>,
}

/// The rules for one client of a gateway.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayClient {
    /// The tools of the gateway that the client sees and can call. Default: all.
    pub tool_filter: ToolFilter,
    /// The scopes of a client that authenticates with [`token`](Self::token). They permit the tools
    /// with [required scopes](haft_core::tool::ToolPolicy::required_scopes). With another
    /// authentication, the scopes are those of its principal. Default: none.
    pub scopes: Vec<String>,
    /// The bearer token of the client. `None` if another component authenticates the client.
    /// Default: `None`.
    pub token: Option<String>,
}

impl GatewayClient {
    /// Creates the rules for a client with the tools that `tool_filter` selects.
    pub fn new(tool_filter: ToolFilter) -> Self {
        Self { tool_filter, ..Self::default() }
    }

    /// Sets the bearer token of the client.
    #[must_use]
    pub fn with_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Adds `scopes` to the scopes of the client.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }
}

/// The debug output contains no token.
impl fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayClient")
            .field("tool_filter", &self.tool_filter)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            has_prefixes: true,
            tool_filter: ToolFilter::default(),
            renamed_tools: BTreeMap::new(),
            approval_patterns: Vec::new(),
            clients: BTreeMap::new(),
        }
    }
}

impl GatewayConfig {
    /// Offers the tools under their own names, without the name of their source.
    #[must_use]
    pub fn without_prefixes(mut self) -> Self {
        self.has_prefixes = false;
        self
    }

    /// Sets the tools that are offered.
    #[must_use]
    pub fn with_tool_filter(mut self, filter: ToolFilter) -> Self {
        self.tool_filter = filter;
        self
    }

    /// Renames the tool `old`, a name with the prefix.
    #[must_use]
    pub fn with_renamed_tool(mut self, old: impl Into<String>, new: impl Into<String>) -> Self {
        self.renamed_tools.insert(old.into(), new.into());
        self
    }

    /// Requires an approval for the calls to tools that match `pattern`.
    #[must_use]
    pub fn with_approval(mut self, pattern: impl Into<String>) -> Self {
        self.approval_patterns.push(pattern.into());
        self
    }

    /// Adds a client. `id` is the id of its principal, or [`OTHER_CLIENTS`].
    #[must_use]
    pub fn with_client(mut self, id: impl Into<String>, client: GatewayClient) -> Self {
        self.clients.insert(id.into(), client);
        self
    }

    /// Returns a toolset with the tools of `sources`, pairs of a name and a source.
    ///
    /// With the sources `db` and `db_admin`, a tool `admin_query` of `db` is hidden, because its
    /// name would be that of a tool of `db_admin`. If two tools have the same new name, the tool of
    /// the first source is offered.
    ///
    /// A server of this crate lists and calls the tools of the principal of each request. In other
    /// listings, the principal is the [principal](haft_core::tool::Principal) in the
    /// [state](haft_core::toolset::ListContext::state) of the context.
    ///
    /// # Errors
    ///
    /// Fails if a new name in [`renamed_tools`](Self::renamed_tools) is invalid.
    pub fn toolset<S: ToolSource + 'static>(
        &self,
        sources: impl IntoIterator<Item = (impl AsRef<str>, S)>,
    ) -> Result<Toolset, InvalidToolName> {
        let sources: Vec<_> =
            sources.into_iter().map(|(name, it)| (format!("{}_", name.as_ref()), it)).collect();
        let prefixes: Vec<_> = sources.iter().map(|(prefix, _)| prefix.clone()).collect();
        let mut tools = Toolset::new();
        for (prefix, source) in sources {
            let mut source = Toolset::new().with_source(source);
            if self.has_prefixes {
                let foreign = prefixes.iter().filter(|other| other.starts_with(&prefix) && **other != prefix);
                let foreign: Vec<_> = foreign.cloned().collect();
                let is_own = move |name: &str| !foreign.iter().any(|prefix| name.starts_with(prefix));
                source = source.prefixed(prefix).filtered(move |tool| is_own(tool.name().as_str()));
            }
            // A conflict of new names affects the tools of its source only.
            tools = tools.with_source(source.renamed(&self.renamed_tools)?);
        }
        let filter = self.tool_filter.clone();
        let tools = tools.filtered(move |tool| filter.selects(tool.name().as_str()));
        let patterns = ToolFilter::allow(self.approval_patterns.iter().cloned());
        let tools = tools.approval_required(move |tool| patterns.selects(tool.name().as_str()));
        if self.clients.is_empty() {
            return Ok(tools);
        }
        Ok(Toolset::new().with_source(ClientTools::new(&tools, &self.clients)))
    }

    /// Adds the bearer tokens of the clients to `config`, the configuration of an HTTP endpoint. A
    /// call has the id and the scopes of its client as principal.
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn http_config(&self, mut config: HttpServiceConfig) -> HttpServiceConfig {
        for (id, client) in &self.clients {
            if let Some(token) = &client.token {
                let scopes = client.scopes.iter().cloned().collect();
                config = config.with_bearer_token(token, Principal { id: id.clone(), scopes });
            }
        }
        config
    }
}

#[cfg(test)]
mod tests;
