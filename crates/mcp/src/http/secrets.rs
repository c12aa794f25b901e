use std::collections::HashMap;

use ::http::{HeaderName, HeaderValue};
use futures::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use haft_core::text::without_secrets;
use rmcp::{
    model::{ErrorData, JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::SseError,
};
use serde_json::Value;
use sse_stream::Sse;

use super::{HttpError, error::Refusal};

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

    /// Replaces the secrets in the text of `error`, because it may contain a part of the response.
    pub(super) fn redact_error(&self, error: HttpError) -> HttpError {
        match error {
            HttpError::UnexpectedServerResponse(text) => {
                HttpError::UnexpectedServerResponse(self.redact(&text).into())
            }
            HttpError::Io(mut error) => {
                if let Some(Refusal::Limited { error, .. }) =
                    error.get_mut().and_then(|error| error.downcast_mut())
                {
                    self.redact_data(error);
                }
                HttpError::Io(error)
            }
            other => other,
        }
    }

    /// Replaces the secrets in the message and in the data of `error`.
    pub(super) fn redact_data(&self, error: &mut ErrorData) {
        error.message = self.redact(&error.message).into();
        error.data.iter_mut().for_each(|data| self.redact_value(data));
    }

    /// Replaces the secrets in `message` if it is an error.
    pub(super) fn redact_message(&self, message: &mut ServerJsonRpcMessage) {
        let JsonRpcMessage::Error(response) = message else { return };
        self.redact_data(&mut response.error);
    }

    /// Returns `stream`, in which the secrets in the errors are replaced.
    pub(super) fn redact_stream(
        self,
        stream: BoxStream<'static, Result<Sse, SseError>>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        if self.texts().next().is_none() {
            return stream;
        }
        let redacted = stream.map_ok(move |mut event| {
            self.redact_event(&mut event);
            event
        });
        redacted.boxed()
    }

    /// Replaces the secrets in the message of `event` if it is an error, or no valid message.
    fn redact_event(&self, event: &mut Sse) {
        let Some(data) = event.data.as_mut().filter(|data| data.contains("\"error\"")) else { return };
        // JSON has several forms of a text, so the secrets are compared with the decoded texts.
        let Ok(mut message) = serde_json::from_str::<Value>(data) else {
            *data = self.redact(data);
            return;
        };
        let error = message.get_mut("error");
        let is_changed = error.is_some_and(|error| {
            let before = error.clone();
            self.redact_value(error);
            *error != before
        });
        if is_changed {
            *data = message.to_string();
        }
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.redact_value(member)),
            _ => {}
        }
    }

    /// Replaces the secrets in `text`, which may be JSON: PHP writes `/` as `\/`, and .NET writes
    /// `+` as `\u002B`.
    pub(super) fn redact(&self, text: &str) -> String {
        let forms = |secret: &str| {
            let slashes = secret.replace('/', "\\/");
            let pluses = [secret, &slashes].map(|form| form.replace('+', "\\u002B"));
            [secret.to_owned(), slashes].into_iter().chain(pluses)
        };
        let secrets: Vec<_> = self.texts().flat_map(forms).collect();
        without_secrets(text, secrets.iter().map(String::as_str), "[redacted]").into_owned()
    }

    /// Returns the secrets, and the parts of a header after its scheme, such as `Bearer`.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let headers = self.headers.iter().filter_map(|value| value.to_str().ok());
        let texts = headers.chain(self.token.as_deref()).flat_map(|text| {
            let credential = text.split_once(' ').map(|(_, credential)| credential.trim());
            [text].into_iter().chain(credential)
        });
        texts.filter(|secret| secret.len() >= MIN_SECRET_BYTES)
    }
}
