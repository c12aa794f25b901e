//! The keys of a JSON step or call.

use serde_json::{Map, Value};

pub(crate) const THOUGHT: &str = "thought";
pub(crate) const TOOL_NAME: &str = "tool_name";
pub(crate) const TOOL_ARGS: &str = "tool_args";

/// The accepted keys of the thought in a step. The instructions for the model specify the first
/// key. The other keys are accepted because some models use them nevertheless.
pub(crate) const ANY_THOUGHT: [&str; 4] = [THOUGHT, "next_thought", "reasoning", "thoughts"];

/// The accepted keys of the tool name. The instructions specify the first key.
pub(crate) const ANY_TOOL_NAME: [&str; 6] =
    [TOOL_NAME, "next_tool_name", "name", "tool", "action", "function"];

/// The accepted keys of the arguments. The instructions specify the first key.
pub(crate) const ANY_TOOL_ARGS: [&str; 9] = [
    TOOL_ARGS,
    "next_tool_args",
    "arguments",
    "args",
    "parameters",
    "params",
    "action_input",
    "tool_input",
    "input",
];

/// Keys whose value is a list of calls.
pub(crate) const LIST: [&str; 3] = ["tool_calls", "function_calls", "calls"];

/// Keys whose value is the whole step or call, as in `{"type": "function", "function": {…}}`.
pub(crate) const WRAPPER: [&str; 4] = ["function", "tool_call", "function_call", "step"];

/// Removes the value of the first key in `keys` that `object` has.
pub(crate) fn remove_any(object: &mut Map<String, Value>, keys: &[&str]) -> Option<Value> {
    keys.iter().find_map(|key| object.shift_remove(*key))
}
