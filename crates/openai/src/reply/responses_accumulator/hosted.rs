//! Calls of hosted tools, and citations, in the items of a response.

use haft_core::message::{Citation, HostedCall};
use serde_json::{Map, Value, json};

/// Returns the call of the hosted tool that `item` reports, or `None` if `item` is of another type.
/// The output is null while the call is in progress.
pub(super) fn hosted_call(item: &Value) -> Option<HostedCall> {
    let id = text(item, "id").unwrap_or_default();
    let call = match item.get("type")?.as_str()? {
        "web_search_call" => web_search(item, id),
        "code_interpreter_call" => HostedCall {
            input: object(item, &["code"]),
            output: get(item, "outputs"),
            ..HostedCall::new(id, "code_execution")
        },
        "file_search_call" => HostedCall {
            input: object(item, &["queries"]),
            output: get(item, "results"),
            ..HostedCall::new(id, "file_search")
        },
        "mcp_call" => mcp_call(item, id)?,
        "tool_search_call" => {
            HostedCall { input: get(item, "arguments"), ..HostedCall::new(id, "tool_search") }
        }
        _ => return None,
    };
    let is_failed = text(item, "status").is_some_and(|status| status == "failed");
    let error = call.error.clone().or_else(|| is_failed.then(|| "the call failed".to_owned()));
    Some(HostedCall { error, ..call })
}

fn web_search(item: &Value, id: &str) -> HostedCall {
    let mut action = get(item, "action");
    let sources = action.as_object_mut().and_then(|action| action.shift_remove("sources"));
    HostedCall { input: action, output: sources.unwrap_or_default(), ..HostedCall::new(id, "web_search") }
}

fn mcp_call(item: &Value, id: &str) -> Option<HostedCall> {
    let tool = format!("mcp:{}/{}", text(item, "server_label")?, text(item, "name")?);
    let arguments = text(item, "arguments").unwrap_or_default();
    let error = item.get("error").filter(|error| !error.is_null()).map(|error| match error {
        Value::String(message) => message.clone(),
        other => text(other, "message").map_or_else(|| other.to_string(), str::to_owned),
    });
    Some(HostedCall {
        input: serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into()),
        output: get(item, "output"),
        error,
        ..HostedCall::new(id, tool)
    })
}

/// Returns the citations in the message item `item`. `text_start` is the offset of the text of the
/// item in the text of the reply.
pub(super) fn citations(item: &Value, text_start: usize) -> Vec<Citation> {
    let (mut citations, mut start) = (Vec::new(), text_start);
    for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
        let Some(text) = text(part, "text") else { continue };
        let annotations = part.get("annotations").and_then(Value::as_array).into_iter().flatten();
        citations.extend(annotations.filter_map(|annotation| citation(annotation, text, start)));
        start += text.len();
    }
    citations
}

fn citation(annotation: &Value, part: &str, start: usize) -> Option<Citation> {
    let owned = |key| text(annotation, key).map(str::to_owned);
    // OpenAI counts characters.
    let offset = |key| {
        let index = annotation.get(key)?.as_u64()?.try_into().ok()?;
        let length = part.char_indices().nth(index).map_or(part.len(), |(offset, _)| offset);
        Some(start + length)
    };
    let range = |from, to| Some(offset(from)?..offset(to)?).filter(|range| range.start <= range.end);
    match text(annotation, "type")? {
        "url_citation" => Some(Citation {
            range: range("start_index", "end_index"),
            title: owned("title"),
            url: owned("url"),
            ..Citation::default()
        }),
        "file_citation" => Some(Citation {
            range: range("index", "index"),
            title: owned("filename"),
            file_id: owned("file_id"),
            ..Citation::default()
        }),
        "container_file_citation" => Some(Citation {
            range: range("start_index", "end_index"),
            title: owned("filename"),
            file_id: owned("file_id"),
            ..Citation::default()
        }),
        _ => None,
    }
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key)?.as_str()
}

fn get(item: &Value, key: &str) -> Value {
    item.get(key).cloned().unwrap_or_default()
}

/// Returns the fields `keys` of `item` that are not null, or null if there are none.
fn object(item: &Value, keys: &[&str]) -> Value {
    let fields = keys.iter().map(|key| ((*key).to_owned(), get(item, key)));
    let fields: Map<_, _> = fields.filter(|(_, value)| !value.is_null()).collect();
    if fields.is_empty() { Value::Null } else { json!(fields) }
}
