use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;

use super::{BuildError, ModelBuilder, server::Server};
use crate::client::provider::Provider;

impl<M> ModelBuilder<M> {
    /// Returns the headers of all requests to `target`: the API key and the builder's own headers.
    pub(super) fn build_headers(&self, target: &Server) -> Result<HeaderMap, BuildError> {
        let mut headers = HeaderMap::new();
        let key = target.key.expose_secret();
        if target.provider == Some(Provider::Azure) && !key.is_empty() && !is_jwt(key) {
            headers.insert("api-key", sensitive_header_value(key).ok_or(BuildError::InvalidApiKey)?);
        } else if !key.is_empty() {
            let value = sensitive_header_value(&format!("Bearer {key}")).ok_or(BuildError::InvalidApiKey)?;
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            let header = HeaderName::try_from(name).ok().zip(sensitive_header_value(value.expose_secret()));
            let (key, value) = header.ok_or_else(|| BuildError::InvalidHeader { name: name.clone() })?;
            headers.insert(key, value);
        }
        Ok(headers)
    }
}

/// Returns `true` if `key` has the form of a JWT, as Entra tokens do. Azure requires tokens in the
/// header `Authorization`, but keys in the header `api-key`.
fn is_jwt(key: &str) -> bool {
    key.starts_with("eyJ") && key.split('.').count() == 3
}

/// Creates a header value that is marked as sensitive. Returns `None` if `text` has invalid
/// characters.
fn sensitive_header_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
