//! All mistakes are reported at once. The function and the type of the tool still exist.

use haft_core::{Tool, ToolContext, tool};

#[tool(nmae = "finder")]
fn find<T>(#[tool(default = None)] limit: Option<u32>, query: &str, cx: ToolContext) -> usize {
    query.len() + limit.map_or(0, |limit| limit as usize) + cx.call_id().len()
}

fn definition(tool: &Find) -> &str {
    tool.definition().description()
}

fn main() {
    find::<u8>(None, "", ToolContext::default());
    definition(&Find);
}
