//! The MCP request of a tool: a call, or access to the resources and prompts of the server.

use std::borrow::Cow;

use haft_core::{
    ToolError, ToolOutput,
    call::ToolResponse,
    text::{is_hidden, without_hidden_chars},
};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ErrorCode, ErrorData, GetPromptRequest,
    GetPromptRequestParams, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
    PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams,
};
use serde_json::{Map, Value, json};

use crate::{
    hidden_chars::remove_from_value, input_round::InputRound, pages::next_cursor, result,
    transport::UNREADABLE,
};

/// The code of the error for an unknown resource (MCP 2025-11-25, "Resources").
const RESOURCE_NOT_FOUND: i32 = -32002;
/// The value of the argument `kind` that lists templates.
pub(crate) const TEMPLATES: &str = "templates";

/// The MCP request of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    CallTool,
    ListResources,
    ReadResource,
    ListPrompts,
    GetPrompt,
}

impl Operation {
    /// Creates the request of a call with `arguments`. `name` is the name that the server uses for
    /// the tool. `round` has the responses to elicitations.
    pub(super) fn request(self, name: &str, arguments: &Value, round: Option<&InputRound>) -> ClientRequest {
        let text = |key| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
        let object = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
        match self {
            Self::CallTool => {
                let mut params = CallToolRequestParams::new(name.to_owned());
                params.arguments = object(Some(arguments));
                if let Some(round) = round {
                    round.add_to(&mut params.input_responses, &mut params.request_state);
                }
                ClientRequest::CallToolRequest(CallToolRequest::new(params))
            }
            Self::ReadResource => {
                let mut params = ReadResourceRequestParams::new(text("uri"));
                if let Some(round) = round {
                    round.add_to(&mut params.input_responses, &mut params.request_state);
                }
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
            }
            Self::GetPrompt => {
                let mut params = GetPromptRequestParams::new(text("name"));
                params.arguments = object(arguments.get("arguments"));
                if let Some(round) = round {
                    round.add_to(&mut params.input_responses, &mut params.request_state);
                }
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
            }
            Self::ListResources if text("kind") == TEMPLATES => {
                let request = ListResourceTemplatesRequest::with_param(page(arguments));
                ClientRequest::ListResourceTemplatesRequest(request)
            }
            Self::ListResources => {
                ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(page(arguments)))
            }
            Self::ListPrompts => {
                ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(page(arguments)))
            }
        }
    }

    /// Returns the result for `error`, an error response. A server that does not implement the
    /// method of a list has an empty list.
    pub(super) fn result_for_error(self, error: &ErrorData) -> Option<Value> {
        let is_list = matches!(self, Self::ListResources | Self::ListPrompts);
        (is_list && error.code == ErrorCode::METHOD_NOT_FOUND).then(|| json!({}))
    }

    /// Returns `true` if `error` is about the arguments of the call, so that a model can correct
    /// them. The server checks the names of resources and prompts, and the arguments of prompts.
    pub(super) fn is_argument_error(self, error: &ErrorData) -> bool {
        matches!(self, Self::ReadResource | Self::GetPrompt)
            && (error.code == ErrorCode::INVALID_PARAMS || error.code.0 == RESOURCE_NOT_FOUND)
    }

    /// Removes the cursor of `result`, a page of the list for `arguments`, if there is no page
    /// after it. The reason is kept for [`convert`](Self::convert).
    pub(super) fn end_list(self, result: &mut Value, arguments: &Value, has_empty_cursors: bool) {
        if !matches!(self, Self::ListResources | Self::ListPrompts) {
            return;
        }
        let cursor = arguments.get("cursor").and_then(Value::as_str);
        let fault = match next_cursor(result, has_empty_cursors, |next| Some(next) == cursor) {
            Ok(Some(_)) => return,
            Ok(None) => None,
            Err(fault) => Some(fault),
        };
        let Some(members) = result.as_object_mut() else { return };
        members.remove("nextCursor");
        members.extend(fault.map(|fault| (UNREADABLE.to_owned(), fault.into())));
    }

    /// Converts `result`, the result of the request.
    pub(super) fn convert(self, result: Value) -> Result<ToolResponse, ToolError> {
        result::check_type(&result)?;
        match self {
            Self::CallTool => result::convert_result(result),
            Self::ReadResource => convert_contents(result),
            Self::GetPrompt => convert_prompt(result),
            Self::ListResources if result.get("resourceTemplates").is_some() => {
                let fields = ["uriTemplate", "name", "title", "description", "mimeType"];
                Ok(convert_list(&result, "resourceTemplates", &fields))
            }
            Self::ListResources => {
                let fields = ["uri", "name", "title", "description", "mimeType", "size"];
                Ok(convert_list(&result, "resources", &fields))
            }
            Self::ListPrompts => {
                Ok(convert_list(&result, "prompts", &["name", "title", "description", "arguments"]))
            }
        }
    }
}

