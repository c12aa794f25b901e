//! Comparison of the calls of a run with the expected calls.

use serde_json::{Map, Value};

use crate::cases::{Case, ExpectedCall};

/// A call of a run, with the index of the message that contains it.
pub(crate) struct MadeCall {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) reply: usize,
}

/// Returns `true` if `made` has exactly the expected calls of `case`, in any order, and each call
/// is in a later reply than the calls whose results it needs.
pub(crate) fn are_calls_right(case: &Case, made: &[MadeCall]) -> bool {
    let mut replies: Vec<Option<usize>> = vec![None; case.calls.len()];
    for call in made {
        let is_expected = |(index, expected): &(usize, &ExpectedCall)| {
            replies.get(*index).is_some_and(Option::is_none)
                && is_right_call(expected, &call.tool, &call.arguments)
        };
        let Some((index, _)) = case.calls.iter().enumerate().find(is_expected) else { return false };
        if let Some(reply) = replies.get_mut(index) {
            *reply = Some(call.reply);
        }
    }
    let reply = |index: usize| replies.get(index).copied().flatten();
    case.calls.iter().enumerate().all(|(index, call)| {
        reply(index).is_some_and(|own| {
            call.after.iter().all(|earlier| reply(*earlier).is_some_and(|earlier| earlier < own))
        })
    })
}

/// Returns `true` if a call of `tool` with `arguments` is the expected call `expected`.
pub(crate) fn is_right_call(expected: &ExpectedCall, tool: &str, arguments: &Value) -> bool {
    let Value::Object(given) = arguments else { return false };
    tool == expected.tool && are_arguments_right(&expected.arguments, given)
}

fn are_arguments_right(expected: &Map<String, Value>, given: &Map<String, Value>) -> bool {
    given.keys().all(|name| expected.contains_key(name))
        && expected.iter().all(|(name, accepted)| {
            let value = given.get(name).unwrap_or(&Value::Null);
            accepted
                .as_array()
                .is_some_and(|accepted| accepted.iter().any(|accepted| is_same(accepted, value)))
        })
}

/// Compares numbers by their value. Compares strings without case, whitespace and the punctuation
/// `,./-_*^`, as the Berkeley Function Calling Leaderboard does.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => normalized(one) == normalized(other),
        (Value::Number(one), Value::Number(other)) => match (one.as_f64(), other.as_f64()) {
            (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(1.0),
            _ => one == other,
        },
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

fn normalized(text: &str) -> String {
    let ignored = |letter: &char| letter.is_whitespace() || ",./-_*^".contains(*letter);
    text.chars().filter(|letter| !ignored(letter)).flat_map(char::to_lowercase).collect()
}

/// Returns `true` if `answer` contains a text of each group, ignoring case and the commas within
/// numbers.
pub(crate) fn is_answer_right(case: &Case, answer: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(',', "");
    let answer = plain(answer);
    case.answer.iter().all(|group| group.iter().any(|text| answer.contains(&plain(text))))
}

#[cfg(test)]
mod tests;
