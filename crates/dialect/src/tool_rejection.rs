//! Recognises the errors of servers that do not support tools.

use haft_core::model::ModelError;

/// The ways in which servers state that a feature is not supported.
const UNSUPPORTED: [&str; 8] = [
    "not support",
    "n't support",
    "unsupported",
    // llama.cpp
    "requires --jinja",
    // vLLM
    "--enable-auto-tool-choice",
    // OpenRouter: "No endpoints found that support tool use"
    "no endpoints found",
    "not enabled",
    "not available",
];

/// Parameters whose names contain `tool`. A server that rejects one of them can support tools.
const TOOL_PARAMETERS: [&str; 2] = ["parallel_tool_calls", "tool_choice"];

/// Returns `true` if `error` means that the model or its server does not support tools. A run then
/// moves to the [fallback](crate::Dialect::fallback) of its dialect. If several models were tried,
/// the error of the last model decides.
///
/// # Examples
///
/// ```
/// use haft_core::model::ModelError;
/// use haft_dialect::rejects_tools;
///
/// let rejected = |body: &str| ModelError::Rejected { status: 400, body: body.to_owned() };
/// assert!(rejects_tools(&rejected("gemma:2b does not support tools")));
/// assert!(!rejects_tools(&rejected("tool_choice is not supported")));
/// assert!(!rejects_tools(&rejected("temperature is not supported")));
/// ```
pub fn rejects_tools(error: &ModelError) -> bool {
    let text = match error {
        ModelError::AllFailed { failures } => {
            return failures.last().is_some_and(|last| rejects_tools(&last.error));
        }
        ModelError::Unsupported(text) => text,
        ModelError::Rejected { body, .. } | ModelError::Server { body, .. } => body,
        _ => return false,
    };
    let text = TOOL_PARAMETERS.iter().fold(text.to_ascii_lowercase(), |text, name| text.replace(name, ""));
    let has_any = |words: &[&str]| words.iter().any(|words| text.contains(words));
    has_any(&["tool", "function call"]) && has_any(&UNSUPPORTED)
}
