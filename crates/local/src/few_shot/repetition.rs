//! Detection of calls that repeat an earlier call.

use haft_core::{Schema, ToolCall, message::MessageBody, model::ChatRequest};
use serde_json::Value;

use super::calls::texts_of;
use super::dialogue::last_question;
use super::grounding::{KnownFacts, is_opposite};

/// Words with which a user asks for another call with the same arguments.
const REPEAT_WORDS: [&str; 16] = [
    "again",
    "another",
    "check",
    "current",
    "currently",
    "latest",
    "more",
    "next",
    "now",
    "once",
    "redo",
    "refresh",
    "reload",
    "repeat",
    "retry",
    "update",
];

/// Returns `true` if the conversation contains a successful result of a call with the name and the
/// arguments of `call`, and the last question does not ask for a repetition.
///
/// A small model repeats the call if a later question is about its result. A call without arguments
/// is usually an action (`skip_track`) or its result changes (`get_time`), so it may be repeated in
/// the reply to another question.
pub(super) fn repeats_known_result(request: &ChatRequest, call: &ToolCall) -> bool {
    let messages: Vec<_> = request.all_messages().collect();
    let question = last_question(&messages);
    let text =
        question.and_then(|index| messages.get(index)).map(|message| message.text()).unwrap_or_default();
    let arguments = call.arguments.value_or_string();
    let has_arguments = arguments.as_object().is_some_and(|arguments| !arguments.is_empty());
    let may_repeat = !has_arguments || asks_for_repetition(&text);
    let earlier = messages.iter().enumerate().filter(|(index, _)| !may_repeat || question < Some(*index));
    let is_same = |made: &ToolCall| made.name == call.name && made.arguments.value_or_string() == arguments;
    let ids: Vec<_> = earlier
        .flat_map(|(_, message)| message.tool_calls())
        .filter(|made| is_same(made))
        .map(|made| &made.id)
        .collect();
    messages.iter().any(|message| match message.body() {
        MessageBody::Tool(result) => result.is_success() && ids.contains(&&result.call_id),
        _ => false,
    })
}

/// Returns `true` if `call`, the call for `need`, repeats `made`, an earlier call in the same
/// reply. `schema` is the input schema of the tool of `call`.
///
/// A repetition has the arguments of `made`, or a part of its lists, and otherwise only defaults.
/// It may omit some of them, unless `need` contains one of its own arguments: "unread mail from Ben
/// and all mail from Ben" needs two calls.
pub(super) fn is_repetition(made: &ToolCall, need: &str, call: &ToolCall, schema: &Schema) -> bool {
    let (known, arguments) = (made.arguments.value_or_string(), call.arguments.value_or_string());
    let (Some(known), Some(arguments)) = (known.as_object(), arguments.as_object()) else {
        return made.name == call.name && made.arguments == call.arguments;
    };
    let is_default = |name: &str, value: &Value| {
        let mut optional = schema.properties().filter(|property| !property.is_required);
        let property = optional.find(|property| property.name == name);
        property.is_some_and(|property| property.schema.get("default") == Some(value))
    };
    let is_known = |name: &str, value: &Value| match (known.get(name), value) {
        (Some(Value::Array(known)), Value::Array(items)) => items.iter().all(|item| known.contains(item)),
        (known, value) => known == Some(value),
    };
    let adds_nothing = arguments.iter().all(|(name, value)| is_known(name, value) || is_default(name, value));
    let has_all = known.keys().all(|name| arguments.contains_key(name));
    let need = need.to_lowercase();
    let is_stated = || texts_of(call).iter().any(|text| need.contains(text.as_str()));
    made.name == call.name && adds_nothing && (has_all || !is_stated())
}

/// Returns `true` if `call` does the opposite of `made`, an earlier call in the same reply, and if
/// the conversation does not ask for it: `unlock` after `lock` and "could you lock it".
pub(super) fn reverts(made: &ToolCall, call: &ToolCall, facts: &KnownFacts) -> bool {
    let (known, arguments) = (made.arguments.value_or_string(), call.arguments.value_or_string());
    let (Some(known), Some(arguments)) = (known.as_object(), arguments.as_object()) else { return false };
    let mut others = arguments.iter().filter(|(name, value)| known.get(*name) != Some(value));
    let (Some((name, Value::String(value))), None) = (others.next(), others.next()) else { return false };
    let reverts = known.get(name).and_then(Value::as_str).is_some_and(|known| is_opposite(value, known));
    made.name == call.name && reverts && !facts.mentions_name(value)
}

fn asks_for_repetition(question: &str) -> bool {
    let question = question.to_lowercase();
    let mut words = question.split(|letter: char| !letter.is_alphanumeric());
    words.any(|word| REPEAT_WORDS.contains(&word))
}

#[cfg(test)]
mod tests;
