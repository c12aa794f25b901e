//! The requirements of strict model servers.

use serde_json::Value;

/// A requirement that some servers of the Chat Completions API have for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Requirement {
    /// At most one system message, the first. Chat templates of Qwen, Mistral and others.
    SystemMessageFirst,
    /// Ids of calls have at most 40 characters. OpenAI.
    CallIdsAtMost40,
    /// Ids of calls have exactly 9 ASCII letters and digits. Mistral.
    CallIdsOf9,
    /// Each call has exactly one result, directly after its message. OpenAI.
    PairedResults,
    /// A conversation with calls has a list of tools. Bedrock behind gateways.
    ToolsBesideCalls,
    /// Each schema of an array has `items`. OpenAI, Gemini.
    ArraysHaveItems,
    /// No subschema is a boolean. Ollama, Fireworks.
    NoBooleanSchemas,
    /// No `type` beside `anyOf`, and a `type` in each alternative. Moonshot.
    TypesInAlternatives,
}

impl Requirement {
    /// All requirements.
    pub const ALL: &[Self] = &[
        Self::SystemMessageFirst,
        Self::CallIdsAtMost40,
        Self::CallIdsOf9,
        Self::PairedResults,
        Self::ToolsBesideCalls,
        Self::ArraysHaveItems,
        Self::NoBooleanSchemas,
        Self::TypesInAlternatives,
    ];

    /// Checks the JSON body of a request.
    ///
    /// # Errors
    ///
    /// Returns the text of the violation, with its place.
    pub fn check(self, request: &Value) -> Result<(), String> {
        match self {
            Self::SystemMessageFirst => system_message_first(request),
            Self::CallIdsAtMost40 => {
                check_call_ids(request, "at most 40 characters", |id| id.chars().count() <= 40)
            }
            Self::CallIdsOf9 => check_call_ids(request, "9 letters and digits", |id| {
                id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
            }),
            Self::PairedResults => paired_results(request),
            Self::ToolsBesideCalls => tools_beside_calls(request),
            Self::ArraysHaveItems => check_schemas(request, array_has_items),
            Self::NoBooleanSchemas => check_schemas(request, no_boolean),
            Self::TypesInAlternatives => check_schemas(request, types_in_alternatives),
        }
    }
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value.get(member).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member).and_then(Value::as_str)
}

fn system_message_first(request: &Value) -> Result<(), String> {
    let is_system = |message: &&Value| matches!(text(message, "role"), Some("system" | "developer"));
    match list(request, "messages").iter().skip(1).position(|message| is_system(&message)) {
        Some(at) => Err(format!("system message at position {}, permitted only at position 0", at + 1)),
        None => Ok(()),
    }
}

/// Returns the ids of the calls and of the results.
fn call_ids(request: &Value) -> impl Iterator<Item = &str> {
    list(request, "messages").iter().flat_map(|message| {
        let calls = list(message, "tool_calls").iter().filter_map(|call| text(call, "id"));
        calls.chain(text(message, "tool_call_id"))
    })
}

fn check_call_ids(request: &Value, rule: &str, is_valid: fn(&str) -> bool) -> Result<(), String> {
    match call_ids(request).find(|id| !is_valid(id)) {
        Some(id) => {
            Err(format!("the id {id:?} of a call has {} characters, required: {rule}", id.chars().count()))
        }
        None => Ok(()),
    }
}

fn paired_results(request: &Value) -> Result<(), String> {
    let messages = list(request, "messages");
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(id) = text(message, "tool_call_id") {
            let Some(found) = open.iter().position(|open| *open == id) else {
                return Err(format!("the result at message {at} has no call before it"));
            };
            open.remove(found);
            continue;
        }
        if !open.is_empty() {
            return Err(format!("the calls {open:?} before message {at} have no result"));
        }
        open.extend(list(message, "tool_calls").iter().filter_map(|call| text(call, "id")));
    }
    if open.is_empty() { Ok(()) } else { Err(format!("the calls {open:?} have no result")) }
}

fn tools_beside_calls(request: &Value) -> Result<(), String> {
    if call_ids(request).next().is_some() && list(request, "tools").is_empty() {
        return Err("the conversation has tool calls, but the request has no tools".to_owned());
    }
    Ok(())
}

/// Applies `check` to each subschema of the parameters of each tool, with its JSON pointer.
fn check_schemas(request: &Value, check: fn(&Value) -> Result<(), &'static str>) -> Result<(), String> {
    for tool in list(request, "tools") {
        let function = tool.get("function").unwrap_or(tool);
        let name = text(function, "name").unwrap_or_default();
        let Some(parameters) = function.get("parameters") else { continue };
        let mut open = vec![(String::new(), parameters)];
        while let Some((pointer, schema)) = open.pop() {
            check(schema).map_err(|problem| format!("function {name}: {problem} at {pointer:?}"))?;
            open.extend(subschemas(schema).map(|(path, value)| (format!("{pointer}/{path}"), value)));
        }
    }
    Ok(())
}

fn subschemas(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    const MAPS: [&str; 4] = ["properties", "$defs", "definitions", "patternProperties"];
    const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
    let maps = MAPS.into_iter().flat_map(move |keyword| {
        let members = schema.get(keyword).and_then(Value::as_object).into_iter().flatten();
        members.map(move |(name, value)| (format!("{keyword}/{name}"), value))
    });
    let lists = LISTS.into_iter().chain(["items"]).flat_map(move |keyword| {
        list(schema, keyword).iter().enumerate().map(move |(at, value)| (format!("{keyword}/{at}"), value))
    });
    let items =
        schema.get("items").filter(|items| !items.is_array()).map(|items| ("items".to_owned(), items));
    maps.chain(lists).chain(items)
}

fn has_type(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == name),
        Some(one) => one == name,
        None => false,
    }
}

fn array_has_items(schema: &Value) -> Result<(), &'static str> {
    let has_items = schema.get("items").is_some_and(|items| items.is_object() || items.is_boolean());
    if has_type(schema, "array") && !has_items { Err("array schema without items") } else { Ok(()) }
}

fn no_boolean(schema: &Value) -> Result<(), &'static str> {
    if schema.is_boolean() { Err("boolean schema") } else { Ok(()) }
}

fn types_in_alternatives(schema: &Value) -> Result<(), &'static str> {
    if schema.get("anyOf").is_none() {
        return Ok(());
    }
    if schema.get("type").is_some() {
        return Err("type beside anyOf");
    }
    let is_typed = |one: &Value| ["type", "$ref", "anyOf"].iter().any(|keyword| one.get(keyword).is_some());
    match list(schema, "anyOf").iter().all(is_typed) {
        true => Ok(()),
        false => Err("alternative of anyOf without type"),
    }
}
