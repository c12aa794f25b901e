//! Separation of the owner and the name of a repository.

use haft_core::ToolCall;
use serde_json::Value;

/// Returns `call` with separate values of `owner` and `repo`, if it has both and the owner is of
/// the form `owner/repo`. Otherwise returns `None`.
///
/// Users write `rust-lang/cargo`. The tools of GitHub expect the two parts, and a small model gives
/// the whole text for the first of them.
pub(super) fn split_repository(call: &ToolCall) -> Option<ToolCall> {
    let mut arguments = call.arguments.value_or_string().as_object()?.clone();
    let (owner, name) = arguments.get("owner")?.as_str()?.split_once('/')?;
    let (owner, name) = (Value::from(owner), Value::from(name));
    *arguments.get_mut("repo")? = name;
    *arguments.get_mut("owner")? = owner;
    Some(ToolCall::new(
        call.id.clone(),
        call.name.clone(),
        super::grounding::spaced_json(&Value::Object(arguments)),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn split(arguments: &str) -> Option<Value> {
        let call = split_repository(&ToolCall::new("1", "list_issues", arguments))?;
        Some((*call.arguments.value_or_string()).clone())
    }

    #[test]
    fn the_owner_is_separated_from_the_name() {
        let expected = Some(json!({"owner": "rust-lang", "repo": "cargo"}));
        assert_eq!(split(r#"{"owner": "rust-lang/cargo", "repo": "rust-lang/cargo"}"#), expected);
        assert_eq!(split(r#"{"owner": "rust-lang/cargo", "repo": "cargo"}"#), expected);
        assert_eq!(split(r#"{"owner": "rust-lang", "repo": "cargo"}"#), None);
        assert_eq!(split(r#"{"owner": "rust-lang/cargo"}"#), None);
    }
}
