use std::io;

use haft_core::text::{ErrorChain, without_hidden_chars};
#[cfg(feature = "oauth")]
use rmcp::transport::auth::AuthError;
use rmcp::{
    model::ErrorData, service::ClientInitializeError, transport::streamable_http_client::HttpStatusError,
};

use super::HttpError;
use crate::{HttpServer, LoginRequired, connection::RequestError};

/// The remedy for a server that requires authorization.
const LOGIN_REMEDY: &str = "log in with `haft mcp login`, or set the header `Authorization` of the server";

/// An error response that rmcp has no variant for. The server has not processed the request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// The server limits the rate, and explains it with a JSON-RPC error.
    #[error("{status}{}: {} (code {})", retry_after(.status), .error.message, .error.code.0)]
    Limited { status: HttpStatusError, error: ErrorData },
    /// The session is forgotten, and cannot be opened again.
    #[error("the session cannot be opened again: {0}")]
    NoSession(String),
}

impl From<Refusal> for HttpError {
    fn from(refusal: Refusal) -> Self {
        Self::Io(io::Error::other(refusal))
    }
}

impl Refusal {
    fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Returns `true` if the session is forgotten and cannot be opened again, for example because the
/// server was updated to another revision. The source then needs another connection.
pub(crate) fn needs_connection(error: &HttpError) -> bool {
    match error {
        HttpError::Io(cause) => matches!(Refusal::of(cause), Some(Refusal::NoSession(_))),
        HttpError::ReinitializationFailed(_) => true,
        _ => false,
    }
}

fn retry_after(status: &HttpStatusError) -> String {
    status.retry_after.as_ref().map(|after| format!("; retry after {after}")).unwrap_or_default()
}

/// Converts the error of an HTTP request. A response with a status below 500 rejects the request.
/// After a status of 500 or more, or without a response, the server may have processed the request.
impl From<&HttpError> for RequestError {
    fn from(error: &HttpError) -> Self {
        match error {
            HttpError::Client(error) if error.is_connect() || error.is_builder() => Self::NotSent,
            HttpError::Client(cause) if cause.is_redirect() => Self::Refused(describe(error)),
            HttpError::HttpStatus(status) if status.status < 500 => {
                Self::Refused(format!("{error}{}", retry_after(status)))
            }
            // rmcp requests a token before it sends a request, or after status 401.
            HttpError::AuthRequired(_) => login_required(error, None),
            HttpError::InsufficientScope(cause) => login_required(error, cause.required_scope.as_deref()),
            #[cfg(feature = "oauth")]
            HttpError::Auth(AuthError::AuthorizationRequired) => login_required(error, None),
            #[cfg(feature = "oauth")]
            HttpError::Auth(_) => Self::Refused(describe(error)),
            HttpError::Io(cause) if matches!(Refusal::of(cause), Some(Refusal::Limited { .. })) => {
                Self::Refused(without_hidden_chars(&cause.to_string()).into_owned())
            }
            HttpError::Io(cause) if Refusal::of(cause).is_some() => Self::NotSent,
            // The server does not know the session, so it has not processed the request.
            HttpError::SessionExpired | HttpError::ReinitializationFailed(_) => Self::NotSent,
            HttpError::ReservedHeaderConflict(_) => Self::Refused(describe(error)),
            HttpError::UnexpectedServerResponse(_)
            | HttpError::ResponseBodyTooLarge { .. }
            | HttpError::UnexpectedContentType(_)
            | HttpError::Deserialize(_) => Self::InvalidResponse(describe(error)),
            _ => Self::Lost,
        }
    }
}

/// Creates the error for a rejected token. `scope` has the required scopes, separated by spaces.
fn login_required(error: &HttpError, scope: Option<&str>) -> RequestError {
    let scopes = scope.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    LoginRequired { scopes, reason: describe(error) }.into()
}

/// The cause of a failed handshake.
pub(crate) struct HandshakeFailure {
    reason: String,
    remedy: Option<&'static str>,
    /// `true` if the server has rejected the handshake.
    pub(crate) is_rejection: bool,
}

impl HandshakeFailure {
    /// Creates the failure to open the stream of HTTP with SSE.
    pub(super) fn from_http(error: &HttpError) -> Self {
        let reason = format!("the handshake failed: {}", describe(error));
        Self { reason, remedy: remedy(error), is_rejection: is_http_rejection(error) }
    }

