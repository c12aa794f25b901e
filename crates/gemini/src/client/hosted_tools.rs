use haft_core::model::{HostedMcpServer, HostedTool, ModelError, WebSearch};
use serde_json::{Map, Value, json};

use crate::format::WireApi;

/// Encodes `tool` as an element of the list `tools` of a request.
///
/// # Errors
///
/// Fails with [`ModelError::Unsupported`] if the API has no field for a setting of the tool.
pub(super) fn encode_hosted_tool(tool: &HostedTool, api: WireApi) -> Result<Value, ModelError> {
    Ok(match (tool, api) {
        (HostedTool::WebSearch(search), api) => {
            check_web_search(search)?;
            match api {
                WireApi::GenerateContent => json!({"googleSearch": {}}),
                WireApi::Interactions => json!({"type": "google_search"}),
            }
        }
        (HostedTool::CodeExecution, WireApi::GenerateContent) => json!({"codeExecution": {}}),
        (HostedTool::CodeExecution, WireApi::Interactions) => json!({"type": "code_execution"}),
        (HostedTool::FileSearch(search), WireApi::GenerateContent) => {
            let stores = json!({"fileSearchStoreNames": search.stores});
            json!({"fileSearch": with_field(stores, "topK", search.max_results)})
        }
        (HostedTool::FileSearch(search), WireApi::Interactions) => {
            let stores = json!({"type": "file_search", "file_search_store_names": search.stores});
            with_field(stores, "top_k", search.max_results)
        }
        (HostedTool::McpServer(server), WireApi::GenerateContent) => {
            if !server.allowed_tools.is_empty() {
                return Err(unsupported("`generateContent` cannot restrict the tools of an MCP server"));
            }
            let transport = with_field(json!({"url": server.url}), "headers", headers_of(server));
            json!({"mcpServers": [{"name": server.name, "streamableHttpTransport": transport}]})
        }
        (HostedTool::McpServer(server), WireApi::Interactions) => {
            let tool = json!({"type": "mcp_server", "name": server.name, "url": server.url});
            let allowed =
                (!server.allowed_tools.is_empty()).then(|| json!([{"tools": server.allowed_tools}]));
            with_field(with_field(tool, "headers", headers_of(server)), "allowed_tools", allowed)
        }
        (other, _) => return Err(unsupported(&format!("Gemini has no hosted tool for {}", other.kind()))),
    })
}

/// Gemini's search has no settings. A search outside of the allowed domains, or after the last
/// allowed search, would be a surprise.
fn check_web_search(search: &WebSearch) -> Result<(), ModelError> {
    if *search == WebSearch::default() {
        return Ok(());
    }
    Err(unsupported("the web search of Gemini has no domains and no maximum number of uses"))
}

fn headers_of(server: &HostedMcpServer) -> Option<Value> {
    server.token.as_ref().map(|token| json!({"Authorization": format!("Bearer {token}")}))
}

/// Adds the field `name` to `object`, if there is a value.
fn with_field(mut object: Value, name: &str, value: Option<impl Into<Value>>) -> Value {
    let fields: Option<&mut Map<_, _>> = object.as_object_mut();
    if let (Some(fields), Some(value)) = (fields, value) {
        fields.insert(name.to_owned(), value.into());
    }
    object
}

fn unsupported(reason: &str) -> ModelError {
    ModelError::Unsupported(reason.to_owned())
}
