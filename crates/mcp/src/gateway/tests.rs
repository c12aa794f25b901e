use haft_core::{
    Toolset,
    tool::{HostState, Principal},
    tool_fn,
    toolset::ListContext,
};
use serde_json::{Map, Value};

use super::{GatewayClient, GatewayConfig, OTHER_CLIENTS};
use crate::ToolFilter;

fn source(names: &[&str]) -> Toolset {
    let tool = |name: &&str| tool_fn(name, "A tool.", |_: Map<String, Value>| async { "done" });
    names.iter().fold(Toolset::new(), |tools, name| tools.with_tool(tool(name)))
}

async fn names_for(tools: &Toolset, principal: Option<&str>) -> Vec<String> {
    let principal = principal.map(|id| Principal { id: id.to_owned(), ..Principal::default() });
    let state = principal.map(|it| HostState::new().with_value(it)).unwrap_or_default();
    let list = tools.list(&ListContext { state, ..ListContext::default() }).await;
    list.tools().iter().map(|tool| tool.definition().name().to_string()).collect()
}

#[tokio::test]
async fn rules_are_applied_to_new_names() {
    let config = GatewayConfig::default()
        .with_renamed_tool("files_read", "read")
        .with_tool_filter(ToolFilter::allow(["read", "mail_*"]).and_deny(["mail_send"]))
        .with_approval("mail_*");
    let sources = [("files", source(&["read", "write"])), ("mail", source(&["read", "send"]))];
    let tools = config.toolset(sources).unwrap();
    assert_eq!(tools.names().await, ["read", "mail_read"]);
    let needs_approval = |name: &'static str| {
        let tools = tools.clone();
        async move { tools.definition(name).await.unwrap().policy().requires_approval }
    };
    assert!(!needs_approval("read").await);
    assert!(needs_approval("mail_read").await);
}

#[tokio::test]
async fn tool_of_the_first_source_is_offered_without_prefixes() {
    let config = GatewayConfig::default().without_prefixes();
    let tools = config.toolset([("a", source(&["read"])), ("b", source(&["read", "write"]))]).unwrap();
    assert_eq!(tools.names().await, ["read", "write"]);
}

#[tokio::test]
async fn client_has_only_its_tools() {
    let rules = |pattern| GatewayClient::new(ToolFilter::allow([pattern]));
    let config = GatewayConfig::default().with_client("ann", rules("files_*"));
    let sources = || [("files", source(&["read"])), ("mail", source(&["send"]))];

    let tools = config.toolset(sources()).unwrap();
    assert_eq!(names_for(&tools, Some("ann")).await, ["files_read"]);
    assert!(names_for(&tools, Some("ben")).await.is_empty());
    assert!(names_for(&tools, None).await.is_empty());

    let tools = config.with_client(OTHER_CLIENTS, rules("mail_*")).toolset(sources()).unwrap();
    assert_eq!(names_for(&tools, Some("ann")).await, ["files_read"]);
    assert_eq!(names_for(&tools, Some("ben")).await, ["mail_send"]);
    assert_eq!(names_for(&tools, None).await, ["mail_send"]);
}

#[test]
fn debug_output_has_no_token() {
    let config = GatewayConfig::default().with_client("ann", GatewayClient::default().with_token("s3cret"));
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn invalid_new_name_is_an_error() {
    let config = GatewayConfig::default().with_renamed_tool("a_read", "my read");
    assert!(config.toolset([("a", source(&["read"]))]).is_err());
}

/// A source cannot take the name of a tool of another source.
#[tokio::test]
async fn prefix_of_another_source_is_protected() {
    let sources = [("db", source(&["query", "admin_query"])), ("db_admin", source(&["query"]))];
    let tools = GatewayConfig::default().toolset(sources).unwrap();
    assert_eq!(tools.names().await, ["db_query", "db_admin_query"]);
    let list = tools.list(&ListContext::default()).await;
    assert!(list.diagnostics().is_empty());
}

/// A conflict of new names affects only the tools that conflict.
#[tokio::test]
async fn conflict_of_new_names_hides_one_tool() {
    let config = GatewayConfig::default().with_renamed_tool("files_read", "mail_fetch");
    let sources = [("files", source(&["read", "write"])), ("mail", source(&["fetch", "send"]))];
    let tools = config.toolset(sources).unwrap();
    assert_eq!(tools.names().await, ["mail_fetch", "files_write", "mail_send"]);
}
