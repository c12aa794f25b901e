//! The tools of a request: those of the program, and those of the provider.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    message::MessageBody,
    model::{
        ChatRequest, HostedMcpServer, HostedTool, ModelError, ToolChoice, WebSearch, adapter::valid_tool_name,
    },
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use serde_json::{Map, Value, json, value::RawValue, value::to_raw_value};

use super::MessagesApi;
use crate::format::{EncodedTool, cached_tools, kind_of, markers_of, placeholder, with_member};

/// The number of tools that the model sees without a search, if the others are deferred. The tools
/// are those at the start of the list, so that the choice never changes.
const LOADED_TOOLS: usize = 5;

/// The version of the MCP connector, a beta of the API.
const MCP_BETA: &str = "mcp-client-2025-11-20";

/// The fields of a request that concern tools. All of them are omitted from a request without tools.
#[derive(Serialize)]
pub(super) struct ToolFields<'a> {
    tools: Tools<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireToolChoice<'a>>,
}

/// The `tools` field: the tools of the program, and then those of the provider.
struct Tools<'a> {
    own: Arc<[EncodedTool]>,
    /// The name of the tool that is not deferred because the model must call it. `None` if no tools
    /// are deferred.
    deferred_except: Option<Option<&'a str>>,
    hosted: Vec<Box<RawValue>>,
    cache_control: Option<&'a str>,
}

#[derive(Serialize)]
struct WireToolChoice<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

impl<'a> ToolFields<'a> {
    pub(super) fn new(api: &'a MessagesApi, request: &'a ChatRequest) -> Result<Option<Self>, ModelError> {
        let own = cached_tools(&request.tools, api.settings.strict_tools);
        let mut hosted = hosted_tools(request)?;
        let defers =
            own.len() > api.settings.tool_search_threshold.max(LOADED_TOOLS) && api.family.has_tool_search;
        if defers {
            hosted.push(json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}));
        }
        let mut hosted: Vec<_> = hosted.iter().filter_map(|tool| to_raw_value(tool).ok()).collect();
        hosted.extend(api.missing_found_tools(request));
        let mut tool_choice = WireToolChoice::new(request);
        if own.is_empty() && hosted.is_empty() {
            hosted = called_tools(request);
            if hosted.is_empty() {
                return Ok(None);
            }
            tool_choice = Some(WireToolChoice::of("none"));
        }
        let forced = match &request.tool_choice {
            ToolChoice::Tool(name) => Some(name.as_str()),
            _ => None,
        };
        let cache_control = api.settings.cache_control;
        let tools = Tools { own, deferred_except: defers.then_some(forced), hosted, cache_control };
        Ok(Some(Self { tools, tool_choice }))
    }
}

