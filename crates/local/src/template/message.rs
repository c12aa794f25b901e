//! Conversion of turns and tools to the variables of a chat template.

use minijinja::{Error, Value};

use super::json_filter;
use super::outside_text::{OutsideText, as_json_markers};
use super::tool_form::TemplateInput;
use super::{CallFormat, Role, Turn, TurnCall};

/// The instructions that precede the tools if the conversation has none, for templates with the
/// tools in the system message.
///
/// Source: the model card of `microsoft/Phi-4-mini-instruct`.
const TOOL_INSTRUCTIONS: &str = "You are a helpful assistant with some tools.";

/// The words in a system message that switch the reasoning of SmolLM3 on and off. Its template
/// searches for them.
const REASONING_SWITCHES: [&str; 2] = ["/no_think", "/think"];

/// Converts `turns` to the variable `messages` of a template.
pub(super) fn template_messages(
    turns: &[Turn],
    tools: &[serde_json::Value],
    input: &TemplateInput,
    outside: &mut OutsideText<'_>,
) -> Result<Vec<Value>, Error> {
    let is_system = |turn: &Turn| turn.role == Role::System;
    let tools_in_system = input.tools_in_system && !tools.is_empty();
    let mut messages = Vec::new();
    if tools_in_system && !turns.first().is_some_and(is_system) {
        let fields = vec![("role", Value::from("system")), ("content", Value::from(TOOL_INSTRUCTIONS))];
        messages.push(fields);
    }
    for turn in turns {
        messages.push(message_fields(turn, input, outside)?);
    }
    if tools_in_system && let Some(first) = messages.first_mut() {
        first.push(("tools", tool_list(tools, outside)?));
    }
    Ok(messages.into_iter().map(Value::from_pairs).collect())
}

/// Returns the functions of `tools` as the text of a JSON array.
fn tool_list(tools: &[serde_json::Value], outside: &mut OutsideText<'_>) -> Result<Value, Error> {
    let functions: Vec<_> = tools.iter().map(|tool| tool.get("function").unwrap_or(tool).clone()).collect();
    json_text(&serde_json::Value::Array(functions), outside)
}

fn message_fields(
    turn: &Turn,
    input: &TemplateInput,
    outside: &mut OutsideText<'_>,
) -> Result<Vec<(&'static str, Value)>, Error> {
    let mut content = content(turn, outside);
    let role = match turn.role {
        Role::Tool { .. } => input.result_role,
        _ => turn.role.name(),
    };
    let mut message = vec![("role", Value::from(role))];
    if let Role::Tool { id, name } = &turn.role {
        message.push(("tool_call_id", Value::from(id.as_str())));
        message.push(("name", outside.text_or_marker(name)));
    }
    if !turn.reasoning.is_empty() {
        message.push(("reasoning_content", Value::from(outside.add_as_marker(&turn.reasoning))));
    }
    match &input.calls_as_content {
        _ if turn.calls.is_empty() => {}
        Some(format) => push_calls(&mut content, format, &turn.calls, outside)?,
        None => {
            let calls: Vec<_> = turn.calls.iter().map(|call| template_call(call, outside)).collect();
            message.push(("tool_calls", Value::from(calls)));
        }
    }
    message.push(("content", Value::from(content)));
    Ok(message)
}

fn content(turn: &Turn, outside: &mut OutsideText<'_>) -> String {
    if turn.role != Role::System {
        return match turn.content.is_empty() {
            true => String::new(),
            false => outside.add_as_marker(&turn.content),
        };
    }
    // The switches cannot become special tokens, so the template may see them.
    let mut content = String::new();
    let mut rest = turn.content.as_str();
    while !rest.is_empty() {
        let found = REASONING_SWITCHES.iter().filter_map(|word| rest.find(word).map(|at| (at, *word)));
        let (end, word) = found.min().unwrap_or((rest.len(), ""));
        let (text, behind) = rest.split_at(end);
        if !text.is_empty() {
            content.push_str(&outside.add_as_marker(text));
        }
        content.push_str(word);
        rest = behind.strip_prefix(word).unwrap_or_default();
    }
    content
}

fn template_call(call: &TurnCall, outside: &mut OutsideText<'_>) -> Value {
    let function = Value::from_pairs([
        ("name", outside.text_or_marker(&call.name)),
        ("arguments", outside.template_value(&call.arguments)),
    ]);
    Value::from_pairs([
        ("id", Value::from(call.id.as_str())),
        ("type", Value::from("function")),
        ("function", function),
    ])
}

/// Appends `calls` in `format` to `content`, for a template that does not render calls.
fn push_calls(
    content: &mut String,
    format: &CallFormat,
    calls: &[TurnCall],
    outside: &mut OutsideText<'_>,
) -> Result<(), Error> {
    if !content.is_empty() && format.open.starts_with(CallFormat::HERMES_TAG) {
        content.push('\n');
    }
    for (index, call) in calls.iter().enumerate() {
        let before = if index == 0 { Some(&format.open) } else { format.next.as_ref() };
        content.push_str(before.map_or("", String::as_str));
        content.push_str(&as_json_markers(&outside.add_as_marker(&call.name)));
        content.push_str(&format.middle);
        content.push_str(&json_text(&call.arguments, outside)?.to_string());
    }
    content.push_str(&format.close);
    Ok(())
}

fn json_text(json: &serde_json::Value, outside: &mut OutsideText<'_>) -> Result<Value, Error> {
    json_filter::to_json_text(&outside.template_value(json))
}