/// Returns the parameters for the page with the cursor in `arguments`.
fn page(arguments: &Value) -> PaginatedRequestParams {
    let cursor = arguments.get("cursor").and_then(Value::as_str).map(str::to_owned);
    PaginatedRequestParams::default().with_cursor(cursor)
}

/// Converts a page of the list `key`, with the `fields` of each entry. The first field identifies
/// an entry. The page is sorted by it, because servers may list their entries in any order.
fn convert_list(result: &Value, key: &str, fields: &[&str]) -> ToolResponse {
    let entries = result.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut listed: Vec<_> = entries.iter().filter_map(|entry| convert_entry(entry, fields)).collect();
    listed.sort_by(|(first, _), (second, _)| first.cmp(second));
    let omitted = entries.len() - listed.len();
    let listed: Vec<_> = listed.into_iter().map(|(_, entry)| entry).collect();
    let mut page = Map::from_iter([(key.to_owned(), Value::from(listed))]);
    let cursor = result.get("nextCursor").and_then(Value::as_str);
    // A model cannot repeat hidden characters, and another cursor is another page.
    let is_hidden_cursor = cursor.is_some_and(has_hidden_chars);
    if let Some(cursor) = cursor.filter(|_| !is_hidden_cursor) {
        page.insert("nextCursor".to_owned(), cursor.into());
    }
    let mut output = ToolOutput::structured(Value::Object(page));
    if let Some(fault) = result.get(UNREADABLE).and_then(Value::as_str) {
        output.warnings.push(format!("the list may be incomplete: {fault}"));
    }
    if is_hidden_cursor {
        output.warnings.push("there are more entries, but their cursor has hidden characters".to_owned());
    }
    if omitted > 0 {
        let field = fields.first().copied().unwrap_or_default();
        output.warnings.push(format!(
            "{omitted} entries are omitted: their `{field}` is missing, or has hidden characters"
        ));
    }
    ToolResponse::Done(output)
}

/// Returns the identity of `entry` and its `fields`, without hidden characters. Returns `None` if
/// its identity is missing, or has hidden characters: a person could not compare it.
fn convert_entry(entry: &Value, fields: &[&str]) -> Option<(String, Value)> {
    let id = entry.get(fields.first()?)?.as_str().filter(|id| !has_hidden_chars(id))?;
    let field = |field: &&str| {
        let value = entry.get(field).filter(|value| !value.is_null())?;
        let mut value = value.clone();
        remove_from_value(&mut value);
        Some(((*field).to_owned(), value))
    };
    Some((id.to_owned(), fields.iter().filter_map(field).collect()))
}

fn has_hidden_chars(text: &str) -> bool {
    text.contains(is_hidden) || matches!(without_hidden_chars(text), Cow::Owned(_))
}

/// Converts the result of `resources/read`.
fn convert_contents(mut result: Value) -> Result<ToolResponse, ToolError> {
    let Some(Value::Array(contents)) = result.get_mut("contents").map(Value::take) else {
        return Err(invalid("the result has no array `contents`"));
    };
    let blocks: Vec<_> = contents.into_iter().map(content_block).collect();
    result::convert_result(json!({"content": blocks, "_meta": result["_meta"]}))
}

/// Converts the contents of a resource to a content block of a call. Images and audio become blocks
/// of their own type, so that models see them.
fn content_block(mut content: Value) -> Value {
    let media_type = content.get("mimeType").and_then(Value::as_str).unwrap_or_default();
    let kind = ["image", "audio"].into_iter().find(|kind| media_type.starts_with(&format!("{kind}/")));
    match (kind, content.get("blob").is_some_and(Value::is_string)) {
        (Some(kind), true) => {
            let media_type = media_type.to_owned();
            let blob = content["blob"].take();
            json!({"type": kind, "data": blob, "mimeType": media_type, "uri": content["uri"]})
        }
        _ => json!({"type": "resource", "resource": content}),
    }
}

/// Converts the result of `prompts/get`: each message becomes its content, after its role.
fn convert_prompt(mut result: Value) -> Result<ToolResponse, ToolError> {
    let Some(Value::Array(messages)) = result.get_mut("messages").map(Value::take) else {
        return Err(invalid("the result has no array `messages`"));
    };
    let mut blocks = Vec::new();
    for mut message in messages {
        let content = message.get_mut("content").map(Value::take).unwrap_or_default();
        let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
        if let Some(text) = content.get("text").filter(|_| content["type"] == "text").and_then(Value::as_str)
        {
            blocks.push(json!({"type": "text", "text": format!("{role}: {text}")}));
        } else {
            blocks.push(json!({"type": "text", "text": format!("{role}:")}));
            blocks.push(content);
        }
    }
    result::convert_result(json!({"content": blocks, "_meta": result["_meta"]}))
}

fn invalid(reason: &str) -> ToolError {
    ToolError::Failed { message: format!("invalid response: {reason}"), source: None }
}

#[cfg(test)]
mod tests;
