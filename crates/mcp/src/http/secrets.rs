use std::collections::HashMap;

use ::http::{HeaderName, HeaderValue};
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use serde_json::Value;

use super::HttpError;

/// The text that replaces a secret.
const REDACTED: &str = "[redacted]";
/// The minimum length of a secret that is replaced. A shorter text may be part of other words.
const MIN_SECRET_BYTES: usize = 6;

/// The secrets of a request: its access token, and the values of the headers of the server and of
/// the call. A server may repeat them in an error.
pub(super) struct Secrets {
    token: Option<String>,
    headers: Vec<HeaderValue>,
}

impl Secrets {
    /// Returns the secrets of a request with `token` and `headers`. Headers of the protocol are not
    /// marked as sensitive.
    pub(super) fn new(token: Option<&String>, headers: &HashMap<HeaderName, HeaderValue>) -> Self {
        let headers = headers.values().filter(|value| value.is_sensitive()).cloned().collect();
        Self { token: token.cloned(), headers }
    }

    /// Replaces the secrets in the text of `error`, which may have a part of the response.
    pub(super) fn redact_error(&self, error: HttpError) -> HttpError {
        match error {
            HttpError::UnexpectedServerResponse(text) => {
                let mut text = text.into_owned();
                self.redact(&mut text);
                HttpError::UnexpectedServerResponse(text.into())
            }
            other => other,
        }
    }

    /// Replaces the secrets in `message` if it is an error.
    pub(super) fn redact_message(&self, message: &mut ServerJsonRpcMessage) {
        let JsonRpcMessage::Error(response) = message else { return };
        let mut text = std::mem::take(&mut response.error.message).into_owned();
        self.redact(&mut text);
        response.error.message = text.into();
        response.error.data.iter_mut().for_each(|data| self.redact_value(data));
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.redact(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.redact_value(member)),
            _ => {}
        }
    }

    fn redact(&self, text: &mut String) {
        for secret in self.texts().filter(|secret| secret.len() >= MIN_SECRET_BYTES) {
            if text.contains(secret) {
                *text = text.replace(secret, REDACTED);
            }
        }
    }

    /// Returns the secrets, and the parts of a header after its scheme, such as `Bearer`.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let headers = self.headers.iter().filter_map(|value| value.to_str().ok());
        headers.chain(self.token.as_deref()).flat_map(|text| {
            let credential = text.split_once(' ').map(|(_, credential)| credential.trim());
            [text].into_iter().chain(credential)
        })
    }
}
