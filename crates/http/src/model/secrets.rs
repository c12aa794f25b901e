use haft_core::{model::ModelError, text::without_secrets};
use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

/// The minimum length of a redacted value, in bytes. Shorter values, such as test keys of local
/// servers, are not redacted, because they may occur inside other words.
const MIN_SECRET_BYTES: usize = 8;

/// The values to redact from errors. The debug output contains none of them.
#[derive(Debug)]
pub struct Secrets(Vec<SecretString>);

impl Secrets {
    /// Collects the values to redact: all header values (with and without a scheme such as
    /// `Bearer`), all query values except versions, and `others`.
    pub fn new(headers: &HeaderMap, query: &[(&str, &str)], others: &[SecretString]) -> Self {
        let values = headers.values().filter_map(|value| value.to_str().ok());
        let values = values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]);
        let query = query.iter().filter(|(name, _)| !name.contains("version")).map(|(_, value)| *value);
        let secrets = values
            .chain(query)
            .chain(others.iter().map(SecretString::expose_secret))
            .filter(|secret| secret.len() >= MIN_SECRET_BYTES);
        Self(secrets.map(SecretString::from).collect())
    }

    /// Replaces secrets in the text of `error`, because servers may echo them in error messages.
    pub fn redact(&self, mut error: ModelError) -> ModelError {
        if let ModelError::InvalidGeneration { generation: Some(text), .. } = &mut error {
            self.redact_text(text);
        }
        if let Some(text) = message_mut(&mut error) {
            self.redact_text(text);
        }
        error
    }

    fn redact_text(&self, text: &mut String) {
        let secrets = self.0.iter().map(ExposeSecret::expose_secret);
        *text = without_secrets(text, secrets, "[secret]").into_owned();
    }
}

/// Returns the text of `error` if it may come from a server, or else `None`.
fn message_mut(error: &mut ModelError) -> Option<&mut String> {
    match error {
        ModelError::Unauthorized(text)
        | ModelError::ContextTooLong(text)
        | ModelError::InvalidResponse(text)
        | ModelError::ContentFiltered(text)
        | ModelError::InvalidGeneration { reason: text, .. }
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
