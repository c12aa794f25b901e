//! The keys that are accepted in a JSON step or call.

use serde_json::{Map, Value};

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

/// Keys whose value is a list of calls.
pub(in super::super) const LIST: [&str; 3] = ["tool_calls", "function_calls", "calls"];

/// Keys whose value is the whole step or call, as in `{"type": "function", "function": {…}}`.
pub(in super::super) const WRAPPER: [&str; 4] = ["function", "tool_call", "function_call", "step"];

/// Removes the value of the first key in `keys` that `object` has.
pub(in super::super) fn remove_any_key(object: &mut Map<String, Value>, keys: &[&str]) -> Option<Value> {
    keys.iter().find_map(|key| object.shift_remove(*key))
}
