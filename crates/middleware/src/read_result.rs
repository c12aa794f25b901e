//! A tool that reads results from the result store.

use std::borrow::Cow;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use haft_core::{
    Pipeline, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName,
    call::ToolResponse,
    limits,
    pipeline::ResultStore,
    schema::reference::join_pointer,
    tool::{Annotations, ToolPolicy, parse_arguments},
};

/// The default name of [`ReadResult`].
const TOOL_NAME: &str = "read_result";

/// The maximum number of handles listed in an error message.
const MAX_LISTED_HANDLES: usize = 10;

/// A tool that returns the full text of a truncated result, page by page. A page starts at a given
/// offset, or at the first occurrence of a given text at or after this offset.
///
/// The tool reads the result store of the [`Pipeline`] that runs its call. A result can be read
/// only by the principal of the call that produced it. If that call has no principal, the result
/// can be read only in the same run. If the model can call this tool, the note at the end of a
/// truncated result contains the arguments for the next page. A page has at most
/// [`limits::READ_RESULT_CHARACTERS`] characters.
///
/// # Examples
///
/// ```
/// use haft_middleware::ReadResult;
/// use haft_core::{tool, Toolset};
/// use serde_json::json;
///
/// /// Lists all entries.
/// #[tool(output_limit = 20)]
/// fn list() -> String {
///     "one two three four five six seven".to_owned()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let tools = Toolset::new().with_tool(List).with_tool(ReadResult::new());
/// let result = tools.call("list", json!({})).await;
/// let handle = result.output().and_then(|output| output.result_handle.clone()).unwrap_or_default();
/// assert_eq!(
///     result.model_text(),
///     format!(
///         "one two three four f\n[13 of 33 bytes in 1 pieces are cut; the whole result is stored as {handle:?}; \
///          read on with read_result {{\"handle\":{handle:?},\"offset\":20}}]"
///     )
/// );
/// let rest = tools.call("read_result", json!({"handle": handle, "offset": 20})).await;
/// assert_eq!(rest.model_text(), "[characters 20 to 33 of 33]\nive six seven");
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ReadResult(ToolDefinition);

#[derive(Deserialize)]
struct Arguments {
    handle: String,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
    find: Option<String>,
}

impl ReadResult {
    /// Creates the tool with the name `read_result`.
    pub fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The name under which the result is stored."},
                "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "The character to begin at, from 0."},
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": limits::READ_RESULT_CHARACTERS, "default": limits::READ_RESULT_CHARACTERS,
                    "description": "How many characters to read.",
                },
                "find": {"type": "string", "minLength": 1, "description": "A text to look for: begins where it occurs first, at the offset or after it."},
            },
            "required": ["handle"],
            "additionalProperties": false,
        });
        let definition = ToolDefinition::new(ToolName::sanitize(TOOL_NAME), Schema::object())
            .with_input_schema(schema)
            .with_description("Reads a part of a stored result: one that was too long to be shown whole.")
            .with_policy(ToolPolicy { idempotent: true, ..ToolPolicy::default() })
            .with_annotations(Annotations { read_only: Some(true), ..Annotations::default() });
        Self(definition.with_result_reading())
    }
}

impl Default for ReadResult {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for ReadResult {
    fn definition(&self) -> &ToolDefinition {
        &self.0
    }

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolResponse, ToolError> {
        let arguments: Arguments = parse_arguments(arguments)?;
        let pipeline = Pipeline::current(cx);
        let store = pipeline.as_ref().and_then(Pipeline::store);
        let store = store.ok_or_else(|| ToolError::failed("no results are stored here"))?;
        match store.get(&arguments.handle, cx).await.map_err(store_error)? {
            Some(output) => Ok(read_page(&output.text(), &arguments)?.into()),
            None => Err(unknown_handle_error(&**store, &arguments.handle, cx).await),
        }
    }
}

fn store_error(error: haft_core::call::BoxError) -> ToolError {
    ToolError::Failed { message: "cannot read stored results".to_owned(), source: Some(error) }
}

/// Returns the error for a `handle` without a result in `store`. The error text lists the newest
/// handles of the caller, if any.
async fn unknown_handle_error(store: &dyn ResultStore, handle: &str, cx: &ToolContext) -> ToolError {
    let known = store.handles(cx).await.unwrap_or_default();
    let known = match known.as_slice() {
        [] => "the end of a long result says how it is stored".to_owned(),
        known => {
            let newest: Vec<_> = known.iter().rev().take(MAX_LISTED_HANDLES).map(String::as_str).collect();
            format!("stored, newest first: {}", newest.join(", "))
        }
    };
    ToolError::failed(format!("no result is stored as {handle:?}, or it was forgotten; {known}"))
}

/// Returns a line with the position of the requested page, followed by this page of `text`. Returns
/// a note without a page if the text to find does not occur at or after the offset. Fails if the
/// offset exceeds the length of `text`.
fn read_page(text: &str, arguments: &Arguments) -> Result<String, ToolError> {
    let all = text.chars().count();
    let Some(mut rest) = skip_characters(text, arguments.offset) else {
        let reason = format!("{}: the result has {all} characters", join_pointer("", "offset"));
        return Err(ToolError::InvalidArguments(Cow::Owned(reason)));
    };
    let mut start = arguments.offset;
    if let Some(wanted) = &arguments.find {
        let Some((before, _)) = rest.split_once(wanted.as_str()) else {
            return Ok(format!("[{wanted:?} is not in characters {start} to {all}]"));
        };
        start += before.chars().count();
        rest = rest.get(before.len()..).unwrap_or_default();
    }
    let limit = arguments
        .limit
        .map_or(limits::READ_RESULT_CHARACTERS, |limit| limit.min(limits::READ_RESULT_CHARACTERS));
    let read = skip_characters(rest, limit).map_or(rest, |after| rest.strip_suffix(after).unwrap_or(rest));
    let end = start + read.chars().count();
    Ok(format!("[characters {start} to {end} of {all}]\n{read}"))
}

/// Returns `text` without its first `characters` characters, or `None` if `text` is shorter.
fn skip_characters(text: &str, characters: usize) -> Option<&str> {
    let mut chars = text.chars();
    match characters.checked_sub(1) {
        None => {}
        Some(last) => drop(chars.nth(last)?),
    }
    Some(chars.as_str())
}
