//! The tool list of a server. Invalid tools are omitted and reported in a diagnostic.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use haft_core::{
    Schema, ToolDefinition, ToolName,
    text::{truncate, without_hidden_chars},
    tool::Annotations,
    toolset::{Diagnostic, ToolList},
};
use rmcp::model::{ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::{
    ServerOptions, ToolFilter,
    connection::{Connection, RequestError},
    connection_handle::ConnectionHandle,
    feature_tools::FeatureTools,
    hidden_chars,
    pins::{DefinitionChange, ServerPins},
    tool::{McpTool, Operation},
};

/// The maximum length of a schema that is quoted in a diagnostic, in bytes.
const MAX_EXCERPT_BYTES: usize = 60;

/// The complete tool list of a server, and its time to live.
#[derive(Clone)]
pub(crate) struct Listing {
    /// The tools as JSON, as sent by the server. A new list is compared with this JSON to detect
    /// changes.
    tools_json: Vec<Value>,
    pub(crate) tools: ToolList,
    /// The features of the server that are available as tools.
    features: FeatureTools,
    /// The time to live of the list, from now. `None` if the server sends none.
    pub(crate) ttl: Option<Duration>,
}

impl Listing {
    /// Fetches all pages of the tool list over `connection`. Returns a clone of `previous` if the
    /// list has not changed.
    pub(crate) async fn fetch(
        connection: &Connection,
        handle: &ConnectionHandle,
        previous: Option<&Self>,
        limits: ListLimits,
    ) -> Result<Self, ListError> {
        let timed_out = |_| ListError::TimedOut(limits.timeout);
        let fetching = fetch_pages(connection, limits.max_pages);
        let Pages { tools: tools_json, ttl } =
            timeout(limits.timeout, fetching).await.map_err(timed_out)??;
        let features = limits.features.supported_by(connection);
        Ok(match previous {
            Some(previous) if previous.tools_json == tools_json && previous.features == features => {
                Self { ttl, ..previous.clone() }
            }
            _ => {
                let checking = check_pins(tools_json, limits.pins.clone());
                let (tools_json, changes) = timeout(limits.timeout, checking).await.map_err(timed_out)??;
                let tools = build_tool_list(&tools_json, handle, &limits, &changes, features);
                Self { tools_json, tools, features, ttl }
            }
        })
    }
}

impl Listing {
    /// Returns the tools with the accepted definitions in `pins`. Returns `None` if the server has
    /// no pins.
    pub(crate) async fn accepted(
        handle: &ConnectionHandle,
        pins: ServerPins,
        limits: &ListLimits,
    ) -> io::Result<Option<ToolList>> {
        let reading = tokio::task::spawn_blocking(move || pins.accepted());
        let tools = reading.await.map_err(io::Error::other)??;
        Ok(tools.map(|tools| build_tool_list(&tools, handle, limits, &[], FeatureTools::default())))
    }
}

/// Limits for fetching a tool list, and the selection of its tools.
#[derive(Clone)]
pub(crate) struct ListLimits {
    /// The maximum time to fetch all pages, in total.
    pub(crate) timeout: Duration,
    /// The maximum number of pages.
    pub(crate) max_pages: usize,
    pub(crate) filter: ToolFilter,
    /// The timeout of the calls.
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) pins: Option<ServerPins>,
    /// The features that are available as tools if the server has them.
    pub(crate) features: FeatureTools,
}

impl From<&ServerOptions> for ListLimits {
    fn from(options: &ServerOptions) -> Self {
        let ServerOptions {
            list_timeout,
            call_timeout,
            max_list_pages,
            tool_filter,
            pins,
            resource_tools,
            prompt_tools,
            ..
        } = options;
        let features = FeatureTools { resources: *resource_tools, prompts: *prompt_tools };
        let (filter, pins) = (tool_filter.clone(), pins.clone());
        let (timeout, call_timeout, max_pages) = (*list_timeout, *call_timeout, *max_list_pages);
        Self { timeout, max_pages, filter, call_timeout, pins, features }
    }
}

