use std::sync::Arc;

use crate::{
    call::ToolError,
    pipeline::{Pipeline, ToolList},
    tool::{Tool, ToolName},
};

/// The maximum number of tool names that an error message lists.
const MAX_LISTED_NAMES: usize = 30;
/// The minimum Jaro-Winkler similarity, from 0 to 1, between an unknown name and a suggested name.
const MIN_SIMILARITY: f64 = 0.8;

/// A tool found in a [`ToolList`], and the pipeline of its toolset, if one was set.
pub(super) type FoundTool<'a> = (&'a Arc<dyn Tool>, Option<&'a Pipeline>);

pub(super) fn find_tool<'a>(tools: &'a ToolList, name: &str) -> Result<FoundTool<'a>, ToolError> {
    tools.tool_and_pipeline(name).ok_or_else(|| ToolError::NotFound(unknown_tool_message(name, tools)))
}

/// Returns the error text for a call to the unknown tool `name`. The text suggests a similar name,
/// if any, and lists up to 30 names of `tools`.
pub fn unknown_tool_message(name: &str, tools: &ToolList) -> String {
    let mut text = format!("unknown tool {name:?}");
    if let Some(similar) = most_similar_name(name, tools) {
        text += &format!("; did you mean {similar:?}?");
    } else {
        text += ";";
    }
    if tools.is_empty() {
        return text + " no tools are available";
    }
    let names: Vec<_> = tools.names().take(MAX_LISTED_NAMES).map(ToolName::as_str).collect();
    text += &format!(" available: {}", names.join(", "));
    match tools.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => text,
        more => text + &format!(" and {more} more"),
    }
}

fn most_similar_name<'a>(name: &str, tools: &'a ToolList) -> Option<&'a str> {
    let scored = tools.names().map(|known| (strsim::jaro_winkler(name, known.as_str()), known.as_str()));
    let (score, known) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= MIN_SIMILARITY).then_some(known)
}
