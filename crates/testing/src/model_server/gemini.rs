//! Replies in the form of Gemini's `generateContent`.

use serde_json::{Value, json};

use super::chat_completions::{id, remove};
use super::error_reply::ErrorKind;
use super::reply::{Call, Content, Fault};

/// Returns the JSON body of a whole reply.
pub(super) fn whole_body(content: &Content, fault: Option<Fault>) -> Value {
    response(parts(content, fault), Some(finish_reason(content, fault)), fault)
}

/// Returns the events of a streamed reply. A call is in one event.
pub(super) fn events(content: &Content, fault: Option<Fault>) -> Vec<Value> {
    let pieces: Vec<_> = match content {
        Content::Text(text) => text.chars().map(|piece| json!({"text": piece.to_string()})).collect(),
        _ => parts(content, fault),
    };
    let mut events: Vec<_> = pieces.into_iter().map(|part| response(vec![part], None, fault)).collect();
    // Gemini 3 sends the finish reason with an empty text.
    events.push(response(vec![json!({"text": ""})], Some(finish_reason(content, fault)), fault));
    events
}

/// Returns the first event of a stream with a piece of text.
pub(super) fn text_event() -> Value {
    response(vec![json!({"text": "The "})], None, None)
}

/// Returns `kind` as Google sends it.
pub(super) fn error_body(kind: ErrorKind) -> Value {
    let (status, details) = match kind {
        ErrorKind::RateLimit => (
            "RESOURCE_EXHAUSTED",
            json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0s"}]),
        ),
        ErrorKind::Quota => ("RESOURCE_EXHAUSTED", json!([])),
        ErrorKind::Authentication => ("UNAUTHENTICATED", json!([])),
        ErrorKind::Overloaded => ("UNAVAILABLE", json!([])),
        _ => ("INVALID_ARGUMENT", json!([])),
    };
    json!({
        "error": {"code": kind.status(), "message": kind.message(), "status": status, "details": details},
    })
}

fn response(parts: Vec<Value>, finish_reason: Option<&str>, fault: Option<Fault>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(reason) = finish_reason {
        candidate["finishReason"] = json!(reason);
    }
    match fault {
        Some(Fault::MembersMissing) => remove(&mut candidate["content"], "role"),
        Some(Fault::IndexMissing) => remove(&mut candidate, "index"),
        _ => {}
    }
    let candidates = if fault == Some(Fault::ChoicesEmpty) { vec![] } else { vec![candidate] };
    let usage = match fault {
        Some(Fault::UsageNull) => json!({"promptTokenCount": null, "candidatesTokenCount": 5}),
        _ => json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}),
    };
    json!({
        "candidates": candidates, "usageMetadata": usage, "modelVersion": "scripted", "responseId": "r_1",
    })
}

fn finish_reason(content: &Content, fault: Option<Fault>) -> &'static str {
    match (content, fault) {
        (_, Some(Fault::FinishReasonUnknown)) => "END_OF_TURN",
        (Content::Calls(_), Some(Fault::ArgumentsCut)) => "MAX_TOKENS",
        (Content::Calls(_), Some(Fault::CallsMissing)) => "MALFORMED_FUNCTION_CALL",
        _ => "STOP",
    }
}

/// Returns the parts of the content. Gemini has no half calls: a call that was cut is missing.
fn parts(content: &Content, fault: Option<Fault>) -> Vec<Value> {
    match (content, fault) {
        (Content::Calls(_), Some(Fault::CallsMissing | Fault::ArgumentsCut)) => vec![],
        (Content::Text(text), _) => vec![json!({"text": text})],
        (Content::Calls(calls), _) => calls.iter().map(|call| call_part(call, fault)).collect(),
        _ => vec![],
    }
}

fn call_part(call: &Call, fault: Option<Fault>) -> Value {
    let args: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let mut function = json!({"id": id(call, fault), "name": call.name, "args": args});
    match fault {
        Some(Fault::IdMissing) => remove(&mut function, "id"),
        Some(Fault::NameMissing) => remove(&mut function, "name"),
        _ => {}
    }
    json!({ "functionCall": function })
}
