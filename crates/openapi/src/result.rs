//! Results and errors of calls, from HTTP responses.

use haft_core::{
    ToolError, ToolOutput,
    content::Content,
    text::{ErrorChain, truncate_with_ellipsis, without_hidden_chars},
};
use reqwest::{
    Method, StatusCode,
    header::{CONTENT_ENCODING, LOCATION},
};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use crate::{
    http::{HttpError, HttpResponse},
    operation::media_type::{essence, is_json, is_text},
    request::without_secrets,
};

/// The maximum length of the excerpt of an error body, in bytes.
const MAX_EXCERPT_BYTES: usize = 2048;
/// The maximum length of the excerpt of an HTML page, in bytes. It is a page of a proxy or a
/// framework, with little information.
const MAX_HTML_EXCERPT_BYTES: usize = 200;

/// The headers that are kept in [`ToolOutput::metadata`].
const KEPT_HEADERS: [&str; 7] =
    ["content-location", "etag", "last-modified", "link", "location", "x-request-id", "x-total-count"];

/// Converts a success response to the output of the call.
///
/// JSON becomes structured content, text becomes text, and other bodies become media. An empty body
/// becomes the status and the header `Location`.
pub(crate) fn output(response: HttpResponse) -> ToolOutput {
    let metadata = ("http".to_owned(), metadata(&response));
    let mut output = body_output(response);
    output.metadata.extend([metadata]);
    output
}

fn body_output(response: HttpResponse) -> ToolOutput {
    let media_type = essence(response.media_type());
    if response.body.is_empty() {
        return Content::text(describe_empty(&response)).into();
    }
    let is_unknown = media_type.is_empty();
    if is_json(&media_type) || is_unknown {
        match serde_json::from_slice(&response.body) {
            Ok(value) => return ToolOutput::structured(value),
            Err(_) if is_unknown => {}
            Err(error) => {
                let text = String::from_utf8_lossy(&response.body).into_owned();
                let warning = format!("the response is not valid JSON: {error}");
                return ToolOutput::from(Content::text(text)).with_warning(warning);
            }
        }
    }
    if is_text(&media_type) || (is_unknown && str::from_utf8(&response.body).is_ok()) {
        return Content::text(decode_text(&response)).into();
    }
    let media_type = if is_unknown { "application/octet-stream".to_owned() } else { media_type };
    Content::from_bytes(response.body, media_type).into()
}

/// Decodes the body as UTF-8, or as ISO 8859-1 if the header declares it. Other bytes are replaced.
fn decode_text(response: &HttpResponse) -> String {
    let parameters = response.media_type().to_ascii_lowercase();
    let is_latin1 = ["charset=iso-8859-1", "charset=\"iso-8859-1\"", "charset=latin1"];
    if is_latin1.iter().any(|charset| parameters.contains(charset)) {
        return response.body.iter().copied().map(char::from).collect();
    }
    String::from_utf8_lossy(&response.body).into_owned()
}

fn describe_empty(response: &HttpResponse) -> String {
    let location = response.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let location = location.map(|location| format!(", location: {location}")).unwrap_or_default();
    format!("HTTP {}{location}", response.status)
}

fn metadata(response: &HttpResponse) -> Value {
    let header = |name: &&str| {
        let value = response.headers.get(*name)?.to_str().ok()?;
        Some(((*name).to_owned(), Value::from(value)))
    };
    let headers: Map<_, _> = KEPT_HEADERS.iter().filter_map(header).collect();
    json!({ "status": response.status.as_u16(), "headers": headers })
}

/// Converts a response that is not a success to an error.
///
/// | status | error |
/// |---|---|
/// | 400, 422 | `InvalidArguments`: the model can correct them |
/// | 3xx, 500, 502, 504 and others from 500 on, after a method that is not safe | `Unconfirmed` |
/// | other | `Failed` |
pub(crate) fn status_error(
    method: &Method,
    response: &HttpResponse,
    secrets: &[SecretString],
    missing_schemes: &[String],
) -> ToolError {
    let status = response.status;
    let excerpt = excerpt(response, secrets);
    let message =
        if excerpt.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {excerpt}") };
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => {
            ToolError::InvalidArguments(message.into())
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if !missing_schemes.is_empty() => {
            let names = missing_schemes.join(", ");
            failed(format!(
                "{message}; no credential is configured for the security schemes of the operation: {names}"
            ))
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let wait = response.retry_after().map(|wait| format!("; retry after {} s", wait.as_secs()));
            failed(format!("{message}{}", wait.unwrap_or_default()))
        }
        // The server rejects these requests before it executes them.
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => failed(message),
        status if status.is_server_error() && !method.is_safe() => ToolError::Unconfirmed(message),
        // The server may have executed the request (RFC 9110, section 15.4.4).
        status if status.is_redirection() && !method.is_safe() => {
            ToolError::Unconfirmed(without_secrets(&describe_empty(response), secrets))
        }
        _ => failed(message),
    }
}

fn failed(message: String) -> ToolError {
    ToolError::Failed { message, source: None }
}

/// Returns the start of the error body on one line, without `secrets`.
fn excerpt(response: &HttpResponse, secrets: &[SecretString]) -> String {
    if response.headers.contains_key(CONTENT_ENCODING) {
        return String::new();
    }
    let media_type = essence(response.media_type());
    let is_text = media_type.is_empty() || is_text(&media_type) || is_json(&media_type);
    if !is_text {
        return format!("{} bytes of {media_type}", response.body.len());
    }
    // A secret could be cut by the truncation.
    let text = without_secrets(&decode_text(response), secrets);
    let words = without_hidden_chars(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    let limit = if media_type == "text/html" { MAX_HTML_EXCERPT_BYTES } else { MAX_EXCERPT_BYTES };
    truncate_with_ellipsis(&words, limit).into_owned()
}

/// Converts the error of a request with `method`.
pub(crate) fn request_error(method: &Method, error: HttpError) -> ToolError {
    let message = ErrorChain(&error).to_string();
    match error {
        HttpError::Lost(_) if !method.is_safe() => ToolError::Unconfirmed(message),
        HttpError::Lost(_) => ToolError::Failed {
            message: format!("{message}; the call can be repeated"),
            source: Some(error.into()),
        },
        HttpError::NotSent(_) => ToolError::Failed { message, source: Some(error.into()) },
        HttpError::Redirect(message) => failed(message),
        HttpError::InvalidResponse(reason) if method.is_safe() => failed(reason),
        HttpError::InvalidResponse(reason) => failed(format!("the call did run, but {reason}")),
    }
}

#[cfg(test)]
mod tests;
