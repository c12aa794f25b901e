//! Checks of complete and streamed replies of a model.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::{Report, Rule};
use haft_core::{
    content::Content,
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse, FinishReason, ModelError},
};

const REPLY_NOT_EMPTY: Rule = Rule {
    text: "a reply has text or calls",
    remedy: "return `ModelError::EmptyResponse` for a reply with neither",
};
const REQUEST_COUNTED: Rule = Rule {
    text: "a reply counts as a request",
    remedy: "set `usage`, with `Usage::one_request` if the tokens are unknown: the limits of a run depend on it",
};
const CALLS_IDENTIFIED: Rule = Rule {
    text: "each call has a unique id and a name",
    remedy: "generate ids if the server sends none or duplicates",
};
const CALLS_COMPLETE: Rule = Rule {
    text: "an incomplete call is never returned",
    remedy: "return `ModelError::Truncated` with the partial reply",
};
const STREAM_ENDS_ONCE: Rule = Rule {
    text: "a stream ends exactly once, with the whole reply or an error",
    remedy: "yield `ChatEvent::Finished` last and once; end a broken stream with `ModelError::Truncated`",
};
const DELTAS_ADD_UP: Rule = Rule {
    text: "the deltas of a stream add up to the whole reply",
    remedy: "yield each piece as a delta, and build `ChatEvent::Finished` from the same pieces",
};

/// Checks `response` and its tool calls, and adds violations to `report`.
pub(super) fn check_reply(response: &ChatResponse, report: &mut Report) {
    // An empty reply is valid if the model did not finish normally, for example at a token limit.
    let is_done = matches!(response.finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
    report.require(REPLY_NOT_EMPTY, !(is_done && response.message.is_empty()), || "it is empty".to_owned());
    report.require(REQUEST_COUNTED, response.usage.requests > 0, || "`usage.requests` is 0".to_owned());
    let mut ids = HashSet::new();
    for call in &response.message.tool_calls {
        let is_named = !call.name.is_empty() && !call.id.is_empty() && ids.insert(&call.id);
        report.require(CALLS_IDENTIFIED, is_named, || {
            format!("a call of {:?} has the id {:?}", call.name, call.id)
        });
        let is_truncated = response.finish_reason == FinishReason::Length && call.arguments.value().is_err();
        report.require(CALLS_COMPLETE, !is_truncated, || {
            format!("the arguments of {:?} are truncated", call.name)
        });
    }
}

/// Returns `true` if `one` and `other` have the same content, reasoning, refusal and calls. Call
/// ids and provider data are ignored, because servers generate new values for each reply.
pub(super) fn is_same_reply(one: &AssistantMessage, other: &AssistantMessage) -> bool {
    let plain = |message: &AssistantMessage| {
        let calls =
            message.tool_calls.iter().map(|call| (call.name.clone(), parse_arguments(&call.arguments)));
        let AssistantMessage { content, reasoning, refusal, .. } = message;
        (content.clone(), reasoning.clone(), refusal.clone(), calls.collect::<Vec<_>>())
    };
    plain(one) == plain(other)
}

/// Parses the arguments of a call as JSON. Empty text is read as `{}`, because a stream may have no
/// delta for a call without arguments. Invalid JSON becomes a JSON string, so that it can be
/// compared.
fn parse_arguments(text: &str) -> Value {
    if is_empty_object(text) {
        return json!({});
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn is_empty_object(arguments: &str) -> bool {
    matches!(arguments.trim(), "" | "{}")
}

/// Checks `events`, the events of one stream. Returns the response in [`ChatEvent::Finished`], or
/// `None` if there is no such event.
pub(super) fn check_stream<'e>(
    events: &'e [Result<ChatEvent, ModelError>],
    report: &mut Report,
) -> Option<&'e ChatResponse> {
    let is_end = |event: &&Result<_, _>| matches!(event, Err(_) | Ok(ChatEvent::Finished(_)));
    match events.iter().position(|event| is_end(&event)) {
        None => report
            .add_finding(STREAM_ENDS_ONCE, format!("it ends after {} events with neither", events.len())),
        Some(end) => {
            let more = events.len() - end - 1;
            report.require(STREAM_ENDS_ONCE, more == 0, || format!("{more} events follow the end"));
        }
    }
    let whole = events.iter().find_map(|event| match event {
        Ok(ChatEvent::Finished(response)) => Some(response),
        _ => None,
    })?;
    check_reply(whole, report);
    check_deltas(events.iter().filter_map(|event| event.as_ref().ok()), whole, report);
    Some(whole)
}

/// Checks that the deltas in `events` add up to the text, the reasoning and the calls of `whole`,
/// the response at the end of the stream.
fn check_deltas<'e>(events: impl Iterator<Item = &'e ChatEvent>, whole: &ChatResponse, report: &mut Report) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut calls: BTreeMap<usize, (&str, &str, String)> = BTreeMap::new();
    for event in events {
        match event {
            ChatEvent::TextDelta { text: more } => text.push_str(more),
            ChatEvent::ReasoningDelta { text: more } => reasoning.push_str(more),
            ChatEvent::ToolCallStarted { index, id, name } => {
                let is_new = calls.insert(*index, (id, name, String::new())).is_none();
                report.require(DELTAS_ADD_UP, is_new, || format!("call {index} starts twice"));
            }
            ChatEvent::ToolCallDelta { index, arguments } => match calls.get_mut(index) {
                Some((.., text)) => text.push_str(arguments),
                None => {
                    report.add_finding(DELTAS_ADD_UP, format!("arguments of call {index} precede its start"));
                }
            },
            _ => {}
        }
    }
    let message = &whole.message;
    let pieces: String = message.content.iter().map(Content::as_text).collect();
    let is_same = text == message.text() || text == pieces;
    report.require(DELTAS_ADD_UP, is_same, || {
        format!("the text is {:?}, but the deltas are {text:?}", message.text())
    });
    let expected = message.reasoning.as_deref().unwrap_or_default();
    report.require(DELTAS_ADD_UP, reasoning == expected, || {
        format!("the reasoning is {expected:?}, but the deltas are {reasoning:?}")
    });
    let streamed: Vec<_> = calls.values().map(|(id, name, text)| (*id, *name, text.as_str())).collect();
    let expected = message.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments));
    let expected: Vec<_> = expected.collect();
    let is_same = streamed.len() == expected.len()
        && streamed.iter().zip(&expected).all(|(one, other)| {
            (one.0, one.1) == (other.0, other.1)
                && (one.2 == other.2 || is_empty_object(one.2) && is_empty_object(other.2))
        });
    report.require(DELTAS_ADD_UP, is_same, || {
        format!("the calls are {expected:?}, but the deltas are {streamed:?}")
    });
}
