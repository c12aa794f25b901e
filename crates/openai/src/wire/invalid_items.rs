use serde_json::Value;

/// Returns `reply` without the choices and calls that are not objects. A `function` that is not an
/// object becomes `null`, and a single object in place of a list becomes a list of one. Used for a
/// reply or chunk that could not be parsed.
pub(super) fn without_invalid_items(mut reply: Value) -> Value {
    let Value::Object(fields) = &mut reply else { return reply };
    let choices = fields.get_mut("choices").filter(|choices| !choices.is_null());
    let Some(choices) = choices else { return reply };
    for choice in retain_objects(choices) {
        for name in ["message", "delta"] {
            let Some(message) = choice.get_mut(name) else { continue };
            let Some(calls) = message.get_mut("tool_calls") else { continue };
            for call in retain_objects(calls) {
                if let Some(function) = call.get_mut("function").filter(|function| !function.is_object()) {
                    *function = Value::Null;
                }
            }
        }
    }
    reply
}

/// Replaces `list` with a list of the objects in it, and returns these objects. A single object
/// becomes a list with one element.
fn retain_objects(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    *list = match list.take() {
        Value::Array(list) => list.into_iter().filter(Value::is_object).collect(),
        object @ Value::Object(_) => Value::Array(vec![object]),
        _ => Value::Array(Vec::new()),
    };
    list.as_array_mut().into_iter().flatten()
}
