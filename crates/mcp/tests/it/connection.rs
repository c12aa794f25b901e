use haft_core::schemars::{self, JsonSchema};
use haft_core::{FailureKind, ListContext, ToolExt as _, ToolSource as _, Toolset, tool_fn};
use haft_mcp::{McpSource, mcp_tool, serve};
use rmcp::{RoleClient, ServiceExt as _, service::RunningService};
use serde_json::json;

#[derive(serde::Deserialize, JsonSchema)]
struct Add {
    x: i64,
    y: i64,
}

/// A connection that a user has already.
async fn running() -> RunningService<RoleClient, ()> {
    let (client, server) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(server);
    let tools = Toolset::new().with(tool_fn("add", "Adds.", |Add { x, y }| async move { x + y }));
    tokio::spawn(serve(tools, reader, writer));
    ().serve(client).await.unwrap()
}

/// BEHAVIOUR F80.
#[tokio::test]
async fn a_running_service_is_a_source() {
    let source = McpSource::from_service(running().await).await.unwrap();
    assert_eq!(source.label(), "mcp:haft");
    let list = source.tools(&ListContext::default()).await.unwrap();
    let add = list.get("add").unwrap();
    assert_eq!(add.invoke(json!({"x": 17, "y": 25})).await.model_text(), "42");
    drop(source);
    let failure = add.invoke(json!({"x": 1, "y": 1})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Failed, "mcp:haft is closed"));
}

/// BEHAVIOUR F80.
#[tokio::test]
async fn one_tool_of_a_connection() {
    let service = running().await;
    let listed = service.peer().list_tools(None).await.unwrap();
    let add = mcp_tool(service.peer(), &listed.tools[0]).unwrap();
    assert_eq!(add.invoke(json!({"x": 17, "y": 25})).await.model_text(), "42");
    service.cancel().await.unwrap();
    let failure = add.invoke(json!({"x": 1, "y": 1})).await.into_output().unwrap_err();
    assert_eq!((failure.kind, &*failure.message), (FailureKind::Failed, "mcp:haft is closed"));
}
