#[cfg(test)]
mod tests;

use async_openai::config::Config;
use haft_core::model::ModelError;
use reqwest::{Client, Url, header::HeaderMap};
use secrecy::{ExposeSecret as _, SecretString};

use super::builder::BuildError;

/// What is shorter is no secret, and stands in too many words: as a key for the tests of a local server.
const SHORTEST_SECRET: usize = 8;

/// Where a server is, and what it is told with each request.
pub(super) struct Endpoint {
    /// Without credentials and query.
    base_url: String,
    address: String,
    query: Vec<(String, String)>,
    key: SecretString,
    headers: HeaderMap,
    /// What no error may show, the longest first.
    secrets: Vec<SecretString>,
}

/// Reads a base URL: up to and with the version, whatever somebody copied beyond that.
pub(super) fn read_base_url(text: &str) -> Result<Url, BuildError> {
    let wrong = |reason: String| BuildError::BaseUrl { base_url: without_secrets(text), reason };
    let mut url = Url::parse(text.trim()).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("its scheme is {:?}", url.scheme())));
    }
    if url.fragment().is_some() {
        return Err(wrong("it has a fragment, which is never sent".into()));
    }
    let path = url.path().trim_end_matches('/');
    let copied = ["/chat/completions", "/responses"].iter().find_map(|end| path.strip_suffix(end));
    let path = copied.unwrap_or(path).trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

/// A base URL for people, whether it is one or not: without what may be credentials.
fn without_secrets(text: &str) -> String {
    let shown = text.rsplit_once('@').map_or(text.to_owned(), |(_, rest)| format!("[secret]@{rest}"));
    shown.split_once('?').map_or(shown.clone(), |(start, _)| format!("{start}?[secret]"))
}

impl Endpoint {
    /// The `headers` come after those that credentials in the URL stand for; what is `hidden` is sent by others.
    pub(super) fn new(
        url: &Url,
        key: SecretString,
        headers: HeaderMap,
        hidden: Vec<SecretString>,
        http: &Client,
    ) -> reqwest::Result<Self> {
        // reqwest knows how the credentials of a URL are sent. Taken out of it, they are in no message.
        let request = http.post(url.clone()).build()?;
        let mut all_headers = request.headers().clone();
        all_headers.extend(headers);
        let mut bare = request.url().clone();
        bare.set_query(None);
        let query: Vec<_> = url.query_pairs().map(|(name, value)| (name.into(), value.into())).collect();
        Ok(Self {
            base_url: bare.as_str().trim_end_matches('/').to_owned(),
            address: url.origin().ascii_serialization(),
            secrets: secrets(&all_headers, &query, &hidden),
            query,
            key,
            headers: all_headers,
        })
    }

    /// The address without credentials, for messages.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Takes out of an error what a server repeats of what is secret.
    pub(super) fn redact(&self, mut error: ModelError) -> ModelError {
        if let Some(text) = text_of(&mut error) {
            for secret in &self.secrets {
                *text = without(text, secret.expose_secret());
            }
        }
        error
    }
}

/// What an error says in words that may be a server's.
fn text_of(error: &mut ModelError) -> Option<&mut String> {
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

/// A text without a secret, and without the beginning of one where an excerpt ends within it.
fn without(text: &str, secret: &str) -> String {
    let text = text.replace(secret, "[secret]");
    let Some(start) = text.strip_suffix('…') else { return text };
    let parts = (SHORTEST_SECRET..secret.len()).rev().filter_map(|end| secret.get(..end));
    let rest = parts.into_iter().find_map(|part| start.strip_suffix(part));
    rest.map_or(text.clone(), |rest| format!("{rest}[secret]…"))
}

/// The values of headers, in whole and without the word before a token, and those of a query that are no version.
fn secrets(headers: &HeaderMap, query: &[(String, String)], hidden: &[SecretString]) -> Vec<SecretString> {
    let values = headers.values().filter_map(|value| value.to_str().ok());
    let values = values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]);
    let query = query.iter().filter(|(name, _)| !name.contains("version")).map(|(_, value)| value.as_str());
    let mut secrets: Vec<_> = values
        .chain(query)
        .chain(hidden.iter().map(SecretString::expose_secret))
        .filter(|it| it.len() >= SHORTEST_SECRET)
        .collect();
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().map(SecretString::from).collect()
}

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        self.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn api_base(&self) -> &str {
        &self.base_url
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}
