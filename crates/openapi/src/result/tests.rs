use expect_test::expect;
use haft_core::{ToolError, ToolOutput, text::is_hidden};
use reqwest::{
    Method, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::json;

use super::status_error;
use crate::{document::Document, http::HttpResponse, operation::Responses};

/// Converts `response` of an operation without documented responses.
fn output(response: HttpResponse) -> ToolOutput {
    let document = Document::parse(r#"{"openapi": "3.1.0"}"#, None, 1000).ok().unwrap();
    let responses = Responses::parse(&document, &Method::GET, &json!({}), true);
    super::output(response, &responses).unwrap()
}

fn response(status: u16, headers: &[(&'static str, &'static str)], body: impl Into<Vec<u8>>) -> HttpResponse {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    HttpResponse { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
}

fn typed(content_type: &'static str, body: impl Into<Vec<u8>>) -> HttpResponse {
    let mut response = response(200, &[], body);
    response.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[test]
fn content_follows_the_media_type() {
    let mut outputs = String::new();
    for response in [
        typed("application/json; charset=utf-8", "{\"a\": [1]}"),
        typed("application/problem+json", "null"),
        typed("application/json", "<html>"),
        typed("text/csv", "a,b"),
        typed("text/plain; charset=ISO-8859-1", b"caf\xe9"),
        typed("application/xml", "<a/>"),
        typed("image/png", b"\x89PNG"),
        typed("audio/wav", b"RIFF"),
        typed("application/pdf", b"%PDF\xff"),
        response(200, &[], "{\"a\": 1}"),
        response(200, &[], "plain"),
        response(200, &[], b"\xff\xfe"),
        response(201, &[("location", "/pets/7")], ""),
        response(204, &[], ""),
        typed("application/json", " \n"),
        typed("application/json", b"\xef\xbb\xbf"),
        typed("application/json", "\u{feff}[1]"),
        typed("text/plain", "\u{feff}a\u{202e}b\u{1b}[31m\u{e0041}"),
        typed("application/json", "{\"a\u{200b}\": \"\u{202e}x\u{9b}\"}"),
        typed("application/json", "{\"id\": 12345678901234567890123}"),
        typed("application/json", "[1e400]"),
        typed("text/html", "[1]"),
    ] {
        let output = output(response);
        let structured = output.structured.as_ref().map(ToString::to_string).unwrap_or_default();
        let structured = structured.replace(is_hidden, "?");
        outputs.push_str(&format!("{} | {structured} | {:?}\n", output.text(), output.warnings));
    }
    expect![[r#"
        {"a":[1]} | {"a":[1]} | []
        null | null | []
        <html> |  | ["the response is not valid JSON: expected value at line 1 column 1"]
        a,b |  | []
        café |  | []
        <a/> |  | []
        [image/png, 4 bytes] |  | []
        [audio/wav, 4 bytes] |  | []
        [application/pdf, 5 bytes] |  | []
        {"a":1} | {"a":1} | []
        plain |  | []
        [application/octet-stream, 2 bytes] |  | []
        HTTP 201 Created, location: /pets/7 |  | []
        HTTP 204 No Content |  | []
        HTTP 200 OK |  | []
        HTTP 200 OK |  | []
        [1] | [1] | []
        ab[31m |  | []
        {"a":"x"} | {"a?":"?x?"} | []
        {"id": 12345678901234567890123} |  | ["the response is text, because the number 12345678901234567890123 cannot be represented exactly as data"]
        [1e400] |  | ["the response is text, because the number 1e400 cannot be represented exactly as data"]
        [1] |  | []
    "#]]
    .assert_eq(&outputs);
}

/// Programs read the status and selected headers. They are not sent to the model.
#[test]
fn status_and_headers_are_metadata() {
    let output =
        output(response(200, &[("etag", "\"7\""), ("set-cookie", "s3cret"), ("link", "<?page=2>")], "1"));
    expect![[r#"{"status":200,"headers":{"etag":"\"7\"","link":"<?page=2>"}}"#]]
        .assert_eq(&output.metadata["http"].to_string());
}

fn error(method: &Method, response: &HttpResponse) -> ToolError {
    status_error(method, response, &["s3cret-token".to_owned().into()], &[])
}

#[test]
fn kind_of_an_error_follows_the_status() {
    let mut errors = String::new();
    for (status, retry_after) in [
        (301, None),
        (400, None),
        (401, None),
        (404, None),
        (409, None),
        (422, None),
        (429, Some("7")),
        (500, None),
        (501, None),
        (503, Some("5")),
        (504, None),
    ] {
        let headers: Vec<_> = retry_after.map(|value| ("retry-after", value)).into_iter().collect();
        let response = response(status, &headers, "");
        let (get, post) = (error(&Method::GET, &response), error(&Method::POST, &response));
        errors.push_str(&format!("{get} | {:?}, {:?}\n", get.kind(), post.kind()));
    }
    expect![[r#"
        HTTP 301 Moved Permanently | Failed, Unconfirmed
        invalid arguments: HTTP 400 Bad Request | InvalidArguments, InvalidArguments
        HTTP 401 Unauthorized | Failed, Failed
        HTTP 404 Not Found | Failed, Failed
        HTTP 409 Conflict | Failed, Failed
        invalid arguments: HTTP 422 Unprocessable Entity | InvalidArguments, InvalidArguments
        HTTP 429 Too Many Requests; retry after 7 s | Failed, Failed
        HTTP 500 Internal Server Error | Failed, Unconfirmed
        HTTP 501 Not Implemented | Failed, Failed
        HTTP 503 Service Unavailable; retry after 5 s | Failed, Failed
        HTTP 504 Gateway Timeout | Failed, Unconfirmed
    "#]]
    .assert_eq(&errors);
}

#[test]
fn error_bodies_are_shortened_and_redacted() {
    let echo = error(&Method::GET, &response(401, &[], "Invalid  key\n s3cret-token\u{200b}!"));
    expect!["HTTP 401 Unauthorized: Invalid key [redacted]!"].assert_eq(&echo.to_string());
    let long = error(&Method::GET, &response(404, &[], "x".repeat(10_000)));
    assert!(long.to_string().len() < 2200);
    let mut html = typed("text/html", "<p>".repeat(1000));
    html.status = StatusCode::BAD_GATEWAY;
    assert!(error(&Method::GET, &html).to_string().len() < 300);
    let mut image = typed("image/png", vec![0; 100]);
    image.status = StatusCode::NOT_FOUND;
    expect!["HTTP 404 Not Found: 100 bytes of image/png"].assert_eq(&error(&Method::GET, &image).to_string());
}

#[test]
fn missing_credentials_are_named() {
    let missing = ["bearerAuth".to_owned()];
    let error = status_error(&Method::GET, &response(401, &[], ""), &[], &missing);
    expect!["HTTP 401 Unauthorized; no credential is configured for the security schemes of the operation: bearerAuth"]
        .assert_eq(&error.to_string());
}
