//! What any reply of a model must be, whole or in pieces.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};

use super::{Promise, Report};
use haft_core::{
    content::Content,
    message::AssistantMessage,
    model::{ChatEvent, ChatResponse, FinishReason, ModelError},
};

const SAYS: Promise = Promise {
    what: "a reply says something",
    remedy: "return `ModelError::EmptyResponse` for one with neither text nor calls",
};
const COUNTED: Promise = Promise {
    what: "a reply counts as a request",
    remedy: "set `usage`, with `Usage::of_request` where no tokens are known: the limits of a run go by it",
};
const NAMED: Promise = Promise {
    what: "each call has an id of its own and a name",
    remedy: "make ids where the server sends none, or the same twice",
};
const WHOLE: Promise = Promise {
    what: "a call of which only a part arrived is never returned",
    remedy: "return `ModelError::Truncated` with what had come",
};
const ENDS: Promise = Promise {
    what: "a stream ends with the whole reply or an error, once",
    remedy: "yield `ChatEvent::Finished` last and once; end one that was cut with `ModelError::Truncated`",
};
const FOLDS: Promise = Promise {
    what: "the pieces of a stream put together are the whole reply",
    remedy: "yield each piece as a delta, and make `ChatEvent::Finished` of the same pieces",
};

/// Judges a whole reply.
pub(super) fn check(response: &ChatResponse, report: &mut Report) {
    // One that was stopped says so.
    let is_done = matches!(response.finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
    report.hold(SAYS, !(is_done && response.message.is_empty()), || "it is empty".to_owned());
    report.hold(COUNTED, response.usage.requests > 0, || "its usage has no request".to_owned());
    let mut ids = HashSet::new();
    for call in &response.message.tool_calls {
        let is_named = !call.name.is_empty() && !call.id.is_empty() && ids.insert(&call.id);
        report.hold(NAMED, is_named, || {
            format!("there is a call of {:?} with the id {:?}", call.name, call.id)
        });
        let is_cut = response.finish_reason == FinishReason::Length && call.arguments.value().is_err();
        report.hold(WHOLE, !is_cut, || format!("the arguments of {:?} are cut", call.name));
    }
}

/// Whether two replies say and ask for the same. A server makes ids anew, and what only it understands.
pub(super) fn says_same(one: &AssistantMessage, other: &AssistantMessage) -> bool {
    let plain = |message: &AssistantMessage| {
        let calls = message.tool_calls.iter().map(|call| (call.name.clone(), arguments(&call.arguments)));
        let AssistantMessage { content, reasoning, refusal, .. } = message;
        (content.clone(), reasoning.clone(), refusal.clone(), calls.collect::<Vec<_>>())
    };
    plain(one) == plain(other)
}

/// No text, as a stream of no pieces has it, is no arguments.
fn arguments(text: &str) -> Value {
    if are_none(text) {
        return json!({});
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn are_none(arguments: &str) -> bool {
    matches!(arguments.trim(), "" | "{}")
}

/// Judges a stream to its end, and gives the whole reply.
pub(super) fn check_stream<'e>(
    events: &'e [Result<ChatEvent, ModelError>],
    report: &mut Report,
) -> Option<&'e ChatResponse> {
    let is_end = |event: &&Result<_, _>| matches!(event, Err(_) | Ok(ChatEvent::Finished(_)));
    match events.iter().position(|event| is_end(&event)) {
        None => report.add(ENDS, format!("it ends after {} events with neither", events.len())),
        Some(end) => {
            let more = events.len() - end - 1;
            report.hold(ENDS, more == 0, || format!("{more} events come after the end"));
        }
    }
    let whole = events.iter().find_map(|event| match event {
        Ok(ChatEvent::Finished(response)) => Some(response),
        _ => None,
    })?;
    check(whole, report);
    check_pieces(events.iter().filter_map(|event| event.as_ref().ok()), whole, report);
    Some(whole)
}

fn check_pieces<'e>(events: impl Iterator<Item = &'e ChatEvent>, whole: &ChatResponse, report: &mut Report) {
    let (mut text, mut reasoning) = (String::new(), String::new());
    let mut calls: BTreeMap<usize, (&str, &str, String)> = BTreeMap::new();
    for event in events {
        match event {
            ChatEvent::TextDelta { text: more } => text.push_str(more),
            ChatEvent::ReasoningDelta { text: more } => reasoning.push_str(more),
            ChatEvent::ToolCallStarted { index, id, name } => {
                let is_new = calls.insert(*index, (id, name, String::new())).is_none();
                report.hold(FOLDS, is_new, || format!("call {index} begins twice"));
            }
            ChatEvent::ToolCallDelta { index, arguments } => match calls.get_mut(index) {
                Some((.., text)) => text.push_str(arguments),
                None => report.add(FOLDS, format!("arguments of call {index} come before it begins")),
            },
            _ => {}
        }
    }
    let message = &whole.message;
    let pieces: String = message.content.iter().map(Content::as_text).collect();
    let is_same = text == message.text() || text == pieces;
    report.hold(FOLDS, is_same, || format!("the text is {:?}, and came as {text:?}", message.text()));
    let thought = message.reasoning.as_deref().unwrap_or_default();
    report.hold(FOLDS, reasoning == thought, || {
        format!("the reasoning is {thought:?}, and came as {reasoning:?}")
    });
    let came: Vec<_> = calls.values().map(|(id, name, text)| (*id, *name, text.as_str())).collect();
    let said = message.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments));
    let said: Vec<_> = said.collect();
    let is_same = came.len() == said.len()
        && came.iter().zip(&said).all(|(came, said)| {
            (came.0, came.1) == (said.0, said.1) && (came.2 == said.2 || are_none(came.2) && are_none(said.2))
        });
    report.hold(FOLDS, is_same, || format!("the calls are {said:?}, and came as {came:?}"));
}
