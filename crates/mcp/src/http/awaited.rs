use std::borrow::Cow;

use haft_core::schema::first_rounded_number;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde_json::{json, value::RawValue};
use sse_stream::Sse;

use crate::transport::{Envelope, ResponseKind, parse_error};

/// The response that a POST with a request awaits.
///
/// Over HTTP, the response to a POST belongs to its request. Servers that cannot read a request,
/// and programs between the client and the server, send errors with another id: null, none (MCP
/// 2026-07-28, "Error Responses"), or the text `server-error`.
#[derive(Clone)]
pub(super) struct AwaitedResponse {
    id: RequestId,
    kind: ResponseKind,
    /// `true` if the request is `server/discover` or `initialize`.
    pub(super) is_handshake: bool,
}

/// The content of a message of the server.
enum Content<'a> {
    /// A request or a notification.
    Other,
    Result(&'a RawValue),
    Error(ErrorData),
}

impl AwaitedResponse {
    /// Returns the response that `message` awaits. `None` if it is not a request.
    pub(super) fn to(message: &ClientJsonRpcMessage) -> Option<Self> {
        let JsonRpcMessage::Request(request) = message else { return None };
        let method = request.request.method();
        let is_handshake = matches!(method, "server/discover" | "initialize");
        Some(Self { id: request.id.clone(), kind: ResponseKind::of(method), is_handshake })
    }

    pub(super) fn id(&self) -> &RequestId {
        &self.id
    }

    pub(super) fn is_list(&self) -> bool {
        self.kind == ResponseKind::List
    }

    pub(super) fn is_probe(&self) -> bool {
        self.kind == ResponseKind::Probe
    }

    /// Creates the error response.
    pub(super) fn error(&self, error: ErrorData) -> ServerJsonRpcMessage {
        JsonRpcMessage::error(error, Some(self.id.clone()))
    }

    /// Parses `text`, the body of the response to the POST.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault, also for a result with the id of another request.
    pub(super) fn parse(&self, text: &str) -> Result<ServerJsonRpcMessage, String> {
        match self.content(text)? {
            Content::Other => serde_json::from_str(text).map_err(|error| error.to_string()),
            Content::Error(error) => Ok(self.error(error)),
            Content::Result(result) => Ok(self.parse_result(result)),
        }
    }

    /// Returns the JSON-RPC error in `text`, the body of a response with an error status. Returns
    /// `None` if it is none.
    pub(super) fn parse_error(text: &str) -> Option<ErrorData> {
        let message: Envelope<'_> = serde_json::from_str(text).ok()?;
        // Gateways send errors of their own in a similar form.
        let error = message.error.filter(|_| message.jsonrpc.is_some())?;
        parse_error(error).ok()
    }

    /// Returns `true` if `text` is an error response with the id of the request.
    pub(super) fn is_answered_by(&self, text: &str) -> bool {
        let message = serde_json::from_str::<Envelope<'_>>(text);
        message.is_ok_and(|message| message.error.is_some() && message.id.as_ref() == Some(&self.id))
    }

    /// Assigns the response in `event` to the request. A result with another id is removed.
    pub(super) fn correct(&self, mut event: Sse) -> Sse {
        let Some(data) = event.data.as_deref().filter(|data| !data.trim().is_empty()) else { return event };
        match self.content(data) {
            Ok(Content::Error(error)) => {
                event.data = Some(self.error_text(&error));
                // rmcp reads unnamed events and those with the name `message`.
                event.event = None;
            }
            Ok(Content::Result(result)) => {
                if let Some(text) = self.corrected_result(result) {
                    event.data = Some(text);
                }
            }
            Err(reason) if serde_json::from_str::<Envelope<'_>>(data).is_ok() => {
                tracing::debug!(reason, "dropped a response on the stream of another request");
                event.data = None;
            }
            Ok(Content::Other) | Err(_) => {}
        }
        event
    }

    /// Returns the text of the error response.
    pub(super) fn error_text(&self, error: &ErrorData) -> String {
        json!({"jsonrpc": "2.0", "id": self.id, "error": error}).to_string()
    }

    /// Returns the text of the response with `result` if rmcp would change a number. rmcp parses
    /// events.
    fn corrected_result(&self, result: &RawValue) -> Option<String> {
        first_rounded_number(result.get())?;
        if !matches!(self.kind, ResponseKind::Raw | ResponseKind::List) {
            return None;
        }
        let response = match self.kind.parse(result) {
            Ok(list) => JsonRpcMessage::response(list, self.id.clone()),
            Err(error) => self.kind.invalid_response(self.id.clone(), &error.to_string()),
        };
        serde_json::to_string(&response).ok()
    }

    fn parse_result(&self, result: &RawValue) -> ServerJsonRpcMessage {
        let parsed = match self.kind {
            // The handshake examines a result of another type.
            ResponseKind::Probe => serde_json::from_str::<ServerResult>(result.get()),
            ResponseKind::List if first_rounded_number(result.get()).is_none() => {
                match serde_json::from_str(result.get()) {
                    // rmcp reads the annotations for `Mcp-Param` headers from the tools.
                    Ok(tools @ ServerResult::ListToolsResult(_)) => Ok(tools),
                    _ => self.kind.parse(result),
                }
            }
            kind => kind.parse(result),
        };
        match parsed {
            Ok(result) => JsonRpcMessage::response(result, self.id.clone()),
            Err(error) => self.kind.invalid_response(self.id.clone(), &error.to_string()),
        }
    }

    /// Reads `text`. An error belongs to the request, whatever its id is.
    fn content<'a>(&self, text: &'a str) -> Result<Content<'a>, String> {
        let message: Envelope<'a> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match message {
            Envelope { method: Some(_), .. } => Ok(Content::Other),
            Envelope { result: Some(result), id, .. } => match id {
                Some(id) if self.is_own(&id) => Ok(Content::Result(result)),
                Some(id) => Err(format!("the result has the id {id} of another request")),
                None => Err("the result has no id".to_owned()),
            },
            Envelope { error: Some(error), .. } => {
                Ok(Content::Error(parse_error(error).unwrap_or_else(|error| error)))
            }
            _ => Err("neither `result` nor `error`".to_owned()),
        }
    }

    /// Returns `true` if `id` is the id of the request. Some servers return numbers as strings.
    fn is_own(&self, id: &RequestId) -> bool {
        let text = |id: &RequestId| -> Cow<'_, str> { id.to_string().into() };
        *id == self.id || (matches!(id, RequestId::String(_)) && text(id) == text(&self.id))
    }
}