    /// Returns the error message: the cause, the origin of the server, and the remedy.
    pub(crate) fn message(self, server: &HttpServer) -> String {
        let remedy = self.remedy.map(|remedy| format!("\nremedy: {remedy}")).unwrap_or_default();
        // The reason may contain a part of a response.
        format!("{}\nserver: {}{remedy}", without_hidden_chars(&self.reason), server.origin())
    }
}

impl From<String> for HandshakeFailure {
    fn from(reason: String) -> Self {
        Self { reason, remedy: None, is_rejection: false }
    }
}

impl From<&ClientInitializeError> for HandshakeFailure {
    fn from(error: &ClientInitializeError) -> Self {
        let (message, remedy) = handshake_message(error);
        let is_rejection = is_rejection(error);
        Self { reason: format!("the handshake failed: {message}"), remedy, is_rejection }
    }
}

fn is_rejection(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => is_rejection(fallback),
        ClientInitializeError::TransportError { error, .. } => {
            error.error.downcast_ref().is_some_and(is_http_rejection)
        }
        ClientInitializeError::ConnectionClosed(_) => false,
        _ => true,
    }
}

/// Returns `true` for a response that a server of another revision may send. A server that cannot
/// be reached, or that requires a login, has not rejected the revision.
fn is_http_rejection(error: &HttpError) -> bool {
    matches!(
        error,
        HttpError::UnexpectedServerResponse(_)
            | HttpError::UnexpectedContentType(_)
            | HttpError::ServerDoesNotSupportSse
    )
}

/// Returns the message of a failed handshake, and a remedy if one is known.
fn handshake_message(error: &ClientInitializeError) -> (String, Option<&'static str>) {
    match error {
        ClientInitializeError::LegacyFallbackFailed { discover, fallback } => {
            let (discover, _) = handshake_message(discover);
            let (fallback, remedy) = handshake_message(fallback);
            (format!("`server/discover`: {discover}; `initialize`: {fallback}"), remedy)
        }
        ClientInitializeError::TransportError { error, .. } => {
            match error.error.downcast_ref::<HttpError>() {
                Some(error) => (describe(error), remedy(error)),
                None => (ErrorChain(&*error.error).to_string(), None),
            }
        }
        error => (ErrorChain(error).to_string(), None),
    }
}

/// Returns `true` if `error` is a response to `initialize` that a server of HTTP with SSE sends:
/// status 400, 404 or 405 (specification 2025-11-25, transports, "Backwards Compatibility").
pub(crate) fn may_be_sse_server(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => may_be_sse_server(fallback),
        ClientInitializeError::TransportError { error, .. } => {
            let is_status = |text: &str| {
                ["HTTP 400", "HTTP 404", "HTTP 405"].iter().any(|status| text.starts_with(status))
            };
            matches!(
                error.error.downcast_ref::<HttpError>(),
                Some(HttpError::UnexpectedServerResponse(text)) if is_status(text)
            )
        }
        _ => false,
    }
}

fn remedy(error: &HttpError) -> Option<&'static str> {
    match error {
        HttpError::Client(error) if error.is_connect() => Some("start the server, or correct its URL"),
        HttpError::AuthRequired(_) => Some(LOGIN_REMEDY),
        #[cfg(feature = "oauth")]
        HttpError::Auth(_) => Some(LOGIN_REMEDY),
        HttpError::InsufficientScope(_) => {
            Some("log in with `haft mcp login --scope SCOPE`, or use a token with the required scope")
        }
        HttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 401") => Some(LOGIN_REMEDY),
        HttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 404") => {
            Some("correct the path of the URL; many servers use `/mcp`")
        }
        HttpError::UnexpectedContentType(_) => Some("check that the URL is the endpoint of an MCP server"),
        _ => None,
    }
}

/// Returns the text of `error` and its causes, without the hidden characters of a response.
pub(super) fn describe(error: &HttpError) -> String {
    let text = match error {
        HttpError::AuthRequired(_) => "the server requires authorization (HTTP 401)".to_owned(),
        HttpError::UnexpectedContentType(Some(media_type)) => {
            format!("the response has the type {media_type} and is no JSON-RPC message")
        }
        HttpError::UnexpectedContentType(None) => {
            "the response has no type and is no JSON-RPC message".to_owned()
        }
        HttpError::InsufficientScope(error) => {
            let scope = error.required_scope.as_deref().map(|scope| format!(": it requires {scope:?}"));
            format!("the scope of the token is insufficient (HTTP 403){}", scope.unwrap_or_default())
        }
        // rmcp declares no source for this variant.
        HttpError::Client(error) => ErrorChain(error).to_string(),
        error => ErrorChain(error).to_string(),
    };
    without_hidden_chars(&text).into_owned()
}
