use haft_core::model::ModelError;
use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret as _, SecretString};

/// The minimum length of a redacted value, in bytes. Shorter values, such as test keys of local
/// servers, are not redacted, because they may occur inside other words.
const MIN_SECRET_BYTES: usize = 8;

/// The values to redact from errors, longest first, because a value may contain a shorter value.
pub(crate) struct Secrets(Vec<SecretString>);

impl Secrets {
    /// Collects the values to redact: all header values (with and without a scheme such as
    /// `Bearer`), all query values except versions, and `others`.
    pub(crate) fn new(headers: &HeaderMap, query: &[(&str, &str)], others: &[SecretString]) -> Self {
        let values = headers.values().filter_map(|value| value.to_str().ok());
        let values = values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]);
        let query = query.iter().filter(|(name, _)| !name.contains("version")).map(|(_, value)| *value);
        let mut secrets: Vec<_> = values
            .chain(query)
            .chain(others.iter().map(SecretString::expose_secret))
            .filter(|secret| secret.len() >= MIN_SECRET_BYTES)
            .collect();
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets.into_iter().map(SecretString::from).collect())
    }

    /// Replaces secrets in the text of `error`, because servers may echo them in error messages.
    pub(crate) fn redact(&self, mut error: ModelError) -> ModelError {
        if let Some(text) = message_mut(&mut error) {
            for secret in &self.0 {
                *text = without_secret(text, secret.expose_secret());
            }
        }
        error
    }
}

/// Returns the text of `error` if it may come from a server, or else `None`.
fn message_mut(error: &mut ModelError) -> Option<&mut String> {
    match error {
        ModelError::Unauthorized(text)
        | ModelError::ContextTooLong(text)
        | ModelError::InvalidResponse(text)
        | ModelError::Unsupported(text)
        | ModelError::Rejected { body: text, .. }
        | ModelError::Server { body: text, .. }
        | ModelError::RateLimited { message: text, .. }
        | ModelError::Failed { message: text, .. }
        | ModelError::Unreachable { reason: text, .. }
        | ModelError::Truncated { reason: text, .. } => Some(text),
        _ => None,
    }
}

/// Replaces `secret` in `text` with `[secret]`. If `text` was truncated and ends with `…`, a
/// truncated secret before the ellipsis is also replaced.
fn without_secret(text: &str, secret: &str) -> String {
    let text = text.replace(secret, "[secret]");
    let Some(start) = text.strip_suffix('…') else { return text };
    let parts = (MIN_SECRET_BYTES..secret.len()).rev().filter_map(|end| secret.get(..end));
    let rest = parts.into_iter().find_map(|part| start.strip_suffix(part));
    rest.map_or(text.clone(), |rest| format!("{rest}[secret]…"))
}
