#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use haft_core::model::ModelError;
use reqwest::{
    Client, Method, Request, Url,
    header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::SecretString;

use super::{BuildError, Secrets};

/// The base URL and the headers of all requests to a server.
pub(super) struct Endpoint {
    /// The base URL, with its query but without credentials.
    url: Url,
    /// The first requested path and its URL, because most clients have one path.
    first: OnceLock<(String, Url)>,
    address: String,
    headers: HeaderMap,
    secrets: Secrets,
}

/// Parses `text` as the base URL of a server. A trailing `/` of its path is removed. `example` is a
/// valid base URL, for the error.
///
/// # Errors
///
/// Fails if `text` is no HTTP URL, or has a fragment.
pub fn parse_base_url(text: &str, example: &'static str) -> Result<Url, BuildError> {
    let wrong =
        |reason: String| BuildError::InvalidBaseUrl { base_url: without_secrets(text), reason, example };
    let mut url = Url::parse(text.trim()).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("its scheme is {:?}", url.scheme())));
    }
    if url.fragment().is_some() {
        return Err(wrong("it has a fragment, and fragments are not sent".into()));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// Returns `url` without its credentials and its query, for error messages.
pub fn address_of(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path().trim_end_matches('/'))
}

/// Redacts the credentials and the query in `text`, for error messages. `text` may be an invalid
/// URL.
fn without_secrets(text: &str) -> String {
    let shown = text.rsplit_once('@').map_or(text.to_owned(), |(_, rest)| format!("[secret]@{rest}"));
    shown.split_once('?').map_or(shown.clone(), |(start, _)| format!("{start}?[secret]"))
}

impl Endpoint {
    /// Creates the endpoint of the server at `base_url`.
    ///
    /// Credentials in the URL become an `authorization` header, unless `headers` contains one. The
    /// values in `hidden` are redacted in errors, like the header values and the query.
    pub(super) fn new(
        base_url: &Url,
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
        let url = request.url().clone();
        let address = url.origin().ascii_serialization();
        Ok(Self { url, first: OnceLock::new(), address, headers: all_headers, secrets })
    }

    /// Returns the scheme, host and port of the server, for error messages and spans.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URL of `path` without the query, for error messages.
    pub(super) fn display_url(&self, path: &str) -> String {
        let mut url = self.url_of(path);
        url.set_query(None);
        url.into()
    }

    /// Returns the URL of `path`, which is relative to the base URL and can have a query.
    fn url_of(&self, path: &str) -> Url {
        let (first, url) = self.first.get_or_init(|| (path.to_owned(), self.build_url(path)));
        if first == path { url.clone() } else { self.build_url(path) }
    }

    fn build_url(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let mut url = self.url.clone();
        url.set_path(&format!("{}{path}", self.url.path().trim_end_matches('/')));
        if let Some(query) = query {
            url.query_pairs_mut().extend_pairs(query.split('&').filter_map(|pair| pair.split_once('=')));
        }
        url
    }

    /// Creates a POST request to `path` with `body` and the headers of this endpoint.
    pub(super) fn build_request(&self, path: &str, body: Vec<u8>) -> Request {
        let mut request = Request::new(Method::POST, self.url_of(path));
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(body.into());
        request
    }

    /// Replaces secrets in the text of `error`, because servers may echo them in error messages.
    pub(super) fn redact(&self, error: ModelError) -> ModelError {
        self.secrets.redact(error)
    }
}
