#![allow(unused)]

use std::{borrow::Cow, collections::BTreeMap, fmt::Display};

use haft_core::{ToolContext, tool};

#[tool]
fn ranges(
    #[tool(range = 1..=5)] list: Vec<i64>,
    #[tool(range = 1..=5)] text: Option<String>,
    #[tool(range = 0..=1)] flag: bool,
) {
}

#[tool]
fn lengths(#[tool(length = 1..=5)] n: i64, #[tool(length = 1)] flag: bool) {}

#[tool]
fn texts(#[tool(pattern = "^a")] n: u8, #[tool(format = "date")] map: BTreeMap<String, String>) {}

#[tool]
fn inside(shown: Option<impl Display>) -> Result<Box<impl Display>, String> {
    shown.map(Box::new).ok_or_else(String::new)
}

#[tool]
fn elided(text: Cow<str>, texts: Vec<Cow<'_, str>>) {}

#[tool]
fn borrowing(#[tool(context)] cx: &ToolContext) -> Result<Cow<'_, str>, String> {
    Ok(cx.call_id().into())
}

#[tool]
fn lifetime<'a>(text: &'a str, #[tool(state)] words: Vec<&'a str>) -> &'a str {
    if words.is_empty() { text } else { "" }
}

#[tool]
fn conditional(#[cfg(unix)] path: String, #[cfg_attr(unix, tool(default))] depth: u8) -> usize {
    path.len() + usize::from(depth)
}

fn main() {}
