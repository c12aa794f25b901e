//! The keys that are accepted in a JSON step or call.

use super::key;

/// The accepted keys of the thought in a step. The instructions for the model specify the first
/// key. The other keys are accepted because some models use them nevertheless.
pub(in super::super) const THOUGHT: [&str; 4] = [key::THOUGHT, "next_thought", "reasoning", "thoughts"];

/// The accepted keys of the tool name. The instructions specify the first key.
pub(in super::super) const TOOL_NAME: [&str; 6] =
    [key::TOOL_NAME, "next_tool_name", "name", "tool", "action", "function"];

/// The accepted keys of the arguments. The instructions specify the first key.
pub(in super::super) const TOOL_ARGS: [&str; 9] = [
    key::TOOL_ARGS,
    "next_tool_args",
    "arguments",
    "args",
    "parameters",
    "params",
    "action_input",
    "tool_input",
    "input",
];

/// Returns all accepted keys.
pub(in super::super) fn all() -> impl Iterator<Item = &'static &'static str> {
    THOUGHT.iter().chain(&TOOL_NAME).chain(&TOOL_ARGS)
}
