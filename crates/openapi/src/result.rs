//! Results and errors of calls, from HTTP responses.

use haft_core::{
    ToolError, ToolOutput,
    content::Content,
    schema::first_rounded_number,
    text::{ErrorChain, truncate_with_ellipsis, without_hidden_chars},
};
use reqwest::{Method, StatusCode, header::LOCATION};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

use crate::{
    http::{HttpError, HttpResponse},
    operation::{
        DocumentedResponse, Responses,
        media_type::{essence, is_json, is_text},
        status_object,
    },
    request::without_secrets,
};

/// The maximum length of the excerpt of an error body, in bytes.
const MAX_EXCERPT_BYTES: usize = 2048;
/// The maximum length of the excerpt of an HTML page, in bytes. It is a page of a proxy or a
/// framework, with little information.
const MAX_HTML_EXCERPT_BYTES: usize = 200;
/// The maximum length of a number in a warning, in bytes.
const MAX_NUMBER_BYTES: usize = 40;
/// The byte order mark of UTF-8. It is no content (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The headers that are kept in [`ToolOutput::metadata`].
const KEPT_HEADERS: [&str; 7] =
    ["content-location", "etag", "last-modified", "link", "location", "x-request-id", "x-total-count"];

/// Returns `true` if a response with `status` is a success. 304 answers a conditional request: the
/// caller has the current content (RFC 9110, section 15.4.5).
pub(crate) fn is_success(method: &Method, status: StatusCode) -> bool {
    status.is_success() || (status == StatusCode::NOT_MODIFIED && method.is_safe())
}

/// Converts a success response to the output of the call.
///
/// JSON becomes structured content, text becomes text, and other bodies become media. An empty body
/// becomes the status and the header `Location`. If the tool has an output schema, a response
/// without the documented body gets a [status object](status_object) as structured content.
///
/// # Errors
///
/// Fails if the body does not match the schema that the document has for this status.
pub(crate) fn output(response: HttpResponse, responses: &Responses) -> Result<ToolOutput, ToolError> {
    let metadata = ("http".to_owned(), metadata(&response));
    let documented = responses.for_status(response.status);
    let schema = documented.and_then(DocumentedResponse::schema);
    let status = response.status;
    let location = location(&response).map(str::to_owned);
    let mut output = match body_output(response, documented.is_some_and(|it| it.is_json)) {
        Ok(output) => output,
        Err(InvalidJson { reason, .. }) if schema.is_some() => return Err(mismatch(&reason)),
        Err(InvalidJson { reason, text }) => text_output(&text).with_warning(reason),
    };
    output.structured = match (output.structured.take(), schema) {
        (Some(value), Some(schema)) => {
            schema.validate(&value).map_err(|violations| mismatch(&violations.to_string()))?;
            Some(value)
        }
        (value, _) if responses.output_schema.is_some() => {
            Some(status_object(status, location.as_deref(), value))
        }
        (value, _) => value,
    };
    output.metadata.extend([metadata]);
    Ok(output)
}

fn mismatch(problem: &str) -> ToolError {
    let problem = without_hidden_chars(problem);
    failed(format!("the call did run, but its result does not fit the tool's output schema: {problem}"))
}

/// A body with a JSON media type that is not JSON.
struct InvalidJson {
    reason: String,
    text: String,
}

/// Converts the body of `response`. `is_json` is `true` if the document describes a JSON body.
fn body_output(response: HttpResponse, is_json: bool) -> Result<ToolOutput, InvalidJson> {
    let media_type = essence(response.media_type());
    let is_unknown = media_type.is_empty();
    let is_text = is_unknown || is_text(&media_type) || self::is_json(&media_type);
    let body = response.body.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_text).unwrap_or(&response.body);
    if body.is_empty() || (is_text && body.trim_ascii().is_empty()) {
        return Ok(text_output(&describe_empty(&response)));
    }
    // Some servers send JSON as `text/html`.
    let is_generic = is_text || media_type == "application/octet-stream";
    if self::is_json(&media_type) || is_unknown || (is_json && is_generic) {
        match parse_json(body) {
            Ok(output) => return Ok(output),
            Err(_) if !self::is_json(&media_type) => {}
            Err(error) => {
                let reason = format!("the response is not valid JSON: {error}");
                return Err(InvalidJson { reason, text: String::from_utf8_lossy(body).into_owned() });
            }
        }
    }
    let output = if (is_text && !is_unknown) || (is_unknown && str::from_utf8(body).is_ok()) {
        text_output(&decode_text(&response))
    } else {
        let media_type = if is_unknown { "application/octet-stream".to_owned() } else { media_type.clone() };
        Content::from_bytes(response.body, media_type).into()
    };
    Ok(match is_json {
        true if is_unknown => {
            output.with_warning("the document describes JSON, but the response is not JSON")
        }
        true => output
            .with_warning(format!("the document describes JSON, but the response has the type {media_type}")),
        false => output,
    })
}

/// Parses `body`. A body with a number that would be rounded becomes text.
fn parse_json(body: &[u8]) -> Result<ToolOutput, serde_json::Error> {
    let parsed = serde_json::from_slice(body);
    let text = str::from_utf8(body).unwrap_or_default();
    let is_valid = parsed.as_ref().err().is_none_or(|error: &serde_json::Error| {
        // A number beyond the range of `f64`.
        error.to_string().starts_with("number out of range")
    });
    if let Some(number) = first_rounded_number(text).filter(|_| is_valid) {
        let number = truncate_with_ellipsis(number, MAX_NUMBER_BYTES);
        let warning = format!(
            "the response is text, because the number {number} cannot be represented exactly as data"
        );
        return Ok(text_output(text).with_warning(warning));
    }
    let mut output = ToolOutput::structured(parsed?);
    for content in &mut output.content {
        if let Content::Text { text } = content {
            *text = without_hidden_chars(text).into_owned();
        }
    }
    Ok(output)
}

/// Returns an output with `text`, without characters that a reader does not see.
fn text_output(text: &str) -> ToolOutput {
    Content::text(without_hidden_chars(text)).into()
}

/// Decodes the body as UTF-8, or as ISO 8859-1 if the header declares it. Other bytes are replaced.
fn decode_text(response: &HttpResponse) -> String {
    let parameters = response.media_type().to_ascii_lowercase();
    let is_latin1 = ["charset=iso-8859-1", "charset=\"iso-8859-1\"", "charset=latin1"];
    if is_latin1.iter().any(|charset| parameters.contains(charset)) {
        return response.body.iter().copied().map(char::from).collect();
    }
    let body = response.body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&response.body);
    String::from_utf8_lossy(body).into_owned()
}

fn location(response: &HttpResponse) -> Option<&str> {
    response.headers.get(LOCATION)?.to_str().ok()
}

fn describe_empty(response: &HttpResponse) -> String {
    let location = location(response).map(|location| format!(", location: {location}")).unwrap_or_default();
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
    if let Some(coding) = response.content_coding() {
        return format!("the body has the content coding {coding}, although the request forbids it");
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
