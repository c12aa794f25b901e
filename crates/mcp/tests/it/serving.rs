use haft_core::{
    Json, ToolName, Toolset,
    call::FailureKind,
    export::schemars::{self, JsonSchema},
    tool_fn,
    toolset::ListContext,
};
use haft_mcp::{McpSource, serve_stdio};
use serde_json::json;

use crate::server;

#[derive(serde::Deserialize, JsonSchema)]
struct Add {
    x: i64,
    y: i64,
}

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

/// Serves two tools over standard input and output. Runs in the child process.
pub(crate) fn child() {
    let tools = Toolset::new()
        .with_tool(tool_fn("add", "Adds two integers.", |Add { x, y }| async move { Json(x + y) }))
        .with_tool(tool_fn("panic", "Panics.", |Nothing {}| async move {
            if true {
                panic!("at the disco");
            }
        }));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(serve_stdio(tools)).unwrap();
}

/// An `McpSource` lists and calls the tools of a `Toolset` that another process serves.
#[tokio::test(flavor = "multi_thread")]
async fn toolset_is_served_to_a_source() {
    let source = McpSource::connect("haft", server("toolset")).await.unwrap();
    let tools = Toolset::new().with_source(source);
    let list = tools.list(&ListContext::default()).await;
    assert_eq!(list.names().map(ToolName::as_str).collect::<Vec<_>>(), ["add", "panic"]);
    let sum = tools.call("add", json!({"x": 17, "y": 25})).await.into_output().unwrap();
    assert_eq!(sum.structured, Some(json!({"result": 42})));
    assert_eq!(sum.text(), "42");
    let failure = tools.call("panic", json!({})).await.into_output().unwrap_err();
    assert_eq!(failure.kind, FailureKind::Failed);
    assert_eq!(failure.message, "the tool panicked; it may have done a part of its work");
    assert_eq!(tools.call("add", json!({"x": 1, "y": 1})).await.model_text(), "2");
}
