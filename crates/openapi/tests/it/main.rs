//! Tests of OpenAPI documents as tool sources, against HTTP APIs in the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod documents;
mod requests;
mod responses;
mod security;
mod web;

use haft_core::{
    Toolset,
    call::{FailureKind, ToolResult},
};
use haft_openapi::{OpenApiOptions, OpenApiSource};
use serde_json::Value;

use self::web::Api;

/// Returns a document of OpenAPI 3.1 with `paths` and `components` in YAML, and with `api` as its
/// server.
fn document(api: &Api, paths: &str, components: &str) -> String {
    let head =
        format!("openapi: 3.1.0\ninfo: {{title: Test, version: '1'}}\nservers: [{{url: '{}'}}]\n", api.url);
    format!("{head}paths:\n{paths}\ncomponents:\n{components}")
}

/// Returns the tools of the document with `paths`.
fn tools(api: &Api, paths: &str) -> Toolset {
    tools_with(&document(api, paths, "  schemas: {}\n"), &OpenApiOptions::default())
}

fn tools_with(document: &str, options: &OpenApiOptions) -> Toolset {
    let source = OpenApiSource::from_text("test", document, options).unwrap();
    let diagnostics: Vec<_> = source.tool_list().diagnostics().iter().map(ToString::to_string).collect();
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    Toolset::new().with_source(source)
}

async fn call(tools: &Toolset, tool: &str, arguments: Value) -> ToolResult {
    tools.call(tool, arguments).await
}

/// Calls `tool` with arguments that are accepted.
async fn call_ok(tools: &Toolset, tool: &str, arguments: Value) -> ToolResult {
    let result = tools.call(tool, arguments).await;
    assert!(result.failure().is_none(), "{}", result.model_text());
    result
}

/// Calls `tool`, which fails. Returns the kind and the message of the failure.
async fn call_failed(tools: &Toolset, tool: &str, arguments: Value) -> (FailureKind, String) {
    let result = tools.call(tool, arguments).await;
    let failure = result.failure().unwrap_or_else(|| panic!("{}", result.model_text()));
    (failure.kind, failure.message.clone())
}