impl<'a> WireToolChoice<'a> {
    fn of(kind: &'static str) -> Self {
        Self { r#type: kind, name: None, disable_parallel_tool_use: None }
    }

    fn new(request: &'a ChatRequest) -> Option<Self> {
        let is_serial = request.settings.parallel_tool_calls == Some(false);
        let disable_parallel_tool_use = is_serial.then_some(true);
        let (kind, name) = match &request.tool_choice {
            ToolChoice::None => return Some(Self::of("none")),
            ToolChoice::Auto if !is_serial => return None,
            ToolChoice::Auto => ("auto", None),
            // Without tools of the program, a call of a hosted tool cannot be required.
            ToolChoice::Required if request.tools.is_empty() => return None,
            ToolChoice::Required => ("any", None),
            ToolChoice::Tool(name) => ("tool", Some(name.as_str())),
        };
        Some(Self { r#type: kind, name, disable_parallel_tool_use })
    }
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let last = (self.own.len() + self.hosted.len()).checked_sub(1);
        let mut write = |place: usize, tool: &RawValue| match self.cache_control {
            Some(member) if Some(place) == last => list.serialize_element(&with_member(tool, member)),
            _ => list.serialize_element(tool),
        };
        for (place, tool) in self.own.iter().enumerate() {
            let is_deferred = place >= LOADED_TOOLS
                && self.deferred_except.is_some_and(|forced| forced != Some(tool.name.as_str()));
            if is_deferred {
                write(place, &with_member(&tool.json, r#""defer_loading":true"#))?;
            } else {
                write(place, &tool.json)?;
            }
        }
        for (place, tool) in (self.own.len()..).zip(&self.hosted) {
            write(place, tool)?;
        }
        list.end()
    }
}

/// Encodes the hosted tools of `request`.
fn hosted_tools(request: &ChatRequest) -> Result<Vec<Value>, ModelError> {
    let encode = |tool: &HostedTool| match tool {
        HostedTool::WebSearch(search) => web_search(search),
        HostedTool::CodeExecution => Ok(json!({"type": "code_execution_20250825", "name": "code_execution"})),
        HostedTool::McpServer(server) => Ok(mcp_toolset(server)),
        other => Err(ModelError::Unsupported(format!("Anthropic has no hosted tool for {}", other.kind()))),
    };
    request.hosted_tools.iter().map(encode).collect()
}

fn web_search(search: &WebSearch) -> Result<Value, ModelError> {
    let WebSearch { allowed_domains, blocked_domains, max_uses, .. } = search;
    if !allowed_domains.is_empty() && !blocked_domains.is_empty() {
        let reason = "Anthropic's web search has either allowed or blocked domains, not both";
        return Err(ModelError::Unsupported(reason.to_owned()));
    }
    let mut tool = Map::new();
    tool.insert("type".to_owned(), "web_search_20250305".into());
    tool.insert("name".to_owned(), "web_search".into());
    for (key, domains) in [("allowed_domains", allowed_domains), ("blocked_domains", blocked_domains)] {
        if !domains.is_empty() {
            tool.insert(key.to_owned(), json!(domains));
        }
    }
    if let Some(max_uses) = max_uses {
        tool.insert("max_uses".to_owned(), json!(max_uses));
    }
    Ok(Value::Object(tool))
}

fn mcp_toolset(server: &HostedMcpServer) -> Value {
    let mut toolset = json!({"type": "mcp_toolset", "mcp_server_name": server.name});
    if let (false, Value::Object(toolset)) = (server.allowed_tools.is_empty(), &mut toolset) {
        let enabled = |name: &String| (name.clone(), json!({"enabled": true}));
        toolset.insert("default_config".to_owned(), json!({"enabled": false}));
        let configs: Map<_, _> = server.allowed_tools.iter().map(enabled).collect();
        toolset.insert("configs".to_owned(), Value::Object(configs));
    }
    toolset
}

/// An element of `mcp_servers`.
#[derive(Serialize)]
pub(super) struct WireMcpServer<'a> {
    r#type: &'static str,
    name: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorization_token: Option<&'a str>,
}

/// Returns the `mcp_servers` of `request`.
pub(super) fn mcp_servers<'a>(request: &'a ChatRequest) -> Vec<WireMcpServer<'a>> {
    let server = |tool: &'a HostedTool| match tool {
        HostedTool::McpServer(server) => Some(WireMcpServer {
            r#type: "url",
            name: &server.name,
            url: &server.url,
            authorization_token: server.token.as_deref(),
        }),
        _ => None,
    };
    request.hosted_tools.iter().filter_map(server).collect()
}

/// Returns placeholders for the tools of earlier calls. The API rejects calls in a request without
/// tools.
fn called_tools(request: &ChatRequest) -> Vec<Box<RawValue>> {
    let calls = request.messages.iter().flat_map(|message| message.tool_calls());
    let names: BTreeSet<_> = calls.map(|call| valid_tool_name(&call.name)).collect();
    names.iter().map(|name| placeholder(name)).collect()
}

impl MessagesApi {
    /// Returns the blocks in the provider data of the replies in `request`.
    fn earlier_blocks<'a>(&'a self, request: &'a ChatRequest) -> impl Iterator<Item = &'a Value> {
        let replies = request.messages.iter().filter_map(|message| match message.body() {
            MessageBody::Assistant(reply) => Some(reply),
            _ => None,
        });
        replies.flat_map(|reply| markers_of(reply, &self.encoding.origin))
    }

    /// Returns placeholders for the tools that an earlier search has found, and that are not in the
    /// list any more. The API rejects a result of a search with an unknown tool.
    fn missing_found_tools(&self, request: &ChatRequest) -> Vec<Box<RawValue>> {
        let results =
            self.earlier_blocks(request).filter(|block| kind_of(block) == "tool_search_tool_result");
        let references = results.filter_map(|block| block.pointer("/content/tool_references")?.as_array());
        let names = references.flatten().filter_map(|reference| reference.get("tool_name")?.as_str());
        let missing: BTreeSet<_> = names.filter(|name| request.tools.get(name).is_none()).collect();
        missing.into_iter().map(placeholder).collect()
    }

    /// Returns the header with the betas that `request` needs, and those of the program.
    pub(super) fn beta_headers(&self, request: &ChatRequest) -> Vec<(&'static str, String)> {
        let has_server = request.hosted_tools.iter().any(|tool| matches!(tool, HostedTool::McpServer(_)));
        // The blocks of earlier calls are a part of the beta too.
        let has_block = || self.earlier_blocks(request).any(|block| kind_of(block).starts_with("mcp_tool"));
        let uses_mcp = has_server || has_block();
        let own = self.settings.beta.as_ref().map(SecretString::expose_secret);
        let betas: Vec<_> = own.into_iter().chain([MCP_BETA]).collect();
        if uses_mcp { vec![("anthropic-beta", betas.join(","))] } else { Vec::new() }
    }
}
