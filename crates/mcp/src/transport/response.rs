use std::collections::BTreeMap;

use haft_core::{schema::first_rounded_number, text::truncate};
use rmcp::model::{
    CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::de::Error as _;
use serde_json::{Map, Value, json, value::RawValue};

/// The key of the reason why an item of a list cannot be read.
pub(crate) const UNREADABLE: &str = "dev.haft/unreadable";
/// The maximum length of an error of a server that is quoted, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// The kind of an open request. It determines how the response is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// A request about a tool, a resource, a prompt or a task. Its result is kept as JSON, because
    /// the types of rmcp drop unknown fields.
    Raw,
    /// A request for a list. Its result is kept as JSON. A fault in an item costs this item only.
    List,
    /// A request with a result that rmcp parses.
    Typed,
    /// A `subscriptions/listen` request. It remains open until the subscription ends, and rmcp
    /// parses its result.
    Subscription,
    /// A `server/discover` request. An invalid response is converted to the error "method not
    /// found", so that rmcp falls back to `initialize`.
    Probe,
    /// A `server/discover` request that timed out. Its late response is not passed to rmcp. A valid
    /// response sets [`ServerEvents::has_late_discover`](super::ServerEvents::has_late_discover).
    LateProbe,
}

impl ResponseKind {
    /// Returns the kind of a request with `method`.
    pub(crate) fn of(method: &str) -> Self {
        match method {
            "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" => Self::List,
            "tools/call" | "resources/read" | "prompts/get" | "tasks/get" | "tasks/update"
            | "tasks/cancel" => Self::Raw,
            "server/discover" => Self::Probe,
            "subscriptions/listen" => Self::Subscription,
            _ => Self::Typed,
        }
    }

    /// Parses `result`.
    ///
    /// # Errors
    ///
    /// Fails if `result` is invalid, or if a [`Raw`](Self::Raw) result has a number that cannot be
    /// held exactly.
    pub(crate) fn parse(self, result: &RawValue) -> serde_json::Result<ServerResult> {
        match self {
            Self::Raw => match first_rounded_number(result.get()) {
                Some(number) => {
                    Err(serde_json::Error::custom(format!("{}; the request did run", inexact_reason(number))))
                }
                None => serde_json::from_str(result.get()).map(|value| CustomResult::new(value).into()),
            },
            Self::List => parse_list(result).map(|value| CustomResult::new(value).into()),
            Self::Typed | Self::Subscription => serde_json::from_str(result.get()),
            Self::Probe | Self::LateProbe => {
                serde_json::from_str(result.get()).map(ServerResult::DiscoverResult)
            }
        }
    }

    /// Returns the error response to the request `id` of this kind, whose response is invalid.
    pub(crate) fn invalid_response(self, id: RequestId, reason: &str) -> ServerJsonRpcMessage {
        let code = match self {
            Self::Probe | Self::LateProbe => ErrorCode::METHOD_NOT_FOUND,
            Self::Raw | Self::List | Self::Typed | Self::Subscription => ErrorCode::PARSE_ERROR,
        };
        JsonRpcMessage::error(ErrorData::new(code, format!("invalid response: {reason}"), None), Some(id))
    }
}

/// Parses `result`, a page of a list. An item with a number that cannot be held exactly is replaced
/// by its name and the reason in [`UNREADABLE`]. Such a number beside the items is left out.
fn parse_list(result: &RawValue) -> serde_json::Result<Value> {
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

/// Returns the fault of a message with `number`, which cannot be held exactly.
pub(crate) fn inexact_reason(number: &str) -> String {
    let number = truncate(number, MAX_EXCERPT_BYTES);
    format!("the number {number} cannot be held exactly: send it as a string")
}

/// Parses the JSON-RPC error object `error`.
///
/// Some servers send a string, or an object with other fields. In this case, returns `Err` with an
/// `internal_error` that quotes `error`.
pub(crate) fn parse_error(error: &RawValue) -> Result<ErrorData, ErrorData> {
    serde_json::from_str(error.get()).map_err(|_other| {
        ErrorData::internal_error(truncate(error.get(), MAX_EXCERPT_BYTES).to_owned(), None)
    })
}
