use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ChatRequest, ModelError, ModelProfile};

/// A tool that the provider of the model executes, such as its web search.
///
/// The provider runs the tool while it generates the reply, so no [`Tool`](crate::Tool) of the
/// program, no approval and no guardrail is involved. The reply contains the
/// [calls](crate::message::AssistantMessage::hosted_calls) and, after a search, the
/// [citations](crate::message::AssistantMessage::citations).
///
/// # Examples
///
/// ```
/// use haft_core::{Message, model::{ChatRequest, HostedTool, WebSearch}};
///
/// let search = WebSearch { allowed_domains: vec!["docs.rs".to_owned()], ..WebSearch::default() };
/// let request = ChatRequest {
///     hosted_tools: [HostedTool::WebSearch(search)].into(),
///     ..ChatRequest::new([Message::user("What is new in axum?")])
/// };
/// # drop(request);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostedTool {
    /// A web search.
    WebSearch(WebSearch),
    /// A sandbox in which the model executes code.
    CodeExecution,
    /// A search in files that are stored at the provider.
    FileSearch(FileSearch),
    /// An MCP server that the provider connects to. It must be reachable from the provider. The
    /// provider calls its tools without an approval.
    McpServer(HostedMcpServer),
}

/// The settings of a hosted web search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WebSearch {
    /// The domains that are searched, with their subdomains. If empty, all domains are searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// The domains that are not searched. OpenAI supports none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<String>,
    /// The maximum number of searches in one reply. Only Anthropic supports a maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
}

/// The settings of a hosted file search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSearch {
    /// The ids of the stores: vector stores of OpenAI, file search stores of Gemini.
    pub stores: Vec<String>,
    /// The maximum number of results of one search. `None` selects the default of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_results: Option<u32>,
}

/// An MCP server that a provider connects to. The debug output contains neither the token nor the
/// query of the URL.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostedMcpServer {
    /// The name of the server, for the model.
    pub name: String,
    /// The URL of the server.
    pub url: String,
    /// The bearer token that the provider sends to the server. It is not serialized.
    #[serde(skip)]
    pub token: Option<String>,
    /// The names of the tools that the model may call. If empty, it may call all tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
}

impl fmt::Debug for HostedMcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedMcpServer")
            .field("name", &self.name)
            .field("url", &self.url.split('?').next().unwrap_or_default())
            .field("allowed_tools", &self.allowed_tools)
            .finish_non_exhaustive()
    }
}

/// The kind of a [`HostedTool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostedToolKind {
    /// [`HostedTool::WebSearch`].
    WebSearch,
    /// [`HostedTool::CodeExecution`].
    CodeExecution,
    /// [`HostedTool::FileSearch`].
    FileSearch,
    /// [`HostedTool::McpServer`].
    McpServer,
}

impl HostedTool {
    /// Returns the kind of the tool.
    pub fn kind(&self) -> HostedToolKind {
        match self {
            Self::WebSearch(_) => HostedToolKind::WebSearch,
            Self::CodeExecution => HostedToolKind::CodeExecution,
            Self::FileSearch(_) => HostedToolKind::FileSearch,
            Self::McpServer(_) => HostedToolKind::McpServer,
        }
    }
}

impl fmt::Display for HostedToolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WebSearch => "web search",
            Self::CodeExecution => "code execution",
            Self::FileSearch => "file search",
            Self::McpServer => "MCP server",
        })
    }
}

impl ChatRequest {
    /// Checks that a model with `profile` has all hosted tools of this request. Each implementation of
    /// [`ChatModel`](super::ChatModel) calls this method, or sends the tools.
    ///
    /// # Errors
    ///
    /// Returns [`ModelError::Unsupported`], which names the missing tool.
    pub fn check_hosted_tools(&self, profile: &ModelProfile) -> Result<(), ModelError> {
        let missing =
            self.hosted_tools.iter().map(HostedTool::kind).find(|kind| !profile.hosted_tools.contains(kind));
        missing.map_or(Ok(()), |kind| {
            Err(ModelError::Unsupported(format!("{} has no hosted tool for {kind}", profile.name)))
        })
    }
}
