use haft_core::text::truncate;
use rmcp::model::{
    CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::inexact::{parse_list, parse_result};

/// The maximum length of an error of a server that is quoted, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// The kind of an open request. It determines how the response is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    /// A request about a tool, a resource, a prompt or a task. Its result is kept as JSON, because
    /// the types of rmcp drop unknown fields. A number that cannot be held exactly costs the member
    /// of the result that has it.
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
    /// Fails if `result` is invalid, or if the input requests in a [`Raw`](Self::Raw) result have a
    /// number that cannot be held exactly.
    pub(crate) fn parse(self, result: &RawValue) -> serde_json::Result<ServerResult> {
        match self {
            Self::Raw => match parse_result(result) {
                Ok(value) => Ok(CustomResult::new(value).into()),
                Err(error) => Err(serde_json::Error::custom(format!("{error}; the request did run"))),
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

/// Parses the JSON-RPC error object `error`.
///
/// Some servers send a string, or an object with other fields. In this case, returns `Err` with an
/// `internal_error` that quotes `error`.
pub(crate) fn parse_error(error: &RawValue) -> Result<ErrorData, ErrorData> {
    serde_json::from_str(error.get()).map_err(|_other| {
        ErrorData::internal_error(truncate(error.get(), MAX_EXCERPT_BYTES).to_owned(), None)
    })
}
