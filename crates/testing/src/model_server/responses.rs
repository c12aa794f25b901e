//! Replies in the form of the Responses API.

use serde_json::{Value, json};

use super::chat_completions::{arguments, id, remove};
use super::reply::{Call, Content, Fault};

/// Returns the JSON body of a whole reply.
pub(super) fn whole_body(content: &Content, fault: Option<Fault>) -> Value {
    let mut response = response("completed", &output(content, fault));
    if fault == Some(Fault::UsageNull) {
        response["usage"] = Value::Null;
    }
    if fault == Some(Fault::ArgumentsCut) && matches!(content, Content::Calls(_)) {
        response["status"] = json!("incomplete");
        response["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    response
}

/// Returns the events of a streamed reply.
pub(super) fn events(content: &Content, fault: Option<Fault>) -> Vec<Value> {
    let mut events = vec![json!({"type": "response.created", "response": response("in_progress", &[])})];
    for (at, item) in output(content, fault).into_iter().enumerate() {
        add_item_events(&mut events, at, item);
    }
    let whole = whole_body(content, fault);
    let end = format!("response.{}", whole["status"].as_str().unwrap_or_default());
    events.push(json!({"type": end, "response": whole}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

/// Returns the first event of a stream with a piece of text.
pub(super) fn text_event() -> Value {
    delta("response.output_text.delta", 0, "msg_0", "The ")
}

fn response(status: &str, output: &[Value]) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 0, "model": "scripted", "status": status,
        "error": null, "incomplete_details": null, "output": output,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    })
}

/// Returns the items of a complete reply.
fn output(content: &Content, fault: Option<Fault>) -> Vec<Value> {
    match (content, fault) {
        (_, Some(Fault::ChoicesEmpty)) => vec![],
        (Content::Calls(_), Some(Fault::CallsMissing)) => vec![],
        (Content::Text(text), _) => vec![json!({
            "id": "msg_0", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })],
        (Content::Calls(calls), _) => {
            calls.iter().enumerate().map(|(at, call)| call_item(at, call, fault)).collect()
        }
        _ => vec![],
    }
}

fn call_item(at: usize, call: &Call, fault: Option<Fault>) -> Value {
    let mut item = json!({
        "id": format!("fc_{at}"), "type": "function_call", "status": "completed", "call_id": id(call, fault),
        "name": call.name, "arguments": arguments(call, fault),
    });
    match fault {
        Some(Fault::IdMissing) => remove(&mut item, "call_id"),
        Some(Fault::NameMissing) => remove(&mut item, "name"),
        Some(Fault::MembersMissing) => remove(&mut item, "status"),
        _ => {}
    }
    item
}

/// Adds the events of the output item `item` at the index `at`, with one character per delta.
fn add_item_events(events: &mut Vec<Value>, at: usize, item: Value) {
    let id = item["id"].as_str().unwrap_or_default();
    let mut begun = item.clone();
    begun["status"] = json!("in_progress");
    let (kind, text) = match &item["content"][0]["text"] {
        Value::String(text) => {
            begun["content"] = json!([]);
            ("response.output_text.delta", text.as_str())
        }
        _ => {
            begun["arguments"] = json!("");
            ("response.function_call_arguments.delta", item["arguments"].as_str().unwrap_or_default())
        }
    };
    events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
    events.extend(text.chars().map(|piece| delta(kind, at, id, &piece.to_string())));
    events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
}

fn delta(kind: &str, at: usize, item_id: &str, delta: &str) -> Value {
    json!({"type": kind, "output_index": at, "item_id": item_id, "delta": delta})
}