/// An error from [`Listing::fetch`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("the server did not list its tools within {0:?}")]
    TimedOut(Duration),
    #[error("cannot list the tools: {0}")]
    Request(#[from] RequestError),
    #[error("invalid tool list: {0}")]
    Malformed(&'static str),
    #[error("invalid tool list: the cursor {0:?} is repeated")]
    RepeatedCursor(String),
    #[error("cannot compare the tools with the accepted definitions: {0}")]
    Pins(#[from] io::Error),
    #[error("the tool list has more than {0} pages")]
    TooManyPages(usize),
}

/// All pages of a tool list.
#[derive(Default)]
struct Pages {
    tools: Vec<Value>,
    /// The shortest time to live of a page (`ttlMs`).
    ttl: Option<Duration>,
}

async fn fetch_pages(connection: &Connection, limit: usize) -> Result<Pages, ListError> {
    let mut pages = Pages::default();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..limit {
        let mut page = match fetch_page(connection, cursor.take()).await {
            // A server without tools does not have to implement `tools/list`, so this error means
            // an empty list.
            Err(RequestError::Rejected(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                return Ok(pages);
            }
            page => page?,
        };
        let ttl = page.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
        pages.ttl = pages.ttl.into_iter().chain(ttl).min();
        match page.get_mut("tools").map(Value::take) {
            Some(Value::Array(page)) => pages.tools.extend(page),
            _ => return Err(ListError::Malformed("a page has no array `tools`")),
        }
        match page.get_mut("nextCursor").map(Value::take) {
            None | Some(Value::Null) => return Ok(pages),
            Some(Value::String(next)) if seen.contains(&next) => return Err(ListError::RepeatedCursor(next)),
            Some(Value::String(next)) => {
                seen.insert(next.clone());
                cursor = Some(next);
            }
            Some(_) => return Err(ListError::Malformed("`nextCursor` is not a string")),
        }
    }
    Err(ListError::TooManyPages(limit))
}

async fn fetch_page(connection: &Connection, cursor: Option<String>) -> Result<Value, RequestError> {
    let request = match cursor {
        Some(_) => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor)),
        None => ListToolsRequest::default(),
    };
    connection.request(ClientRequest::ListToolsRequest(request)).await
}

/// Compares `tools_json` with the accepted definitions in `pins`. Returns `tools_json` and the
/// changes.
async fn check_pins(
    tools_json: Vec<Value>,
    pins: Option<ServerPins>,
) -> Result<(Vec<Value>, Vec<DefinitionChange>), ListError> {
    let Some(pins) = pins else { return Ok((tools_json, Vec::new())) };
    let checking = tokio::task::spawn_blocking(move || {
        let changes = pins.check(&tools_json);
        (tools_json, changes)
    });
    let (tools_json, changes) = checking.await.map_err(io::Error::other)?;
    Ok((tools_json, changes?))
}

fn build_tool_list(
    json: &[Value],
    handle: &ConnectionHandle,
    limits: &ListLimits,
    changes: &[DefinitionChange],
    features: FeatureTools,
) -> ToolList {
    let label = handle.label();
    let mut tools = Vec::new();
    let (mut names, mut original_names) = (HashSet::new(), HashSet::new());
    let mut diagnostics = Vec::new();
    let is_selected = |tool: &&Value| {
        tool.get("name").and_then(Value::as_str).is_none_or(|name| limits.filter.selects(name))
    };
    for (index, tool) in json.iter().filter(is_selected).filter(|tool| is_for_models(tool)).enumerate() {
        let name = tool.get("name").and_then(Value::as_str);
        let change = changes.iter().find(|change| Some(&*change.tool) == name);
        // The pins compare only the first tool of each name.
        let is_repeated = name.is_some_and(|name| !original_names.insert(name));
        let definition = match change {
            _ if is_repeated => Err("an earlier tool has the same name".to_owned()),
            Some(change) => Err(format!(
                "it is withheld until its definition is accepted, for example with `haft mcp accept`: {change}"
            )),
            None => parse_definition(tool),
        };
        match definition {
            Ok((original_name, definition)) => {
                names.insert(definition.name().clone());
                let definition = match limits.call_timeout {
                    Some(timeout) => definition.map_policy(|policy| policy.with_timeout(timeout)),
                    None => definition,
                };
                let operation = Operation::CallTool;
                let tool = McpTool::new(definition, original_name.to_owned(), handle.clone(), operation);
                tools.push((label, Arc::new(tool) as _));
            }
            Err(reason) => {
                let tool = name.map_or_else(|| format!("number {}", index + 1), hidden_chars::escape_hidden);
                let reason = without_hidden_chars(&reason).into_owned();
                diagnostics.push(Diagnostic::Quarantined { tool, source_label: label.to_owned(), reason });
            }
        }
    }
    tools.extend(features.tools(handle, &names).into_iter().map(|tool| (label, Arc::new(tool) as _)));
    ToolList::collect(tools, diagnostics)
}

/// Returns `false` if `tool` is for the user interface of an app only (MCP Apps extension,
/// `_meta.ui.visibility`). The default is both.
pub(crate) fn is_for_models(tool: &Value) -> bool {
    let visibility = tool.pointer("/_meta/ui/visibility").and_then(Value::as_array);
    visibility.is_none_or(|visibility| visibility.iter().any(|audience| audience == "model"))
}

/// Parses `tool`, an entry of a tool list. Returns the name that the server uses for the tool, and
/// the tool's definition.
///
/// # Errors
///
/// Returns the text of the diagnostic that explains why the tool is omitted.
pub(crate) fn parse_definition(tool: &Value) -> Result<(&str, ToolDefinition), String> {
    let original_name = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let original_name = original_name.ok_or("no `name`")?;
    let input_schema = match tool.get("inputSchema") {
        Some(schema @ Value::Object(_)) => Schema::for_arguments(with_visible_notes(schema.clone())),
        Some(other) => {
            return Err(format!(
                "`inputSchema` must be an object, not {}",
                truncate(&other.to_string(), MAX_EXCERPT_BYTES)
            ));
        }
        None => return Err("no `inputSchema`".to_owned()),
    };
    let input_schema = input_schema.map_err(|error| format!("`inputSchema`: {error}"))?;
    let text = |object: &Value, key| {
        object.get(key).and_then(Value::as_str).map(|text| without_hidden_chars(text).into_owned())
    };
    let mut definition = ToolDefinition::new(ToolName::sanitize(original_name), input_schema)
        .with_description(text(tool, "description").unwrap_or_default());
    match tool.get("outputSchema") {
        None | Some(Value::Null) => {}
        Some(schema) => {
            let schema = Schema::new(schema.clone()).map_err(|error| format!("`outputSchema`: {error}"))?;
            definition = definition.with_output_schema(schema);
        }
    }
    let hints = tool.get("annotations").unwrap_or(&Value::Null);
    if let Some(title) = text(tool, "title").or_else(|| text(hints, "title")) {
        definition = definition.with_title(title);
    }
    Ok((original_name, definition.with_annotations(annotations(hints)).with_metadata(metadata(tool))))
}

/// Removes hidden characters from the titles and descriptions in `schema`. Models read these texts,
/// and they do not affect the validation.
fn with_visible_notes(mut schema: Value) -> Value {
    hidden_chars::remove_from_schema(&mut schema);
    schema
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
