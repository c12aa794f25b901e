#[cfg(test)]
mod tests;

use haft_core::model::ModelError;
use haft_http::model::Secrets;
use reqwest::{
    Client, Method, Request, Url,
    header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::SecretString;

use super::builder::BuildError;

/// The URL and the headers of all requests to one API of a server.
pub(super) struct Endpoint {
    /// The URL of the API, with its query but without credentials.
    url: Url,
    address: String,
    headers: HeaderMap,
    secrets: Secrets,
}

/// Parses the base URL `text`. A trailing `/chat/completions` or `/responses` is removed, so `text`
/// may also be the full URL of an endpoint.
pub(super) fn parse_base_url(text: &str) -> Result<Url, BuildError> {
    let wrong = |reason: String| BuildError::InvalidBaseUrl { base_url: without_secrets(text), reason };
    let mut url = Url::parse(text.trim()).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("its scheme is {:?}", url.scheme())));
    }
    if url.fragment().is_some() {
        return Err(wrong("it has a fragment, and fragments are not sent".into()));
    }
    let path = url.path().trim_end_matches('/');
    let copied = ["/chat/completions", "/responses"].iter().find_map(|end| path.strip_suffix(end));
    let path = copied.unwrap_or(path).trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Redacts the credentials and the query in `text`, for error messages. `text` may be an invalid
/// URL.
fn without_secrets(text: &str) -> String {
    let shown = text.rsplit_once('@').map_or(text.to_owned(), |(_, rest)| format!("[secret]@{rest}"));
    shown.split_once('?').map_or(shown.clone(), |(start, _)| format!("{start}?[secret]"))
}

impl Endpoint {
    /// Creates the endpoint of the API at `path` below the base URL.
    ///
    /// Credentials in the URL become an `authorization` header, unless `headers` contains one. The
    /// values in `hidden` are redacted in errors, like the header values and the query.
    pub(super) fn new(
        base_url: &Url,
        path: &str,
        headers: HeaderMap,
        hidden: &[SecretString],
        http: &Client,
    ) -> reqwest::Result<Self> {
        // Building a request moves the credentials of the URL into the `authorization` header.
        let request = http.post(base_url.clone()).build()?;
        let mut all_headers = request.headers().clone();
        all_headers.extend(headers);
        let query: Vec<_> = base_url.query_pairs().collect();
        let query: Vec<_> = query.iter().map(|(name, value)| (&**name, &**value)).collect();
        let secrets = Secrets::new(&all_headers, &query, hidden);
        all_headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        // Without the header, a server may use any coding (RFC 9110, section 12.5.3).
        all_headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let mut url = request.url().clone();
        url.set_path(&format!("{}{path}", base_url.path().trim_end_matches('/')));
        let address = url.origin().ascii_serialization();
        Ok(Self { url, address, headers: all_headers, secrets })
    }

    /// Returns the scheme, host and port of the server, for error messages and spans.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URL without its query, for error messages.
    pub(super) fn display_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.into()
    }

    /// Creates a POST request with `body` and the headers of this endpoint.
    pub(super) fn build_request(&self, body: Vec<u8>) -> Request {
        let mut request = Request::new(Method::POST, self.url.clone());
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(body.into());
        request
    }

    /// Replaces secrets in the text of `error`, because servers may echo them in error messages.
    pub(super) fn redact(&self, error: ModelError) -> ModelError {
        self.secrets.redact(error)
    }
}
