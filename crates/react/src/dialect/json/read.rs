//! Reads a step out of what a model wrote.

use haft_core::{ChatResponse, Content, Schema, ToolCall, Value};
use serde_json::Map;

use super::{
    super::{FINISH, take_finish},
    key,
};
use crate::Reply;

type Object = Map<String, Value>;

/// Where in a text an object is looked for at most.
const CANDIDATES: usize = 64;

/// The names under which models that ignore the schema are known to put the parts of a step.
const THOUGHTS: [&str; 4] = [key::THOUGHT, "next_thought", "reasoning", "thoughts"];
const NAMES: [&str; 5] = [key::TOOL_NAME, "next_tool_name", "name", "tool", "action"];
const ARGS: [&str; 6] = [key::TOOL_ARGS, "next_tool_args", "arguments", "args", "parameters", "action_input"];
/// The keys under which a step is wrapped as a whole.
const WRAPPERS: [&str; 3] = ["function", "tool_call", "step"];

/// Makes the words of the transcript of a reply.
pub(super) fn reply(response: ChatResponse, outputs: Option<&Schema>) -> Reply {
    let mut reply = Reply::from(response);
    // A refusal is no step.
    if reply.message.refusal.is_some() || reply.message.is_empty() {
        return reply;
    }
    // A server may well have read the calls itself.
    if !reply.message.tool_calls.is_empty() {
        if let Some(arguments) = take_finish(&mut reply.message) {
            finish(&mut reply, Value::String(arguments), outputs);
        }
        return reply;
    }
    let Some(mut step) = json_object(&reply.message.text(), |object| is_step(object, outputs)) else {
        reply.problem = Some(problem());
        return reply;
    };
    if is_answer(&step, outputs) {
        reply.message.content = vec![Content::Json { value: Value::Object(step) }];
        return reply;
    }
    if let Some(Value::String(thought)) = take(&mut step, &THOUGHTS)
        && !thought.trim().is_empty()
    {
        reply.message.reasoning = Some(thought);
    }
    match take(&mut step, &NAMES) {
        Some(Value::String(name)) if name != FINISH => {
            let arguments = match take(&mut step, &ARGS) {
                None | Some(Value::Null) => "{}".to_owned(),
                Some(Value::String(text)) => text,
                Some(arguments) => arguments.to_string(),
            };
            reply.message.content.clear();
            reply.message.tool_calls = vec![ToolCall::new("", name, arguments)];
        }
        _finish => {
            let arguments = take(&mut step, &ARGS).unwrap_or(Value::Object(step));
            finish(&mut reply, arguments, outputs);
        }
    }
    reply
}

/// Makes the answer of the arguments of [`FINISH`].
fn finish(reply: &mut Reply, arguments: Value, outputs: Option<&Schema>) {
    let answer = match outputs {
        // Whether it has the form that was asked for, the run says.
        Some(_) => Some(Content::Json { value: arguments }),
        None => answer(arguments).map(Content::text),
    };
    match answer {
        Some(answer) => reply.message.content = vec![answer],
        None => reply.problem = Some(no_answer()),
    }
}

/// The text of an answer, however the arguments wrap it.
fn answer(arguments: Value) -> Option<String> {
    match arguments {
        Value::Object(mut arguments) => match arguments.shift_remove(key::ANSWER) {
            Some(answer) => plain(answer),
            // Under another name, if there is no doubt which.
            None if arguments.len() == 1 => {
                arguments.into_iter().next().and_then(|(_, answer)| plain(answer))
            }
            None => None,
        },
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(arguments @ Value::Object(_)) => answer(arguments),
            _ => plain(Value::String(text)),
        },
        other => plain(other),
    }
}

fn plain(answer: Value) -> Option<String> {
    match answer {
        Value::Null => None,
        Value::String(text) => Some(text).filter(|text| !text.trim().is_empty()),
        other => Some(other.to_string()),
    }
}

fn is_step(object: &Object, outputs: Option<&Schema>) -> bool {
    object.contains_key(key::ANSWER)
        || NAMES.iter().any(|name| object.get(*name).is_some_and(Value::is_string))
        || is_answer(object, outputs)
}

/// Whether an object is the answer itself, without the step around it.
fn is_answer(object: &Object, outputs: Option<&Schema>) -> bool {
    !object.contains_key(key::TOOL_NAME)
        && outputs.is_some_and(|outputs| outputs.is_valid(&Value::Object(object.clone())))
}

fn take(object: &mut Object, names: &[&str]) -> Option<Value> {
    names.iter().find_map(|name| object.shift_remove(*name))
}

/// The first JSON object in a text that is wanted, whatever stands around it.
///
/// What begins like an object and cannot be read ends the search: what is inside it is a part of something, and no step
/// of its own.
pub(crate) fn json_object(text: &str, wanted: impl Fn(&Object) -> bool) -> Option<Object> {
    let mut rest = text;
    for _ in 0..CANDIDATES {
        rest = rest.get(rest.find('{')?..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Object>();
        let length = match values.next()? {
            Ok(object) if wanted(&object) => return Some(object),
            Ok(mut object) => match take(&mut object, &WRAPPERS) {
                Some(Value::Object(inner)) if wanted(&inner) => return Some(inner),
                _ => values.byte_offset(),
            },
            Err(_) if begins_object(rest) => return None,
            Err(_) => 1,
        };
        rest = rest.get(length..)?;
    }
    None
}

/// Whether a brace is followed by a key, and is not a brace in prose.
fn begins_object(text: &str) -> bool {
    text.get(1..).is_some_and(|text| text.trim_start().starts_with('"'))
}

fn problem() -> String {
    format!(
        "Your reply cannot be read. Write one JSON object and nothing else: \
         {{\"{}\": \"why\", \"{}\": \"a tool, or {FINISH}\", \"{}\": {{its arguments}}}}",
        key::THOUGHT,
        key::TOOL_NAME,
        key::TOOL_ARGS
    )
}

fn no_answer() -> String {
    format!(
        "Your reply has no answer. To end, write it so: {{\"{}\": \"why\", \"{}\": \"{FINISH}\", \"{}\": {{\"{}\": \"the \
         answer\"}}}}",
        key::THOUGHT,
        key::TOOL_NAME,
        key::TOOL_ARGS,
        key::ANSWER
    )
}
