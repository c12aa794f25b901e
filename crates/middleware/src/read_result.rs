//! The tool by which a model reads on.

use std::borrow::Cow;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use haft_core::{
    Pipeline, Schema, Tool, ToolContext, ToolDefinition, ToolError, ToolName,
    call::ToolOutcome,
    limits,
    pipeline::ResultStore,
    schema::reference::join,
    tool::{Annotations, Policy, from_arguments},
};

/// What the tool is called, unless it is given another name.
const NAME: &str = "read_result";

/// How many handles are told at most.
const KNOWN: usize = 10;

/// A tool by which a model reads results that were too long for it: a part at a time, or from where a text occurs.
///
/// It reads the store of the [`Pipeline`](haft_core::Pipeline) that runs the call, and there only what was kept for the same principal,
/// or, where there is none, for the same run. A model that is offered it is told by what is left of a long result how
/// to read on. At most [`limits::READ_CHARACTERS`] are read at a time.
///
/// # Examples
///
/// ```
/// use haft_middleware::ReadResult;
/// use haft_core::{tool, Toolset};
/// use serde_json::json;
///
/// /// Lists all that there is.
/// #[tool(output_limit = 20)]
/// fn list() -> String {
///     "one two three four five six seven".to_owned()
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let tools = Toolset::new().with(List).with(ReadResult::new());
/// let result = tools.call("list", json!({})).await;
/// let handle = result.output().and_then(|output| output.stored.clone()).unwrap_or_default();
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
    /// Makes the tool, with the name `read_result`.
    pub fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The name under which the result is stored."},
                "offset": {"type": "integer", "minimum": 0, "default": 0, "description": "The character to begin at, from 0."},
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": limits::READ_CHARACTERS, "default": limits::READ_CHARACTERS,
                    "description": "How many characters to read.",
                },
                "find": {"type": "string", "minLength": 1, "description": "A text to look for: begins where it occurs first, at the offset or after it."},
            },
            "required": ["handle"],
            "additionalProperties": false,
        });
        let definition = ToolDefinition::new(ToolName::from_foreign(NAME), Schema::object())
            .with_input_schema(schema)
            .with_description("Reads a part of a stored result: one that was too long to be shown whole.")
            .with_policy(Policy { idempotent: true, ..Policy::default() })
            .with_annotations(Annotations { read_only: Some(true), ..Annotations::default() });
        Self(definition.as_result_reader())
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

    async fn call(&self, arguments: Value, cx: &ToolContext) -> Result<ToolOutcome, ToolError> {
        let arguments: Arguments = from_arguments(arguments)?;
        let pipeline = Pipeline::current(cx);
        let store = pipeline.as_ref().and_then(Pipeline::store);
        let store = store.ok_or_else(|| ToolError::failed("no results are stored here"))?;
        match store.get(&arguments.handle, cx).await.map_err(unreadable)? {
            Some(output) => Ok(part(&output.text(), &arguments)?.into()),
            None => Err(unknown(&**store, &arguments.handle, cx).await),
        }
    }
}

fn unreadable(error: haft_core::call::BoxError) -> ToolError {
    ToolError::Failed { message: "stored results cannot be read now".to_owned(), source: Some(error) }
}

async fn unknown(store: &dyn ResultStore, handle: &str, cx: &ToolContext) -> ToolError {
    let known = store.handles(cx).await.unwrap_or_default();
    let known = match known.as_slice() {
        [] => "the end of a long result says how it is stored".to_owned(),
        known => {
            let newest: Vec<_> = known.iter().rev().take(KNOWN).map(String::as_str).collect();
            format!("stored, newest first: {}", newest.join(", "))
        }
    };
    ToolError::failed(format!("no result is stored as {handle:?}, or it was forgotten; {known}"))
}

/// The part that was asked for, with where it is.
fn part(text: &str, arguments: &Arguments) -> Result<String, ToolError> {
    let all = text.chars().count();
    let Some(mut rest) = from_character(text, arguments.offset) else {
        let reason = format!("{}: the result has {all} characters", join("", "offset"));
        return Err(ToolError::InvalidArguments(Cow::Owned(reason)));
    };
    let mut begin = arguments.offset;
    if let Some(wanted) = &arguments.find {
        let Some((before, _)) = rest.split_once(wanted.as_str()) else {
            return Ok(format!("[{wanted:?} is not in characters {begin} to {all}]"));
        };
        begin += before.chars().count();
        rest = rest.get(before.len()..).unwrap_or_default();
    }
    let limit = arguments.limit.map_or(limits::READ_CHARACTERS, |limit| limit.min(limits::READ_CHARACTERS));
    let read = from_character(rest, limit).map_or(rest, |after| rest.strip_suffix(after).unwrap_or(rest));
    let end = begin + read.chars().count();
    Ok(format!("[characters {begin} to {end} of {all}]\n{read}"))
}

/// The text without so many characters at its start, if it has so many.
fn from_character(text: &str, characters: usize) -> Option<&str> {
    let mut chars = text.chars();
    match characters.checked_sub(1) {
        None => {}
        Some(last) => drop(chars.nth(last)?),
    }
    Some(chars.as_str())
}
