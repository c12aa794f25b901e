use std::sync::Arc;

use haft_core::model::{FileSearch, HostedMcpServer, HostedTool, ModelError, WebSearch};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::{Value, json};

use super::EncodedTools;

/// The `tools` field of a Responses request: the hosted tools, which are the same in each request
/// of an agent, and then the functions.
pub(crate) struct ResponsesTools {
    hosted: Vec<Value>,
    functions: Arc<EncodedTools>,
}

impl ResponsesTools {
    pub(crate) fn new(hosted: &[HostedTool], functions: Arc<EncodedTools>) -> Self {
        Self { hosted: hosted.iter().filter_map(encode_hosted_tool).collect(), functions }
    }

    /// Adds the hosted search in functions whose definitions are not loaded.
    pub(crate) fn add_tool_search(&mut self) {
        self.hosted.push(json!({"type": "tool_search"}));
    }
}

impl Serialize for ResponsesTools {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        self.hosted.iter().try_for_each(|tool| list.serialize_element(tool))?;
        self.functions.iter().try_for_each(|tool| list.serialize_element(tool))?;
        list.end()
    }
}

/// Checks that the Responses API has all settings of `tools`.
pub(crate) fn check_settings(tools: &[HostedTool]) -> Result<(), ModelError> {
    for tool in tools {
        let setting = match tool {
            HostedTool::WebSearch(search) if !search.blocked_domains.is_empty() => "blocked domains",
            HostedTool::WebSearch(search) if search.max_uses.is_some() => "a maximum number of searches",
            _ => continue,
        };
        let problem = format!("the web search of the Responses API does not have {setting}");
        return Err(ModelError::Unsupported(problem));
    }
    Ok(())
}

/// Encodes a hosted tool for the Responses API. Returns `None` for a tool that the API does not
/// have; a request with this tool was rejected before.
fn encode_hosted_tool(tool: &HostedTool) -> Option<Value> {
    Some(match tool {
        HostedTool::WebSearch(search) => encode_web_search(search),
        HostedTool::CodeExecution => json!({"type": "code_interpreter", "container": {"type": "auto"}}),
        HostedTool::FileSearch(search) => encode_file_search(search),
        HostedTool::McpServer(server) => encode_mcp_server(server),
        _ => return None,
    })
}

fn encode_web_search(search: &WebSearch) -> Value {
    let mut tool = json!({"type": "web_search"});
    if !search.allowed_domains.is_empty() {
        tool["filters"] = json!({"allowed_domains": search.allowed_domains});
    }
    tool
}

fn encode_file_search(search: &FileSearch) -> Value {
    let mut tool = json!({"type": "file_search", "vector_store_ids": search.stores});
    if let Some(maximum) = search.max_results {
        tool["max_num_results"] = maximum.into();
    }
    tool
}

fn encode_mcp_server(server: &HostedMcpServer) -> Value {
    let mut tool = json!({
        "type": "mcp",
        "server_label": server.name,
        "server_url": server.url,
        "require_approval": "never",
    });
    if let Some(token) = &server.token {
        tool["authorization"] = token.as_str().into();
    }
    if !server.allowed_tools.is_empty() {
        tool["allowed_tools"] = json!(server.allowed_tools);
    }
    tool
}

/// Returns the values of `include` that make the API send the results of `tools`.
pub(crate) fn included_results(tools: &[HostedTool]) -> impl Iterator<Item = &'static str> {
    let mut results: Vec<_> = tools
        .iter()
        .filter_map(|tool| match tool {
            HostedTool::WebSearch(_) => Some("web_search_call.action.sources"),
            HostedTool::CodeExecution => Some("code_interpreter_call.outputs"),
            HostedTool::FileSearch(_) => Some("file_search_call.results"),
            _ => None,
        })
        .collect();
    results.dedup();
    results.into_iter()
}
