//! Reads a server's list of tools, tool by tool: a bad one costs itself only.

use std::{collections::HashSet, sync::Arc, time::Duration};

use haft_core::{
    Schema, ToolDefinition, ToolName, limits,
    text::truncate,
    tool::Annotations,
    toolset::{Diagnostic, ToolList},
};
use rmcp::model::{ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::{
    connection::{Connection, RequestError},
    link::Link,
    tool::McpTool,
};

/// Length of an excerpt of an invalid schema, in bytes.
const EXCERPT: usize = 60;

/// A list as the server wrote it, and what was made of it.
#[derive(Clone)]
pub(crate) struct Listing {
    written: Vec<Value>,
    pub(crate) tools: ToolList,
}

impl Listing {
    /// Asks for the list. When it is what it was before, the answer is the same snapshot.
    pub(crate) async fn read(
        connection: &Connection,
        link: &Link,
        before: Option<&Self>,
        bounds: Bounds,
    ) -> Result<Self, ListError> {
        let written = timeout(bounds.timeout, read_pages(connection, bounds.pages))
            .await
            .map_err(|_| ListError::TimedOut(bounds.timeout))??;
        Ok(match before {
            Some(before) if before.written == written => before.clone(),
            _ => {
                let tools = tool_list(&written, link);
                Self { written, tools }
            }
        })
    }
}

/// How long a list may take and be.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) timeout: Duration,
    pub(crate) pages: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { timeout: limits::LIST_TIMEOUT, pages: limits::LIST_PAGES }
    }
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("it did not list its tools within {0:?}")]
    TimedOut(Duration),
    #[error("it does not list its tools: {0}")]
    Request(#[from] RequestError),
    #[error("its list of tools cannot be read: {0}")]
    Malformed(&'static str),
    #[error("its list of tools comes back to the page {0:?}")]
    Circular(String),
    #[error("its list of tools has more than {0} pages")]
    TooLong(usize),
}

async fn read_pages(connection: &Connection, limit: usize) -> Result<Vec<Value>, ListError> {
    let mut tools = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..limit {
        let mut page = match read_page(connection, cursor.take()).await {
            // A server that has no tools at all need not know the question.
            Err(RequestError::Refused(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                return Ok(tools);
            }
            page => page?,
        };
        match page.get_mut("tools").map(Value::take) {
            Some(Value::Array(page)) => tools.extend(page),
            _ => return Err(ListError::Malformed("a page has no list \"tools\"")),
        }
        match page.get_mut("nextCursor").map(Value::take) {
            None | Some(Value::Null) => return Ok(tools),
            Some(Value::String(next)) if seen.contains(&next) => return Err(ListError::Circular(next)),
            Some(Value::String(next)) => {
                seen.insert(next.clone());
                cursor = Some(next);
            }
            Some(_) => return Err(ListError::Malformed("a \"nextCursor\" is no string")),
        }
    }
    Err(ListError::TooLong(limit))
}

async fn read_page(connection: &Connection, cursor: Option<String>) -> Result<Value, RequestError> {
    let request = match cursor {
        Some(_) => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor)),
        None => ListToolsRequest::default(),
    };
    connection.request(ClientRequest::ListToolsRequest(request), |_progress| {}).await
}

fn tool_list(written: &[Value], link: &Link) -> ToolList {
    let label = link.label();
    let mut tools = Vec::new();
    let mut diagnostics = Vec::new();
    for (place, tool) in written.iter().enumerate() {
        match definition(tool) {
            Ok((foreign_name, definition)) => {
                let tool = McpTool::new(definition, foreign_name.to_owned(), link.clone());
                tools.push((label, Arc::new(tool) as _));
            }
            Err(reason) => {
                let name = tool.get("name").and_then(Value::as_str);
                let tool = name.map_or_else(|| format!("number {}", place + 1), str::to_owned);
                diagnostics.push(Diagnostic::Quarantined { tool, source_label: label.to_owned(), reason });
            }
        }
    }
    ToolList::gather(tools, diagnostics)
}

/// Reads a tool's definition, and its name at the server.
pub(crate) fn definition(tool: &Value) -> Result<(&str, ToolDefinition), String> {
    let foreign_name = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let foreign_name = foreign_name.ok_or("it has no name")?;
    let input_schema = match tool.get("inputSchema") {
        Some(schema @ Value::Object(_)) => Schema::arguments(schema.clone()),
        Some(other) => {
            return Err(format!(
                "its inputSchema is no schema but {}",
                truncate(&other.to_string(), EXCERPT)
            ));
        }
        None => return Err("it has no inputSchema".to_owned()),
    };
    let input_schema = input_schema.map_err(|error| format!("its inputSchema: {error}"))?;
    let text = |holder: &Value, key| holder.get(key).and_then(Value::as_str).map(str::to_owned);
    let mut definition = ToolDefinition::new(ToolName::from_foreign(foreign_name), input_schema)
        .with_description(text(tool, "description").unwrap_or_default());
    match tool.get("outputSchema") {
        None | Some(Value::Null) => {}
        Some(schema) => {
            let schema = Schema::new(schema.clone()).map_err(|error| format!("its outputSchema: {error}"))?;
            definition = definition.with_output_schema(schema);
        }
    }
    let hints = tool.get("annotations").unwrap_or(&Value::Null);
    if let Some(title) = text(tool, "title").or_else(|| text(hints, "title")) {
        definition = definition.with_title(title);
    }
    Ok((foreign_name, definition.with_annotations(annotations(hints)).with_metadata(metadata(tool))))
}

fn annotations(hints: &Value) -> Annotations {
    let hint = |key| hints.get(key).and_then(Value::as_bool);
    Annotations {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

fn metadata(tool: &Value) -> Map<String, Value> {
    tool.get("_meta").and_then(Value::as_object).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
