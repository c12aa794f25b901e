//! Replies in the form of Anthropic's Messages API.

use serde_json::{Value, json};

use super::chat_completions::{id, remove};
use super::error_reply::ErrorKind;
use super::reply::{Call, Content, Fault};

/// Returns the JSON body of a whole reply.
pub(super) fn whole_body(content: &Content, fault: Option<Fault>) -> Value {
    let blocks: Vec<_> = blocks(content, fault)
        .into_iter()
        .map(|(mut block, arguments)| {
            if let Some(arguments) = arguments {
                // Half the arguments are no JSON, so the API sends an empty object.
                block["input"] = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
            }
            block
        })
        .collect();
    let mut message = message(&blocks, Some(stop_reason(content, fault)), fault);
    if fault == Some(Fault::MembersMissing) {
        remove(&mut message, "type");
        remove(&mut message, "role");
    }
    message
}

/// Returns the events of a streamed reply.
pub(super) fn events(content: &Content, fault: Option<Fault>) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "message_start", "message": message(&[], None, fault)}), json!({"type": "ping"})];
    for (at, (block, arguments)) in blocks(content, fault).into_iter().enumerate() {
        let index = if fault == Some(Fault::IndexRepeated) { 0 } else { at };
        add_block_events(&mut events, index, block, arguments.as_deref(), fault);
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(content, fault), "stop_sequence": null},
        "usage": if fault == Some(Fault::UsageNull) { Value::Null } else { json!({"output_tokens": 5}) },
    }));
    if fault != Some(Fault::DoneMissing) {
        events.push(json!({"type": "message_stop"}));
    }
    if fault == Some(Fault::IndexMissing) {
        events.iter_mut().for_each(|event| remove(event, "index"));
    }
    events
}

/// Returns the first events of a stream with a piece of text.
pub(super) fn text_events() -> Vec<Value> {
    vec![
        json!({"type": "message_start", "message": message(&[], None, None)}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The "}}),
    ]
}

/// Returns `kind` as Anthropic sends it.
pub(super) fn error_body(kind: ErrorKind) -> Value {
    let name = match kind {
        ErrorKind::RateLimit => "rate_limit_error",
        ErrorKind::Quota => "billing_error",
        ErrorKind::Authentication => "authentication_error",
        ErrorKind::Overloaded => "overloaded_error",
        _ => "invalid_request_error",
    };
    json!({"type": "error", "error": {"type": name, "message": kind.message()}, "request_id": "req_1"})
}

fn message(content: &[Value], stop_reason: Option<&str>, fault: Option<Fault>) -> Value {
    let usage = match fault {
        Some(Fault::UsageNull) => {
            json!({"input_tokens": null, "cache_read_input_tokens": null, "output_tokens": 5})
        }
        _ => json!({"input_tokens": 10, "output_tokens": 5}),
    };
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
    })
}

fn stop_reason(content: &Content, fault: Option<Fault>) -> &'static str {
    match (content, fault) {
        (_, Some(Fault::FinishReasonUnknown)) => "end_of_turn",
        (Content::Calls(_), Some(Fault::ArgumentsCut)) => "max_tokens",
        (Content::Calls(_), Some(Fault::FinishReasonStop)) => "end_turn",
        (Content::Calls(_), _) => "tool_use",
        _ => "end_turn",
    }
}

/// Returns the blocks of the content. A call has an empty input, and its arguments as JSON text.
fn blocks(content: &Content, fault: Option<Fault>) -> Vec<(Value, Option<String>)> {
    match (content, fault) {
        (_, Some(Fault::ChoicesEmpty)) | (Content::Calls(_), Some(Fault::CallsMissing)) => vec![],
        (Content::Text(text), _) => vec![(json!({"type": "text", "text": text}), None)],
        (Content::Calls(calls), _) => calls.iter().map(|call| call_block(call, fault)).collect(),
        _ => vec![],
    }
}

fn call_block(call: &Call, fault: Option<Fault>) -> (Value, Option<String>) {
    let mut block = json!({"type": "tool_use", "id": id(call, fault), "name": call.name, "input": {}});
    match fault {
        Some(Fault::IdMissing) => remove(&mut block, "id"),
        Some(Fault::NameMissing) => remove(&mut block, "name"),
        _ => {}
    }
    let half = call.arguments.chars().count() / 2;
    let arguments = match fault {
        Some(Fault::ArgumentsCut) => call.arguments.chars().take(half).collect(),
        _ => call.arguments.clone(),
    };
    (block, Some(arguments))
}

/// Adds the events of `block` at `index`, with one character per delta.
fn add_block_events(
    events: &mut Vec<Value>,
    index: usize,
    mut block: Value,
    arguments: Option<&str>,
    fault: Option<Fault>,
) {
    let (kind, member, text) = match arguments {
        Some(arguments) => ("input_json_delta", "partial_json", arguments.to_owned()),
        None => {
            let text = block["text"].as_str().unwrap_or_default().to_owned();
            block["text"] = json!("");
            ("text_delta", "text", text)
        }
    };
    // Some gateways send the whole input in the first event of the block.
    let is_whole = arguments.is_some() && fault == Some(Fault::ArgumentsAsObject);
    if is_whole {
        block["input"] = serde_json::from_str(&text).unwrap_or_default();
    }
    events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
    let pieces = text.chars().filter(|_| !is_whole);
    events.extend(pieces.map(|piece| {
        let mut delta = json!({"type": kind});
        delta[member] = json!(piece.to_string());
        json!({"type": "content_block_delta", "index": index, "delta": delta})
    }));
    events.push(json!({"type": "content_block_stop", "index": index}));
}
