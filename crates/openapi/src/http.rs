//! The HTTP client: redirects within the origin, bounded bodies and deadlines.

use std::time::Duration;

use haft_http::{client, tls::RootCertificates};
use reqwest::{
    Client, Method, Request, Response, StatusCode, Url,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION},
};

use crate::OpenApiError;

/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;

/// The maximum length of an error body, in bytes. The rest is dropped.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// A response with its body.
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// The error of a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// No connection was opened, so the server has not received the request.
    #[error("the server cannot be reached")]
    NotSent(#[source] reqwest::Error),
    /// The connection was lost after the request was sent.
    #[error("the connection was lost")]
    Lost(#[source] reqwest::Error),
    /// The server redirects to another origin, or too often. It has not executed the request.
    #[error("{0}")]
    Redirect(String),
    /// The response cannot be used. The server has executed the request.
    #[error("{0}")]
    InvalidResponse(String),
}

/// Builds the HTTP client.
pub(crate) fn new_client() -> Result<Client, OpenApiError> {
    let fault = |reason: String| OpenApiError::HttpClient { reason };
    let builder =
        client::builder(RootCertificates::SystemIfPresent).map_err(|error| fault(error.to_string()))?;
    builder.build().map_err(|error| fault(error.to_string()))
}

/// Sends `request`, follows redirects, and reads the body of the response, up to `max_bytes`.
///
/// Without `Accept-Encoding`, a server may compress the body (RFC 9110, section 12.5.3). The header
/// forbids it, so that the length of a body is the length of the response.
pub(crate) async fn send(
    client: &Client,
    mut request: Request,
    max_bytes: usize,
) -> Result<HttpResponse, HttpError> {
    request.headers_mut().entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    for _ in 0..=MAX_REDIRECTS {
        let (method, url) = (request.method().clone(), request.url().clone());
        let next = request.try_clone();
        let response = client.execute(request).await.map_err(request_error)?;
        let Some(target) = redirect_target(&method, &url, &response)? else {
            return read(response, &method, max_bytes).await;
        };
        let Some(mut next) = next else {
            return Err(HttpError::Redirect("the body cannot be sent again after a redirect".to_owned()));
        };
        *next.url_mut() = target;
        request = next;
    }
    Err(HttpError::Redirect("the server redirects too often".to_owned()))
}

/// Removes the URL from `error`, because it may contain a secret.
fn request_error(error: reqwest::Error) -> HttpError {
    let is_unsent = error.is_connect() || error.is_builder();
    let error = error.without_url();
    if is_unsent { HttpError::NotSent(error) } else { HttpError::Lost(error) }
}

/// Returns the target of a redirect. `None` if the response is not followed.
///
/// Status 307 and 308 keep the method and the body. The others are followed for safe methods only:
/// after another method, the server may have executed the request (RFC 9110, section 15.4).
fn redirect_target(method: &Method, url: &Url, response: &Response) -> Result<Option<Url>, HttpError> {
    let is_followed = match response.status().as_u16() {
        307 | 308 => true,
        301..=303 => matches!(*method, Method::GET | Method::HEAD),
        _ => false,
    };
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let Some(location) = location.filter(|_| is_followed) else { return Ok(None) };
    let target = url.join(location);
    let target =
        target.map_err(|_| HttpError::Redirect("the server redirects to an invalid URL".to_owned()))?;
    if target.origin() != url.origin() {
        let origin = target.origin().ascii_serialization();
        return Err(HttpError::Redirect(format!("the server redirects to another origin: {origin}")));
    }
    Ok(Some(target))
}

async fn read(mut response: Response, method: &Method, max_bytes: usize) -> Result<HttpResponse, HttpError> {
    let (status, headers) = (response.status(), response.headers().clone());
    let is_error = !status.is_success();
    let mut body = Vec::new();
    if *method == Method::HEAD {
        return Ok(HttpResponse { status, headers, body });
    }
    while let Some(chunk) = response.chunk().await.map_err(|error| HttpError::Lost(error.without_url()))? {
        body.extend_from_slice(&chunk);
        if is_error && body.len() > MAX_ERROR_BYTES.min(max_bytes) {
            break;
        }
        if body.len() > max_bytes {
            let reason = format!("the response is longer than {max_bytes} bytes");
            return Err(HttpError::InvalidResponse(reason));
        }
    }
    let response = HttpResponse { status, headers, body };
    match response.content_coding().filter(|_| !is_error) {
        Some(coding) => Err(HttpError::InvalidResponse(format!(
            "the response has the content coding {coding}, although the request forbids it: turn off the \
             compression of the server or of the proxy before it"
        ))),
        None => Ok(response),
    }
}

impl HttpResponse {
    /// Returns the content codings of the body, such as `gzip`. `None` for a body that is not
    /// encoded, or empty. With the feature `gzip` of reqwest, the client decodes the body and
    /// removes the header.
    pub(crate) fn content_coding(&self) -> Option<String> {
        let codings = self.headers.get_all(CONTENT_ENCODING).iter().filter_map(|it| it.to_str().ok());
        let codings = codings.flat_map(|it| it.split(',')).map(|it| it.trim().to_ascii_lowercase());
        let codings: Vec<_> = codings.filter(|it| !it.is_empty() && it != "identity").collect();
        (!codings.is_empty() && !self.body.is_empty()).then(|| codings.join(", "))
    }

    /// Returns the media type. Empty if there is no header `Content-Type`.
    pub(crate) fn media_type(&self) -> &str {
        self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the wait in `Retry-After`.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        client::retry_after(&self.headers)
    }
}
