use std::sync::Arc;

use crate::{
    call::ToolError,
    pipeline::{Pipeline, ToolList},
    tool::{Tool, ToolName},
};

/// How many names an error lists at most: enough to choose from, not a flood.
const LISTED_NAMES: usize = 30;
/// How alike two names must be (Jaro-Winkler, from 0 to 1) for one to be suggested for the other.
const ALIKE: f64 = 0.8;

/// A listed tool, with the pipeline of its toolset if it has one of its own.
pub(super) type Found<'a> = (&'a Arc<dyn Tool>, Option<&'a Pipeline>);

pub(super) fn find<'a>(tools: &'a ToolList, name: &str) -> Result<Found<'a>, ToolError> {
    tools.entry(name).ok_or_else(|| ToolError::NotFound(unknown_tool(name, tools)))
}

/// The error text for a call of an unknown tool: a similar name, and the names of the available tools.
pub fn unknown_tool(name: &str, tools: &ToolList) -> String {
    let mut text = format!("unknown tool {name:?}");
    if let Some(alike) = most_alike(name, tools) {
        text += &format!("; did you mean {alike:?}?");
    } else {
        text += ";";
    }
    if tools.is_empty() {
        return text + " no tools are available";
    }
    let names: Vec<_> = tools.names().take(LISTED_NAMES).map(ToolName::as_str).collect();
    text += &format!(" available: {}", names.join(", "));
    match tools.len().saturating_sub(LISTED_NAMES) {
        0 => text,
        more => text + &format!(" and {more} more"),
    }
}

fn most_alike<'a>(name: &str, tools: &'a ToolList) -> Option<&'a str> {
    let scored = tools.names().map(|known| (strsim::jaro_winkler(name, known.as_str()), known.as_str()));
    let (score, known) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= ALIKE).then_some(known)
}
