use std::{borrow::Cow, collections::HashMap, path::Path};

use haft_core::{ToolContext, tool};

#[tool]
fn search(query: &str, tags: &[&str], root: &Path, limits: Option<HashMap<String, &u32>>) -> usize {
    query.len() + tags.len() + root.components().count() + limits.map_or(0, |limits| limits.len())
}

#[tool]
fn shorten(text: Cow<'_, str>) -> String {
    text.chars().take(10).collect()
}

#[tool]
fn call_id(#[tool(context)] cx: &ToolContext) -> &str {
    cx.call_id()
}

struct Library;

#[tool]
fn titles(library: &Library) -> usize {
    std::mem::size_of_val(library)
}

fn main() {}
