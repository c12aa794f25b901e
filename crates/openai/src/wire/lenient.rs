use serde_json::Value;

/// A reply, or a piece of one, without what stands in the place of something else: what is left can be read.
pub(super) fn mended(mut reply: Value) -> Value {
    let Value::Object(fields) = &mut reply else { return reply };
    let choices = fields.get_mut("choices").filter(|choices| !choices.is_null());
    let Some(choices) = choices else { return reply };
    for choice in objects(choices) {
        for name in ["message", "delta"] {
            let Some(message) = choice.get_mut(name) else { continue };
            if !message.is_object() {
                *message = Value::Null;
            }
            let Some(calls) = message.get_mut("tool_calls") else { continue };
            for call in objects(calls) {
                if let Some(function) = call.get_mut("function").filter(|function| !function.is_object()) {
                    *function = Value::Null;
                }
            }
        }
    }
    reply
}

/// Makes a list of objects of what should be one: an object alone is its own list.
fn objects(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    *list = match list.take() {
        Value::Array(list) => list.into_iter().filter(Value::is_object).collect(),
        object @ Value::Object(_) => Value::Array(vec![object]),
        _ => Value::Array(Vec::new()),
    };
    list.as_array_mut().into_iter().flatten()
}
