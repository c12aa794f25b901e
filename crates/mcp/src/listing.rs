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
use tokio::time::{Instant, timeout, timeout_at};

use crate::{
    ServerOptions, ToolFilter,
    connection::{Connection, RequestError},
    connection_handle::ConnectionHandle,
    feature_tools::FeatureTools,
    hidden_chars,
    pages::next_cursor,
    pins::{DefinitionChange, ServerPins},
    tolerant_schema,
    tool::{McpTool, Operation},
    transport::UNREADABLE,
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
    /// The fault that has ended the list early.
    fault: Option<String>,
    /// `true` if a page could not be fetched, so that a later attempt may return more tools.
    pub(crate) is_partial: bool,
    /// The features of the server that are available as tools.
    features: FeatureTools,
    /// The time to live of the list, from now. `None` if the server sends none.
    pub(crate) ttl: Option<Duration>,
}

impl Listing {
    /// Fetches all pages of the tool list over `connection`. Returns a clone of `previous` if the
    /// list has not changed, or if a page cannot be fetched and `previous` has more tools. A
    /// complete list is not replaced with a partial one.
    pub(crate) async fn fetch(
        connection: &Connection,
        handle: &ConnectionHandle,
        previous: Option<&Self>,
        limits: ListLimits,
    ) -> Result<Self, ListError> {
        let timed_out = |_| ListError::TimedOut(limits.timeout);
        let may_be_partial = previous.is_none_or(|previous| previous.is_partial);
        let Pages { tools: tools_json, ttl, fault, is_partial } =
            fetch_pages(connection, &limits, may_be_partial).await?;
        let features = limits.features.supported_by(connection);
        Ok(match previous {
            Some(previous) if is_partial && tools_json.len() < previous.tools_json.len() => previous.clone(),
            Some(previous)
                if previous.tools_json == tools_json
                    && previous.features == features
                    && previous.fault == fault =>
            {
                Self { ttl, is_partial, ..previous.clone() }
            }
            _ => {
                let checking = check_pins(tools_json, limits.pins.clone());
                let (tools_json, changes) = timeout(limits.timeout, checking).await.map_err(timed_out)??;
                let tools =
                    build_tool_list(&tools_json, handle, &limits, &changes, features, fault.as_deref());
                Self { tools_json, tools, fault, is_partial, features, ttl }
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
        Ok(tools.map(|tools| build_tool_list(&tools, handle, limits, &[], FeatureTools::default(), None)))
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
    #[error("cannot compare the tools with the accepted definitions: {0}")]
    Pins(#[from] io::Error),
}

impl ListError {
    /// Returns `true` if the connection is lost or not permitted, so that no page can be fetched.
    fn is_about_connection(&self) -> bool {
        match self {
            #[cfg(feature = "http")]
            Self::Request(RequestError::LoginRequired(_)) => true,
            Self::Request(RequestError::NotSent | RequestError::Lost) => true,
            _ => false,
        }
    }
}

/// All pages of a tool list.
#[derive(Default)]
struct Pages {
    tools: Vec<Value>,
    /// The shortest time to live of a page (`ttlMs`).
    ttl: Option<Duration>,
    /// The fault that has ended the list early.
    fault: Option<String>,
    /// `true` if a page could not be fetched.
    is_partial: bool,
}

/// Fetches the pages of a tool list. One odd page must not cost a server: a repeated cursor, too
/// many pages and, if `may_be_partial`, the fault of a page after the first end the list, and the
/// tools so far are kept.
async fn fetch_pages(
    connection: &Connection,
    limits: &ListLimits,
    may_be_partial: bool,
) -> Result<Pages, ListError> {
    let deadline = Instant::now() + limits.timeout;
    let mut pages = Pages::default();
    let mut used = HashSet::new();
    let mut cursor: Option<String> = None;
    for number in 1..=limits.max_pages {
        let fetching = timeout_at(deadline, fetch_page(connection, cursor.clone()));
        let page = fetching.await.unwrap_or(Err(ListError::TimedOut(limits.timeout)));
        match page.and_then(|page| pages.add(page)) {
            // A server without tools does not have to implement `tools/list`, so this error means
            // an empty list.
            Err(ListError::Request(RequestError::Rejected(error)))
                if number == 1 && error.code == ErrorCode::METHOD_NOT_FOUND =>
            {
                return Ok(pages);
            }
            Err(error) if number > 1 && may_be_partial && !error.is_about_connection() => {
                let pages = pages.ended_by(format!("page {number}: {error}"));
                return Ok(Pages { is_partial: true, ..pages });
            }
            Err(error) => return Err(error),
            Ok(page) => {
                used.extend(cursor.take());
                match next_cursor(&page, connection.has_empty_cursors(), |it| used.contains(it)) {
                    Ok(None) => return Ok(pages),
                    Ok(Some(next)) => cursor = Some(next.to_owned()),
                    Err(fault) => return Ok(pages.ended_by(format!("page {number}: {fault}"))),
                }
            }
        }
    }
    Ok(pages.ended_by(format!("it has more than {} pages", limits.max_pages)))
}

impl Pages {
    /// Moves the tools out of `page`, and returns the rest of it.
    fn add(&mut self, mut page: Value) -> Result<Value, ListError> {
        match page.get_mut("tools").map(Value::take) {
            Some(Value::Array(tools)) => self.tools.extend(tools),
            // Programs in Go write an empty list as `null`.
            Some(Value::Null) => {}
            _ => return Err(ListError::Malformed("a page has no array `tools`")),
        }
        let ttl = page.get("ttlMs").and_then(Value::as_u64).map(Duration::from_millis);
        self.ttl = self.ttl.into_iter().chain(ttl).min();
        Ok(page)
    }

    /// Ends the list with `fault`. The server may have sent a page again, so each name is kept
    /// once.
    fn ended_by(mut self, fault: String) -> Self {
        let mut names = HashSet::new();
        let mut is_first = |tool: &Value| match tool.get("name").and_then(Value::as_str) {
            Some(name) => names.insert(name.to_owned()),
            None => true,
        };
        self.tools.retain(|tool| is_first(tool));
        Self { fault: Some(fault), ..self }
    }
}

async fn fetch_page(connection: &Connection, cursor: Option<String>) -> Result<Value, ListError> {
    let request = match cursor {
        Some(_) => ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor)),
        None => ListToolsRequest::default(),
    };
    Ok(connection.request(ClientRequest::ListToolsRequest(request)).await?)
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
    fault: Option<&str>,
) -> ToolList {
    let label = handle.label();
    let mut tools = Vec::new();
    let (mut names, mut original_names) = (HashSet::new(), HashSet::new());
    let mut diagnostics = Vec::new();
    diagnostics.extend(fault.map(|fault| Diagnostic::Incomplete {
        source_label: label.to_owned(),
        reason: without_hidden_chars(fault).into_owned(),
    }));
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
            Ok(ParsedTool { original_name, definition, unchecked }) => {
                diagnostics.extend(unchecked.into_iter().map(|reason| Diagnostic::Unchecked {
                    tool: hidden_chars::escape_hidden(original_name),
                    source_label: label.to_owned(),
                    reason: without_hidden_chars(&reason).into_owned(),
                }));
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

/// A parsed entry of a tool list.
#[derive(Debug)]
pub(crate) struct ParsedTool<'a> {
    /// The name that the server uses for the tool.
    pub(crate) original_name: &'a str,
    pub(crate) definition: ToolDefinition,
    /// The parts of the schemas that are not checked, because they have a defect.
    pub(crate) unchecked: Vec<String>,
}

/// Parses `tool`, an entry of a tool list.
///
/// # Errors
///
/// Returns the text of the diagnostic that explains why the tool is omitted.
pub(crate) fn parse_definition(tool: &Value) -> Result<ParsedTool<'_>, String> {
    let original_name = tool.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let original_name = original_name.ok_or("no `name`")?;
    if let Some(reason) = tool.get(UNREADABLE).and_then(Value::as_str) {
        return Err(reason.to_owned());
    }
    let input_schema = match tool.get("inputSchema") {
        Some(schema @ Value::Object(_)) => {
            tolerant_schema::compile(with_visible_notes(schema.clone()), Schema::for_arguments)
        }
        Some(other) => {
            return Err(format!(
                "`inputSchema` must be an object, not {}",
                truncate(&other.to_string(), MAX_EXCERPT_BYTES)
            ));
        }
        None => return Err("no `inputSchema`".to_owned()),
    };
    let (input_schema, defects) = input_schema.map_err(|error| format!("`inputSchema`: {error}"))?;
    let mut unchecked: Vec<_> =
        defects.map(|defects| format!("`inputSchema`: {defects}")).into_iter().collect();
    let text = |object: &Value, key| {
        object.get(key).and_then(Value::as_str).map(|text| without_hidden_chars(text).into_owned())
    };
    let mut definition = ToolDefinition::new(ToolName::sanitize(original_name), input_schema)
        .with_description(text(tool, "description").unwrap_or_default());
    match tool.get("outputSchema") {
        None | Some(Value::Null) => {}
        Some(schema) => {
            // The schema of a result is a promise of the server. Without it, the tool is usable.
            let defects = match tolerant_schema::compile(with_visible_notes(schema.clone()), Schema::new) {
                Ok((schema, defects)) => {
                    definition = definition.with_output_schema(schema);
                    defects
                }
                Err(error) => Some(error),
            };
            unchecked.extend(defects.map(|defects| format!("`outputSchema`: {defects}")));
        }
    }
    let hints = tool.get("annotations").unwrap_or(&Value::Null);
    if let Some(title) = text(tool, "title").or_else(|| text(hints, "title")) {
        definition = definition.with_title(title);
    }
    definition = definition.with_annotations(annotations(hints)).with_metadata(metadata(tool));
    Ok(ParsedTool { original_name, definition, unchecked })
}

/// Removes hidden characters from the texts and names in `schema`, which models read.
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
