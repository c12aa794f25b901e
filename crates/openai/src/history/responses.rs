//! Histories of the Responses API.

use std::{borrow::Borrow, sync::Arc};

use haft_core::{
    Message,
    content::Content,
    message::{AssistantMessage, MessageBody},
};
use serde_json::{Value, json};

use haft_core::model::adapter::history::{PartReader, remote_image_url};

use super::{
    History, HistoryError, Reader,
    content::{as_document, document, image_from_url, write_content, write_result_content},
    error, required, text_of,
};
use crate::{
    format::{Medium, UNNAMED_DOCUMENT},
    reply::decode_responses_items,
    responses::encode_input,
};

const PARTS: PartReader =
    PartReader { read: read_part, fields: &["type", "text", "image_url", "file_data", "filename"] };

/// Reads `json`: the `input` of a Responses request, the `output` of a response, or the whole
/// request or response. The `instructions` of a request become a system message.
///
/// Adjacent items of the model (messages, calls, reasoning, built-in tools) become one message.
/// Other calls than function calls, such as `custom_tool_call` and `computer_call`, are provider
/// data of this message together with their outputs and approvals. Therefore a request with the
/// message contains no call without its output.
///
/// # Errors
///
/// Fails with the path of the first item that is malformed, such as
/// ``input/2: the string `call_id` is missing``.
pub fn from_responses(json: &Value) -> Result<History, HistoryError> {
    let mut reader = Reader::default();
    if let Some(instructions) = text_of(json, "instructions") {
        reader.0.push(Message::system(instructions));
    }
    let (key, items) = match (json.get("input"), json.get("output")) {
        (Some(input), _) => ("input", input),
        (None, Some(output)) => ("output", output),
        (None, None) => ("input", json),
    };
    let items = match items {
        Value::String(text) => {
            reader.0.push(Message::user(text.as_str()));
            return Ok(reader.0.finish());
        }
        Value::Array(items) => items,
        _ => return error(key, "expected text or a list of items"),
    };
    let mut reply: Vec<(usize, &Value)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("{key}/{index}");
        if !item.is_object() {
            return error(path, "expected an object");
        }
        if is_of_model(item) {
            reply.push((index, item));
            continue;
        }
        reader.push_reply(key, &mut reply)?;
        reader.read_item(item, &path)?;
    }
    reader.push_reply(key, &mut reply)?;
    Ok(reader.0.finish())
}

/// Writes `messages` as the `input` of a Responses request.
///
/// The text of a failed call is its output, because the format has no error flag. Reasoning is
/// written only if it came from this API, which rejects other reasoning.
pub fn to_responses<M: Borrow<Arc<Message>>>(messages: impl IntoIterator<Item = M>) -> Vec<Value> {
    messages.into_iter().flat_map(|message| write_items(message.borrow())).collect()
}

/// Returns `true` if the model wrote `item`.
fn is_of_model(item: &Value) -> bool {
    match text_of(item, "type") {
        None | Some("message") => text_of(item, "role") == Some("assistant"),
        Some(kind) => !matches!(kind, "function_call_output" | "item_reference"),
    }
}

impl Reader {
    fn read_item(&mut self, item: &Value, path: &str) -> Result<(), HistoryError> {
        match text_of(item, "type") {
            Some("function_call_output") => {
                let content = self.0.read_content(item.get("output"), &format!("{path}/output"), &PARTS)?;
                self.0.push_result(required(item, "call_id", path)?, None, content, false);
            }
            Some("item_reference") => self.0.omit(path, "the item is only referenced by its id"),
            _ => {
                let role = required(item, "role", path)?;
                let content = self.0.read_content(item.get("content"), &format!("{path}/content"), &PARTS)?;
                self.0.push(Message::new(match role {
                    "system" | "developer" => MessageBody::System { content },
                    "user" => MessageBody::User { content },
                    other => return error(path, format_args!("the role `{other}` is unknown")),
                }));
            }
        }
        Ok(())
    }

    /// Adds the message with the items in `reply`, if there are any. `reply` is empty afterwards.
    fn push_reply(&mut self, key: &str, reply: &mut Vec<(usize, &Value)>) -> Result<(), HistoryError> {
        let Some((first, _)) = reply.first() else { return Ok(()) };
        let path = format!("{key}/{first}");
        let mut items = Vec::new();
        for (index, item) in reply.drain(..) {
            let path = format!("{key}/{index}");
            if text_of(item, "type") == Some("function_call") {
                required(item, "call_id", &path)?;
                required(item, "name", &path)?;
            }
            for (part, content) in
                item.get("content").and_then(Value::as_array).into_iter().flatten().enumerate()
            {
                let known = ["type", "text", "refusal", "logprobs"];
                self.0.omit_unknown_fields(&format!("{path}/content/{part}"), content, &known);
            }
            let mut item = item.clone();
            if item.get("type").is_none() {
                item["type"] = json!("message");
            }
            items.push(item);
        }
        let message = decode_responses_items(items).or_else(|problem| error(path, problem))?;
        self.0.push(Message::assistant(message));
        Ok(())
    }
}

fn read_part(part: &Value) -> Result<Option<Content>, String> {
    match text_of(part, "type") {
        Some("input_text" | "output_text" | "text") => Ok(text_of(part, "text").map(Content::text)),
        Some("input_image") => text_of(part, "image_url").map(image_from_url).transpose(),
        Some("input_file") => {
            text_of(part, "file_data").map(|data| document(data, text_of(part, "filename"))).transpose()
        }
        _ => Ok(None),
    }
}

fn write_items(message: &Arc<Message>) -> Vec<Value> {
    match message.body() {
        MessageBody::System { content } => {
            vec![json!({"role": "system", "content": write_content(content, write_part)})]
        }
        MessageBody::User { content } => {
            vec![json!({"role": "user", "content": write_content(content, write_part)})]
        }
        MessageBody::Assistant(reply) => write_reply(message, reply),
        MessageBody::Tool(result) => {
            let output = write_result_content(result, write_part);
            vec![json!({"type": "function_call_output", "call_id": result.call_id, "output": output})]
        }
    }
}

/// Writes `reply`. Unlike a request, a history contains a refusal as such, and the names and
/// arguments of calls as received.
fn write_reply(message: &Arc<Message>, reply: &AssistantMessage) -> Vec<Value> {
    let mut items = encode_input([message]);
    for item in &mut items {
        let call = text_of(item, "call_id").and_then(|id| reply.tool_calls.iter().find(|call| call.id == id));
        if let (Some("function_call"), Some(call)) = (text_of(item, "type"), call) {
            item["name"] = json!(call.name);
            item["arguments"] = json!(&*call.arguments);
        }
    }
    if let Some(refusal) = &reply.refusal {
        if reply.content.is_empty() {
            items.retain(|item| text_of(item, "content") != Some(refusal));
        }
        let part = json!({"type": "refusal", "refusal": refusal});
        items.push(json!({"type": "message", "role": "assistant", "content": [part]}));
    }
    items
}

fn write_part(piece: &Content) -> Value {
    if let Some(url) = remote_image_url(piece) {
        return json!({"type": "input_image", "image_url": url});
    }
    match (piece, as_document(piece)) {
        (Content::Image { data, media_type }, _) => {
            json!({"type": "input_image", "image_url": Medium::data_url(data, media_type)})
        }
        (_, Some((data, media_type, name))) => {
            let name = name.unwrap_or(UNNAMED_DOCUMENT);
            json!({"type": "input_file", "filename": name, "file_data": Medium::data_url(data, media_type)})
        }
        (other, None) => json!({"type": "input_text", "text": other.as_text()}),
    }
}
