//! Which tools the next step needs.

use haft_core::{ChatRequest, ToolChoice};
use llguidance::api::TopLevelGrammar;

use crate::dialogue::{NEEDED, NOTHING};

/// The most calls of one reply.
const CALLS: usize = 16;

/// A line with the names of tools on offer, or the word for none where the model may answer.
pub(super) fn grammar(request: &ChatRequest) -> TopLevelGrammar {
    let names: Vec<_> = request.tools.names().map(|name| format!("\"{name}\"")).collect();
    let most = if request.settings.parallel_tool_calls == Some(false) { 0 } else { CALLS - 1 };
    let nothing = match request.tool_choice {
        ToolChoice::Required => String::new(),
        _ => format!("\"{NOTHING}\" | "),
    };
    TopLevelGrammar::from_lark(format!(
        "start: \"{NEEDED}\" ({nothing}name (\", \" name){{0,{most}}}) \"\\n\"\nname: {}\n",
        names.join(" | "),
    ))
}

/// The names on the line.
pub(super) fn names(line: &[u8]) -> Vec<String> {
    let line = String::from_utf8_lossy(line);
    let names = line.trim().strip_prefix(NEEDED.trim()).unwrap_or_default().trim();
    names.split(", ").filter(|name| !name.is_empty() && *name != NOTHING).map(str::to_owned).collect()
}
