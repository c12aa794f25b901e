//! Messages with numbers that cannot be held exactly: integers beyond 64 bits, and fractions with
//! more digits than an `f64` holds.

use std::collections::BTreeMap;

use haft_core::{
    schema::first_rounded_number,
    text::{truncate, truncate_with_ellipsis},
};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData};
use serde::de::Error as _;
use serde_json::{Map, Value, json, value::RawValue};

use super::envelope::Envelope;

/// The key of the reason why an item of a list cannot be read. In the `_meta` of a result, it has
/// the list of the members that are omitted.
pub(crate) const UNREADABLE: &str = "dev.haft/unreadable";
/// The maximum length of a number in an error or a warning, in bytes.
const MAX_NUMBER_BYTES: usize = 200;
const META: &str = "_meta";
const STRUCTURED: &str = "structuredContent";

/// Returns the fault of a message with `number`, which cannot be held exactly.
pub(crate) fn inexact_reason(number: &str) -> String {
    let number = truncate(number, MAX_NUMBER_BYTES);
    format!("the number {number} cannot be held exactly: send it as a string")
}

/// Returns the error that replaces `response`, the response of a client. Returns `None` if it is
/// not a response, or if all numbers in its result can be held exactly. The request of the server
/// fails with this error.
pub(crate) fn inexact_client_response(response: &Envelope<'_>) -> Option<ClientJsonRpcMessage> {
    let id = response.id.clone().filter(|_| response.method.is_none())?;
    let number = first_rounded_number(response.result?.get())?;
    let reason = format!("invalid response: {}", inexact_reason(number));
    Some(ClientJsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, reason, None), Some(id)))
}

/// Parses `result`, a page of a list. An item with a number that cannot be held exactly is replaced
/// by its name and the reason in [`UNREADABLE`]. Such a number beside the items is left out.
pub(super) fn parse_list(result: &RawValue) -> serde_json::Result<Value> {
    if first_rounded_number(result.get()).is_none() {
        return serde_json::from_str(result.get());
    }
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(result.get())?;
    let mut page = Map::new();
    for (key, member) in members {
        let value = match serde_json::from_str::<Vec<&RawValue>>(member.get()) {
            Ok(items) => items.into_iter().map(parse_item).collect::<serde_json::Result<Value>>()?,
            Err(_) if first_rounded_number(member.get()).is_some() => continue,
            Err(_) => serde_json::from_str(member.get())?,
        };
        page.insert(key, value);
    }
    Ok(Value::Object(page))
}

fn parse_item(item: &RawValue) -> serde_json::Result<Value> {
    let Some(number) = first_rounded_number(item.get()) else { return serde_json::from_str(item.get()) };
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(item.get()).unwrap_or_default();
    let name: Option<String> = members.get("name").and_then(|name| serde_json::from_str(name.get()).ok());
    Ok(json!({"name": name, UNREADABLE: inexact_reason(number)}))
}

/// Parses `result`, the result of a call or of a request about it. A member with a number that
/// cannot be held exactly is omitted. [`take_omissions`] returns the warnings about it.
///
/// `structuredContent` without `content` becomes text.
///
/// # Errors
///
/// Fails if `result` is invalid, or if its input requests have such a number: without them, the
/// server would wait for a response.
pub(super) fn parse_result(result: &RawValue) -> serde_json::Result<Value> {
    if first_rounded_number(result.get()).is_none() {
        return serde_json::from_str(result.get());
    }
    let mut omissions = Omissions::default();
    let mut parsed = omissions.parse_object(result, "")?;
    if let Some(structured) = omissions.structured
        && parsed.get("content").and_then(Value::as_array).is_none_or(Vec::is_empty)
    {
        parsed.insert("content".to_owned(), json!([{"type": "text", "text": structured}]));
    }
    if !omissions.warnings.is_empty() {
        // rmcp drops unknown members beside `_meta`.
        let meta = parsed.remove(META).and_then(|meta| meta.as_object().cloned());
        let mut meta = meta.unwrap_or_default();
        meta.insert(UNREADABLE.to_owned(), omissions.warnings.into());
        parsed.insert(META.to_owned(), Value::Object(meta));
    }
    Ok(Value::Object(parsed))
}

/// Returns `true` if members of `result`, a parsed result, are omitted.
pub(crate) fn has_omissions(result: &Value) -> bool {
    result.get(META).is_some_and(|meta| meta.get(UNREADABLE).is_some())
}

/// Takes the warnings about omitted members out of `result`, a parsed result.
pub(crate) fn take_omissions(result: &mut Value) -> Vec<String> {
    let meta = result.get_mut(META).and_then(Value::as_object_mut);
    let Some(Value::Array(warnings)) = meta.and_then(|meta| meta.remove(UNREADABLE)) else {
        return Vec::new();
    };
    warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The members of a result that are omitted.
#[derive(Default)]
struct Omissions<'a> {
    warnings: Vec<String>,
    /// The text of the structured content.
    structured: Option<&'a str>,
}

impl<'a> Omissions<'a> {
    /// Parses `object`, whose JSON pointer in the result is `pointer`.
    fn parse_object(
        &mut self,
        object: &'a RawValue,
        pointer: &str,
    ) -> serde_json::Result<Map<String, Value>> {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(object.get())?;
        let mut parsed = Map::new();
        for (key, member) in members {
            if let Some(value) = self.parse_member(&key, member, &format!("{pointer}/{key}"))? {
                parsed.insert(key, value);
            }
        }
        Ok(parsed)
    }

    /// Parses `member`, the member `key` of an object. Returns `None` if it is omitted.
    fn parse_member(
        &mut self,
        key: &str,
        member: &'a RawValue,
        pointer: &str,
    ) -> serde_json::Result<Option<Value>> {
        let Some(number) = first_rounded_number(member.get()) else {
            return serde_json::from_str(member.get()).map(Some);
        };
        match (key, member.get().as_bytes().first()) {
            ("inputRequests", _) => Err(serde_json::Error::custom(inexact_reason(number))),
            ("result", _) => parse_result(member).map(Some),
            ("content" | "contents" | "messages", Some(b'[')) => self.parse_items(member, pointer).map(Some),
            ("content" | "resource" | "error", Some(b'{')) => {
                self.parse_object(member, pointer).map(|object| Some(Value::Object(object)))
            }
            _ => {
                if key == STRUCTURED {
                    self.structured = Some(member.get());
                }
                self.omit(pointer, number);
                Ok(None)
            }
        }
    }

    /// Parses the items of `array`. An item that is not an object is omitted if it has a number
    /// that cannot be held exactly.
    fn parse_items(&mut self, array: &'a RawValue, pointer: &str) -> serde_json::Result<Value> {
        let items: Vec<&RawValue> = serde_json::from_str(array.get())?;
        let mut parsed = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            let pointer = format!("{pointer}/{index}");
            match first_rounded_number(item.get()) {
                None => parsed.push(serde_json::from_str(item.get())?),
                Some(_) if item.get().starts_with('{') => {
                    parsed.push(Value::Object(self.parse_object(item, &pointer)?));
                }
                Some(number) => self.omit(&pointer, number),
            }
        }
        Ok(Value::Array(parsed))
    }

    fn omit(&mut self, pointer: &str, number: &str) {
        let number = truncate_with_ellipsis(number, MAX_NUMBER_BYTES);
        self.warnings.push(format!(
            "{pointer} is not available as data, because the number {number} cannot be represented exactly"
        ));
    }
}
