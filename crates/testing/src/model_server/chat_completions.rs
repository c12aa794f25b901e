//! Replies in the form of the Chat Completions API.

use serde_json::{Value, json};

use super::reply::{Call, Content, Fault};

/// Returns the JSON body of a whole reply.
pub(super) fn whole_body(content: &Content, fault: Option<Fault>) -> Value {
    let mut choice = match content {
        Content::Calls(calls) if fault != Some(Fault::CallsMissing) => {
            let calls: Vec<_> =
                calls.iter().enumerate().map(|(at, call)| whole_call(at, call, fault)).collect();
            json!({"message": {"role": "assistant", "content": null, "tool_calls": calls}})
        }
        Content::Text(text) => json!({"message": {"role": "assistant", "content": text}}),
        _ => json!({"message": {"role": "assistant", "content": null}}),
    };
    choice["index"] = json!(0);
    choice["finish_reason"] = json!(finish_reason(content, fault));
    if fault == Some(Fault::MembersMissing) {
        remove_optional_members(&mut choice["message"]);
    }
    let choices = if fault == Some(Fault::ChoicesEmpty) { vec![] } else { vec![choice] };
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "scripted",
        "choices": choices, "usage": usage(fault),
    })
}

/// Returns the events of a streamed reply, without `[DONE]`.
pub(super) fn events(content: &Content, fault: Option<Fault>) -> Vec<Value> {
    let mut deltas = vec![json!({"role": "assistant"})];
    match content {
        Content::Text(text) => {
            deltas.extend(text.chars().map(|piece| json!({"content": piece.to_string()})));
        }
        Content::Calls(calls) if fault != Some(Fault::CallsMissing) => {
            let pieces = calls.iter().enumerate().map(|(at, call)| call_pieces(at, call, fault));
            deltas.extend(pieces.flatten().map(|piece| json!({"tool_calls": [piece]})));
        }
        _ => {}
    }
    let mut events: Vec<_> = deltas.into_iter().map(|delta| event(&delta, None)).collect();
    events.push(event(&json!({}), Some(finish_reason(content, fault))));
    if fault == Some(Fault::ChoicesEmpty) {
        for event in &mut events {
            event["choices"] = json!([]);
        }
    }
    let mut last = event(&json!({}), None);
    last["choices"] = json!([]);
    last["usage"] = usage(fault);
    events.push(last);
    events
}

/// Returns the first event of a stream with a piece of text.
pub(super) fn text_event() -> Value {
    event(&json!({"role": "assistant", "content": "The "}), None)
}

fn event(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    })
}

fn usage(fault: Option<Fault>) -> Value {
    match fault {
        Some(Fault::UsageNull) => json!({
            "prompt_tokens": null, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": null},
        }),
        _ => json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}),
    }
}

fn finish_reason(content: &Content, fault: Option<Fault>) -> &'static str {
    match (content, fault) {
        (_, Some(Fault::FinishReasonUnknown)) => "end_of_turn",
        (Content::Calls(_), Some(Fault::ArgumentsCut)) => "length",
        (Content::Calls(_), Some(Fault::FinishReasonStop)) => "stop",
        (Content::Calls(_), _) => "tool_calls",
        _ => "stop",
    }
}

fn whole_call(at: usize, call: &Call, fault: Option<Fault>) -> Value {
    let mut value = json!({
        "type": "function",
        "function": {"name": call.name, "arguments": arguments(call, fault)},
    });
    if let Some(id) = id(call, fault) {
        value["id"] = json!(id);
    }
    match fault {
        Some(Fault::NameMissing) => remove(&mut value["function"], "name"),
        Some(Fault::MembersMissing) => remove(&mut value, "type"),
        _ => value["index"] = json!(at),
    }
    value
}

/// Returns the pieces of a call in a stream: by default the id with the name, and then the
/// arguments character by character.
fn call_pieces(at: usize, call: &Call, fault: Option<Fault>) -> Vec<Value> {
    let mut names = vec![call.name.clone()];
    if matches!(fault, Some(Fault::NameInPieces | Fault::NameBesideArguments)) {
        let middle = call.name.char_indices().nth(call.name.chars().count() / 3).map_or(0, |(at, _)| at);
        let (first, rest) = call.name.split_at(middle.max(1).min(call.name.len()));
        names = vec![first.to_owned(), rest.to_owned()];
    }
    let mut arguments: Vec<Value> = match arguments(call, fault) {
        Value::String(text) => text.chars().map(|piece| json!(piece.to_string())).collect(),
        whole => vec![whole],
    };
    let mut pieces: Vec<Value> = names.into_iter().map(|name| json!({"function": {"name": name}})).collect();
    if fault == Some(Fault::NameBesideArguments) {
        for (piece, argument) in
            pieces.iter_mut().zip(arguments.drain(..2.min(arguments.len())).collect::<Vec<_>>())
        {
            piece["function"]["arguments"] = argument;
        }
    }
    pieces.extend(arguments.into_iter().map(|piece| json!({"function": {"arguments": piece}})));
    for (number, piece) in pieces.iter_mut().enumerate() {
        complete_piece(piece, (at, number), call, fault);
    }
    pieces
}

/// Adds index, id, type and name to the piece `number` of the call `at`.
fn complete_piece(piece: &mut Value, (at, number): (usize, usize), call: &Call, fault: Option<Fault>) {
    match fault {
        Some(Fault::IndexMissing) => {}
        Some(Fault::IndexRepeated) => piece["index"] = json!(0),
        Some(Fault::IndexDrifting) => piece["index"] = json!(at + number),
        _ => piece["index"] = json!(at),
    }
    let is_repeated = fault == Some(Fault::NameRepeated);
    if number == 0 || is_repeated {
        if let Some(id) = id(call, fault) {
            piece["id"] = json!(id);
        }
        if fault != Some(Fault::MembersMissing) {
            piece["type"] = json!("function");
        }
    }
    if is_repeated {
        piece["function"]["name"] = json!(call.name);
    }
    if fault == Some(Fault::NameMissing) {
        remove(&mut piece["function"], "name");
    }
}

pub(super) fn id(call: &Call, fault: Option<Fault>) -> Option<&str> {
    match fault {
        Some(Fault::IdMissing) => None,
        Some(Fault::IdRepeated) => Some("call"),
        _ => Some(&call.id),
    }
}

pub(super) fn arguments(call: &Call, fault: Option<Fault>) -> Value {
    let text = call.arguments.as_str();
    match fault {
        Some(Fault::ArgumentsAsObject) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Some(Fault::ArgumentsCut) => json!(text.chars().take(text.chars().count() / 2).collect::<String>()),
        _ => json!(text),
    }
}

fn remove_optional_members(message: &mut Value) {
    remove(message, "role");
    if message["content"].is_null() {
        remove(message, "content");
    }
}

pub(super) fn remove(value: &mut Value, member: &str) {
    if let Some(object) = value.as_object_mut() {
        object.remove(member);
    }
}
