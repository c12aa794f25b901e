//! Reads a step out of what a model wrote.

use haft_core::{ChatResponse, Content, ToolCall, Value};
use serde_json::Map;

use super::{super::FINISH, key};
use crate::Reply;

type Object = Map<String, Value>;

/// Where in a text an object is looked for at most.
const CANDIDATES: usize = 64;

/// The names under which models that ignore the schema are known to put the parts of a step.
const THOUGHTS: [&str; 4] = [key::THOUGHT, "next_thought", "reasoning", "thoughts"];
const NAMES: [&str; 5] = [key::TOOL_NAME, "next_tool_name", "name", "tool", "action"];
const ARGS: [&str; 6] = [key::TOOL_ARGS, "next_tool_args", "arguments", "args", "parameters", "action_input"];

/// Makes the words of the transcript of a reply.
pub(super) fn reply(response: ChatResponse, outputs: bool) -> Reply {
    let mut reply = Reply::from(response);
    // A refusal is no step, and a server may well have read the calls itself.
    if reply.message.refusal.is_some() || !reply.message.tool_calls.is_empty() || reply.message.is_empty() {
        return reply;
    }
    let Some(mut step) = json_object(&reply.message.text(), is_step) else {
        reply.problem = Some(problem());
        return reply;
    };
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
            reply.message.content = vec![answer(arguments, outputs)];
        }
    }
    reply
}

fn answer(arguments: Value, outputs: bool) -> Content {
    if outputs {
        return Content::Json { value: arguments };
    }
    let answer = match arguments {
        Value::Object(mut arguments) => match arguments.shift_remove(key::ANSWER) {
            Some(answer) => answer,
            None => Value::Object(arguments),
        },
        other => other,
    };
    match answer {
        Value::String(text) => Content::Text { text },
        Value::Null => Content::text(""),
        other => Content::text(other.to_string()),
    }
}

fn is_step(object: &Object) -> bool {
    object.contains_key(key::ANSWER)
        || NAMES.iter().any(|name| object.get(*name).is_some_and(Value::is_string))
}

fn take(object: &mut Object, names: &[&str]) -> Option<Value> {
    names.iter().find_map(|name| object.shift_remove(*name))
}

/// The first JSON object in a text that is wanted, whatever stands around it.
pub(crate) fn json_object(text: &str, wanted: impl Fn(&Object) -> bool) -> Option<Object> {
    text.match_indices('{').take(CANDIDATES).find_map(|(start, _)| {
        let rest = text.get(start..)?;
        match serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()? {
            Value::Object(object) if wanted(&object) => Some(object),
            _ => None,
        }
    })
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
