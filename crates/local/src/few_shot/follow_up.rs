//! Short questions that continue an earlier question, such as "And in Madrid?".
//!
//! Such a question names only the difference from the earlier question. Its call has the tool of
//! the earlier call, and the arguments of the earlier call that the question does not change.

use std::collections::HashSet;

use haft_core::{Schema, ToolCall, message::MessageBody, model::ChatRequest};
use serde_json::Value;

use super::dialogue::last_question;
use super::grounding::{KnownWords, is_composed, spaced_json, spaced_words, stem};
use super::question::{is_name, starts_with_phrase};

/// The beginnings of a question that continues an earlier question.
const BEGINNINGS: [&str; 10] = [
    "and ",
    "also ",
    "how about ",
    "instead ",
    "now ",
    "or ",
    "same for ",
    "the same ",
    "what about ",
    "what if ",
];
/// Prepositions that may follow such a beginning, besides those of all phrases.
const PREPOSITIONS: [&str; 4] = ["after", "before", "during", "since"];
/// The maximum number of words of such a question.
const MAX_WORDS: usize = 10;

/// The first words of a question.
const QUESTION_WORDS: [&str; 20] = [
    "and", "are", "did", "do", "does", "for", "from", "has", "how", "in", "is", "on", "was", "were", "what",
    "when", "where", "which", "who", "whose",
];
/// Phrases for an item of an earlier result.
const ITEM_PHRASES: [&str; 8] = [
    "of the two",
    "of them",
    "of these",
    "of those",
    "the first one",
    "the last one",
    "the second one",
    "which one",
];

/// Returns `true` if an earlier tool result in JSON may answer the last sentence of `question`: a
/// question about a key or an item of a result, without a name or a number that is not in the
/// conversation.
pub(super) fn may_be_answered(request: &ChatRequest, question: &str) -> bool {
    let question = question.rsplit(". ").next().unwrap_or_default();
    let lower = question.to_lowercase();
    let first = lower.split_whitespace().next().unwrap_or_default();
    if !QUESTION_WORDS.contains(&first.trim_end_matches("'s")) {
        return false;
    }
    let messages: Vec<_> = request.all_messages().collect();
    let last = last_question(&messages);
    let mut keys = HashSet::new();
    let mut known = String::new();
    for message in messages.iter().take(last.unwrap_or_default()) {
        match message.body() {
            MessageBody::Tool(result) => {
                let text = result.model_text();
                if let Ok(value) = serde_json::from_str(&text) {
                    add_keys(&value, &mut keys);
                }
                known.push_str(&text);
            }
            _ => known.push_str(&message.text()),
        }
        known.push('\n');
    }
    let known = KnownWords::new(&known);
    let words = || question.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_name = |word: &&str| word.chars().any(|letter| letter.is_uppercase() || letter.is_numeric());
    let has_new_name = words().skip(1).filter(is_name).any(|word| !known.has_words(&word.to_lowercase()));
    let has_key = || words().filter_map(|word| stem(&word.to_lowercase())).any(|stem| keys.contains(&stem));
    let refers_to_item = || ITEM_PHRASES.iter().any(|phrase| lower.contains(phrase));
    !keys.is_empty() && !has_new_name && (has_key() || refers_to_item())
}

fn add_keys(value: &Value, keys: &mut HashSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| add_keys(item, keys)),
        Value::Object(members) => {
            for (key, value) in members {
                keys.extend(spaced_words(key).split_whitespace().filter_map(stem));
                add_keys(value, keys);
            }
        }
        _ => {}
    }
}

/// Returns `true` if `sentence` continues the sentence before it without a verb of its own: "And in
/// Madrid?" after "Is it warm in Rome?".
pub(super) fn is_elliptical(sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let rest = BEGINNINGS.iter().find(|beginning| lower.starts_with(**beginning));
    let rest = rest.and_then(|beginning| sentence.get(beginning.len()..)).unwrap_or_default();
    let first = rest.split(' ').next().unwrap_or_default();
    let is_phrase = starts_with_phrase(rest) || PREPOSITIONS.contains(&first) || is_name(first);
    let is_clause = first == "I" || first.starts_with("I'") || rest.contains(", ");
    is_phrase && !is_clause && !rest.is_empty() && sentence.split_whitespace().count() <= MAX_WORDS
}

/// Returns the last call of an earlier reply, if `question` continues its question.
pub(super) fn continued_call<'a>(request: &'a ChatRequest, question: &str) -> Option<&'a ToolCall> {
    let lower = question.to_lowercase();
    let is_follow_up = BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning))
        && question.split_whitespace().count() <= MAX_WORDS;
    if !is_follow_up {
        return None;
    }
    // Only the exchange directly before the question is continued.
    let messages: Vec<_> = request.all_messages().collect();
    let before = messages.get(..last_question(&messages)?)?;
    let exchange = before.get(last_question(before).unwrap_or_default()..)?;
    let mut calls = exchange.iter().rev().filter_map(|message| match message.body() {
        MessageBody::Assistant(reply) => reply.tool_calls.last(),
        _ => None,
    });
    calls.next().filter(|call| request.tools.get(call.name.as_str()).is_some())
}

/// Returns `call` with the arguments of `earlier` that `question` does not change: texts and
/// numbers without a word of the question, and texts that the model composed from the question
/// itself. Returns `None` if there are none, or if `schema` does not permit the result.
pub(super) fn with_earlier_arguments(
    call: &ToolCall,
    earlier: &ToolCall,
    question: &str,
    schema: &Schema,
) -> Option<ToolCall> {
    let words = KnownWords::new(question);
    let has_quotation = question.contains(['"', '\u{201c}', '\'']);
    let (arguments, known) = (call.arguments.value_or_string(), earlier.arguments.value_or_string());
    let mut merged = arguments.as_object()?.clone();
    for (name, value) in known.as_object()? {
        let is_changed = match merged.get(name) {
            Some(Value::String(_)) if is_composed(name) => has_quotation,
            Some(Value::String(text)) => words.mentions(&text.to_lowercase()) || text.len() <= 3,
            Some(Value::Number(number)) => words.has_words(&number.to_string()),
            Some(_) => true,
            None => false,
        };
        if !is_changed {
            merged.insert(name.clone(), value.clone());
        }
    }
    let merged = Value::Object(merged);
    (merged != *arguments && schema.is_valid(&merged))
        .then(|| ToolCall::new(call.id.clone(), call.name.clone(), spaced_json(&merged)))
}

#[cfg(test)]
mod tests;
