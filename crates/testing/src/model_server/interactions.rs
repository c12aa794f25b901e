//! Replies in the form of Gemini's Interactions API.

use serde_json::{Value, json};

use super::chat_completions::{arguments, id, remove};
use super::reply::{Call, Content, Fault};

/// Returns the JSON body of a whole reply.
pub(super) fn whole_body(content: &Content, fault: Option<Fault>) -> Value {
    let mut interaction = interaction(status(content, fault), fault);
    interaction["steps"] = steps(content, fault).into_iter().map(|(step, _)| step).collect();
    interaction
}

/// Returns the events of a streamed reply, without `[DONE]`.
pub(super) fn events(content: &Content, fault: Option<Fault>) -> Vec<Value> {
    let mut events = vec![
        json!({"event_type": "interaction.created", "interaction": interaction("in_progress", fault)}),
        json!({"event_type": "interaction.status_update", "interaction_id": "r_1", "status": "in_progress"}),
    ];
    for (at, (step, text)) in steps(content, fault).into_iter().enumerate() {
        let index = if fault == Some(Fault::IndexRepeated) { 0 } else { at };
        add_step_events(&mut events, index, step, &text, fault);
    }
    events.push(json!({
        "event_type": "interaction.completed", "interaction": interaction(status(content, fault), fault),
    }));
    if fault == Some(Fault::IndexMissing) {
        events.iter_mut().for_each(|event| remove(event, "index"));
    }
    events
}

/// Returns the first events of a stream with a piece of text.
pub(super) fn text_events() -> Vec<Value> {
    vec![
        json!({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}),
        json!({"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "The "}}),
    ]
}

fn interaction(status: &str, fault: Option<Fault>) -> Value {
    let usage = match fault {
        Some(Fault::UsageNull) => json!({"total_input_tokens": null, "total_output_tokens": 5}),
        _ => json!({"total_input_tokens": 10, "total_output_tokens": 5, "total_tokens": 15}),
    };
    let mut interaction = json!({
        "id": "r_1", "object": "interaction", "role": "model", "model": "scripted", "status": status,
        "usage": usage,
    });
    if fault == Some(Fault::MembersMissing) {
        remove(&mut interaction, "object");
        remove(&mut interaction, "role");
    }
    interaction
}

fn status(content: &Content, fault: Option<Fault>) -> &'static str {
    match (content, fault) {
        (_, Some(Fault::FinishReasonUnknown)) => "end_of_turn",
        (Content::Calls(_), Some(Fault::ArgumentsCut)) => "incomplete",
        (Content::Calls(_), Some(Fault::FinishReasonStop)) => "completed",
        (Content::Calls(_), _) => "requires_action",
        _ => "completed",
    }
}

/// Returns the steps of a whole reply, each with the text of its deltas.
fn steps(content: &Content, fault: Option<Fault>) -> Vec<(Value, String)> {
    match (content, fault) {
        (_, Some(Fault::ChoicesEmpty)) | (Content::Calls(_), Some(Fault::CallsMissing)) => vec![],
        (Content::Text(text), _) => {
            let content = json!([{"type": "text", "text": text}]);
            vec![(json!({"type": "model_output", "content": content}), text.clone())]
        }
        (Content::Calls(calls), _) => calls.iter().map(|call| call_step(call, fault)).collect(),
        _ => vec![],
    }
}

fn call_step(call: &Call, fault: Option<Fault>) -> (Value, String) {
    // Arguments are an object, so half of them are missing in a whole reply.
    let whole: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let mut step = json!({
        "type": "function_call", "id": id(call, fault), "name": call.name, "arguments": whole,
    });
    let text = match arguments(call, fault) {
        Value::String(text) => text,
        _ => call.arguments.clone(),
    };
    match fault {
        Some(Fault::IdMissing) => remove(&mut step, "id"),
        Some(Fault::NameMissing) => remove(&mut step, "name"),
        Some(Fault::ArgumentsCut) => remove(&mut step, "arguments"),
        _ => {}
    }
    (step, text)
}

/// Adds the events of `step` at `index`, with one character of `text` per delta.
fn add_step_events(events: &mut Vec<Value>, index: usize, mut step: Value, text: &str, fault: Option<Fault>) {
    let is_call = step["type"] == "function_call";
    // The whole arguments are in the first event of the step.
    let is_whole = is_call && fault == Some(Fault::ArgumentsAsObject);
    if !is_whole {
        remove(&mut step, if is_call { "arguments" } else { "content" });
    }
    events.push(json!({"event_type": "step.start", "index": index, "step": step}));
    let pieces = text.chars().filter(|_| !is_whole).map(|piece| match is_call {
        true => json!({"type": "arguments_delta", "arguments": piece.to_string()}),
        false => json!({"type": "text", "text": piece.to_string()}),
    });
    events.extend(pieces.map(|delta| json!({"event_type": "step.delta", "index": index, "delta": delta})));
    if !(is_call && fault == Some(Fault::ArgumentsCut)) {
        events.push(json!({"event_type": "step.stop", "index": index}));
    }
}
