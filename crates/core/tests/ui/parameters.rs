use haft_core::{ToolContext, tool};

#[tool]
fn optional(#[tool(default = Some(5))] limit: Option<u32>) -> u32 {
    limit.unwrap_or_default()
}

#[tool]
fn unmarked(cx: &ToolContext) -> String {
    cx.call_id().to_owned()
}

#[tool]
fn twice(#[tool(context)] cx: &ToolContext, #[tool(context)] again: ToolContext) -> bool {
    cx.call_id() == again.call_id()
}

#[tool]
fn mixed(#[tool(context, state)] both: ToolContext, #[tool(state, default = 1)] n: i64) -> i64 {
    both.call_id().len() as i64 + n
}

#[tool]
fn exclusive(#[tool(context)] cx: &mut ToolContext, #[tool(state)] words: &Vec<String>) -> usize {
    cx.call_id().len() + words.len()
}

#[tool]
fn unknown(#[tool(defualt = 5)] n: i64, #[tool(name = "m")] m: i64, #[tool] k: i64) -> i64 {
    n + m + k
}

fn main() {}
