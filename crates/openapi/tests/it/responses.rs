//! The results and errors of calls.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use expect_test::expect;
use haft_core::{Toolset, call::FailureKind, content::Content};
use haft_openapi::OpenApiOptions;
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use crate::{
    call, call_failed, call_ok, document, tools, tools_with,
    web::{self, Api},
};

/// Operations with the methods `get` and `post`. The response of `get` has a schema.
const PATHS: &str = r#"
  /a:
    get:
      operationId: get
      responses:
        "200":
          description: A count.
          content: {application/json: {schema: {type: object, required: [n], properties: {n: {type: integer}}}}}
    post:
      operationId: post
      responses: {default: {description: Any.}}
"#;

fn with_options(api: &Api, options: &OpenApiOptions) -> Toolset {
    tools_with(&document(api, PATHS, "  schemas: {}\n"), options)
}

#[tokio::test]
async fn json_is_structured_content_with_a_schema() {
    let api = Api::start(|_| web::json(200, r#"{"n": 1}"#)).await;
    let tools = tools(&api, PATHS);
    let list = tools.list(&haft_core::toolset::ListContext::default()).await;
    assert!(list.get("get").unwrap().definition().output_schema().is_some());
    assert!(list.get("post").unwrap().definition().output_schema().is_none());
    let result = call_ok(&tools, "get", json!({})).await;
    assert_eq!(result.output().unwrap().structured, Some(json!({"n": 1})));
}

/// A server that deviates from its document is usable without output schemas.
#[tokio::test]
async fn output_schemas_can_be_disabled() {
    let api = Api::start(|_| web::json(200, r#"{"m": null}"#)).await;
    let (_, message) = call_failed(&tools(&api, PATHS), "get", json!({})).await;
    assert!(message.contains("does not fit the tool's output schema"), "{message}");
    let tools = with_options(&api, &OpenApiOptions::default().without_output_schemas());
    call_ok(&tools, "get", json!({})).await;
}

#[tokio::test]
async fn images_are_media() {
    let reply =
        |_: &web::Recorded| (200, vec![("content-type", "image/png".to_owned())], b"\x89PNG".to_vec());
    let api = Api::start(reply).await;
    let result = call_ok(&tools(&api, PATHS), "post", json!({})).await;
    let content = &result.output().unwrap().content;
    assert!(matches!(&content[..], [Content::Image { media_type, .. }] if media_type == "image/png"));
}

/// The model reads the fault, and can correct its arguments.
#[tokio::test]
async fn validation_errors_are_invalid_arguments() {
    let api =
        Api::start(|_| web::json(422, r#"{"detail": [{"loc": ["body", "n"], "msg": "must be positive"}]}"#))
            .await;
    let (kind, message) = call_failed(&tools(&api, PATHS), "post", json!({})).await;
    assert_eq!(kind, FailureKind::InvalidArguments);
    expect![[r#"invalid arguments: HTTP 422 Unprocessable Entity: {"detail": [{"loc": ["body", "n"], "msg": "must be positive"}]}"#]].assert_eq(&message);
}

/// A request that was rejected because of its rate is repeated after the wait of `Retry-After`.
#[tokio::test]
async fn rate_limited_request_is_repeated() {
    let count = AtomicUsize::new(0);
    let api = Api::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => (429, vec![("retry-after", "0".to_owned())], Vec::new()),
        _ => web::json(200, r#"{"n": 2}"#),
    })
    .await;
    call_ok(&tools(&api, PATHS), "post", json!({})).await;
    assert_eq!(api.requests().len(), 3);
}

/// A longer wait than permitted, and status 503 after `POST`, fail the call without a repetition.
#[tokio::test]
async fn rate_limit_without_a_short_wait_fails() {
    for (status, wait) in [(429, "60"), (503, "0")] {
        let api = Api::start(move |_| (status, vec![("retry-after", wait.to_owned())], Vec::new())).await;
        let (kind, message) = call_failed(&tools(&api, PATHS), "post", json!({})).await;
        assert_eq!(kind, FailureKind::Failed);
        assert!(message.ends_with(&format!("; retry after {wait} s")), "{message}");
        assert_eq!(api.requests().len(), 1);
    }
}

/// A lost connection is reported as unconfirmed only if the method is not safe.
#[tokio::test]
async fn lost_connection_leaves_an_effect_unconfirmed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
        }
    });
    let api = Api::ok().await;
    let tools = with_options(&api, &OpenApiOptions::default().with_base_url(&base));
    let (kind, message) = call_failed(&tools, "post", json!({})).await;
    assert_eq!(kind, FailureKind::Unconfirmed, "{message}");
    let (kind, message) = call_failed(&tools, "get", json!({})).await;
    assert_eq!(kind, FailureKind::Failed);
    assert!(message.ends_with("the call can be repeated") && !message.contains(&base), "{message}");
    server.abort();
    let _ = server.await;
    let (kind, message) = call_failed(&tools, "post", json!({})).await;
    assert_eq!(kind, FailureKind::Failed);
    assert!(message.starts_with("the server cannot be reached"), "{message}");
}

#[tokio::test]
async fn silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = OpenApiOptions::default()
        .with_base_url(format!("http://{}", listener.local_addr().unwrap()))
        .with_timeout(Duration::from_millis(50));
    let (kind, _) = call_failed(&with_options(&Api::ok().await, &options), "get", json!({})).await;
    assert_eq!(kind, FailureKind::TimedOut);
}

/// A long body is not kept in memory.
#[tokio::test]
async fn responses_are_bounded() {
    let api = Api::start(|_| web::json(200, Value::from("x".repeat(2000)))).await;
    let tools = with_options(&api, &OpenApiOptions::default().with_max_response_bytes(1000));
    let (_, message) = call_failed(&tools, "get", json!({})).await;
    expect!["the response is longer than 1000 bytes"].assert_eq(&message);
    let (_, message) = call_failed(&tools, "post", json!({})).await;
    expect!["the call did run, but the response is longer than 1000 bytes"].assert_eq(&message);
    let api = Api::start(|_| (200, vec![("content-encoding", "gzip".to_owned())], vec![0x1f, 0x8b])).await;
    let (_, message) = call_failed(&tools_of(&api), "get", json!({})).await;
    assert!(message.contains("gzip"), "{message}");
}

fn tools_of(api: &Api) -> Toolset {
    tools(api, PATHS)
}

/// A redirect within the server is followed. A redirect of a `POST` that changes it to a `GET` is
/// not: the server has executed the request.
#[tokio::test]
async fn redirects_stay_within_the_server() {
    let api = Api::start(|request| match request.line.as_str() {
        "GET /a" => (301, vec![("location", "/b".to_owned())], Vec::new()),
        "POST /a" => (307, vec![("location", "/c".to_owned())], Vec::new()),
        "POST /c" => (303, vec![("location", "/b".to_owned())], Vec::new()),
        _ => web::json(200, r#"{"n": 1}"#),
    })
    .await;
    call_ok(&tools_of(&api), "get", json!({})).await;
    let (kind, message) = call_failed(&tools_of(&api), "post", json!({})).await;
    assert_eq!(kind, FailureKind::Unconfirmed);
    assert!(message.ends_with("HTTP 303 See Other, location: /b"), "{message}");
    let lines: Vec<_> = api.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines, ["GET /a", "GET /b", "POST /a", "POST /c"]);
    let looping = Api::start(|_| (307, vec![("location", "/a".to_owned())], Vec::new())).await;
    let (_, message) = call_failed(&tools_of(&looping), "get", json!({})).await;
    assert_eq!(message, "the server redirects too often");
}

#[tokio::test]
async fn empty_response_has_its_status() {
    let api = Api::start(|_| (201, vec![("location", "/a/7".to_owned())], Vec::new())).await;
    let result = call(&tools(&api, PATHS), "post", json!({})).await;
    assert_eq!(result.model_text(), "HTTP 201 Created, location: /a/7");
}

/// The reply of a server, with its status, its media type (empty without one) and its body.
fn reply(status: u16, media_type: &str, body: &[u8]) -> web::Reply {
    let headers = [("content-type", media_type), ("location", "/a/7")].into_iter();
    let headers =
        headers.filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.to_owned()));
    (status, headers.collect(), body.to_vec())
}

/// Operations with the method of their path, whose success has a schema.
fn documented(method: &str, responses: &str) -> String {
    format!("  /a:\n    {method}:\n      operationId: op\n      responses: {responses}\n")
}

/// The JSON content with a required member `n`.
const COUNT: &str = "{description: A count., content: {application/json: {schema: {type: object, required: [n], properties: {n: {type: integer}}}}}}";

/// Calls the operation and checks that the structured content of a success matches the output
/// schema that the client of a served tool has.
async fn outcome(paths: &str, reply: web::Reply) -> String {
    let api = Api::start(move |_| reply.clone()).await;
    let tools = tools(&api, paths);
    let list = tools.list(&haft_core::toolset::ListContext::default()).await;
    let result = call(&tools, "op", json!({})).await;
    let Some(output) = result.output() else { return format!("error: {}", result.model_text()) };
    if let Some(schema) = list.get("op").unwrap().definition().output_schema() {
        let structured = output.structured.as_ref().unwrap();
        assert_eq!(schema.validate(structured), Ok(()));
    }
    let structured = output.structured.as_ref().map(ToString::to_string).unwrap_or_default();
    let warnings: String = result.warnings.iter().map(|warning| format!(" | {warning}")).collect();
    format!("{} | {structured}{warnings}", output.text())
}

/// A call that worked must not look failed: a model would repeat it.
#[tokio::test]
async fn success_without_a_body_is_a_success() {
    let mut outcomes = String::new();
    for method in ["get", "post", "put", "patch", "delete", "head"] {
        for (status, media_type, body) in [
            (200, "", ""),
            (200, "application/json", ""),
            (200, "application/json", " \r\n"),
            (200, "application/json", "\u{feff}\n"),
            (201, "", ""),
            (202, "application/json; charset=utf-8", ""),
            (204, "", ""),
            (205, "", ""),
        ] {
            for responses in [
                format!("{{'200': {COUNT}}}"),
                format!("{{'200': {COUNT}, '204': {{description: Gone.}}}}"),
                format!("{{2XX: {COUNT}}}"),
                format!("{{default: {COUNT}}}"),
            ] {
                let text =
                    outcome(&documented(method, &responses), reply(status, media_type, body.as_bytes()))
                        .await;
                assert!(
                    text.starts_with(&format!("HTTP {status} ")) && text.contains(", location: /a/7"),
                    "{method} {text}"
                );
            }
        }
    }
    for method in ["get", "post"] {
        let text = outcome(&documented(method, &format!("{{'200': {COUNT}}}")), reply(304, "", b"")).await;
        outcomes.push_str(&format!("{text}\n"));
    }
    expect![[r#"
        HTTP 304 Not Modified, location: /a/7 | {"http_status":304,"location":"/a/7"}
        error: unconfirmed, it may or may not have happened: HTTP 304 Not Modified, location: /a/7
    "#]]
    .assert_eq(&outcomes);
}

/// The schema of a documented response is for replies with its status and a body.
#[tokio::test]
async fn schema_is_for_its_status() {
    let mut outcomes = String::new();
    let only_200 = format!("{{'200': {COUNT}}}");
    let two = format!(
        "{{'200': {COUNT}, '202': {{description: Later., content: {{application/json: {{schema: {{type: array}}}}}}}}}}"
    );
    let range = format!("{{2xx: {COUNT}, '203': {{description: None.}}}}");
    let errors = format!("{{'201': {{description: Made.}}, default: {COUNT}}}");
    let fallback = format!("{{'404': {{description: None.}}, default: {COUNT}}}");
    for (responses, status, media_type, body) in [
        (&only_200, 200, "application/json", "{\"n\": 1}"),
        (&only_200, 200, "application/json", "\u{feff}{\"n\": 1}"),
        (&only_200, 200, "text/html; charset=utf-8", "{\"n\": 1}"),
        (&only_200, 200, "text/plain", "\u{feff}{\"n\": 1}"),
        (&only_200, 200, "application/octet-stream", "{\"n\": 1}"),
        (&only_200, 200, "", "{\"n\": 1}"),
        (&only_200, 200, "application/json", "{\"n\": \"\u{202e}x\"}"),
        (&only_200, 200, "application/json", "[1]"),
        (&only_200, 200, "application/json", "null"),
        (&only_200, 200, "application/json", "<html>"),
        (&only_200, 200, "text/html", "{\"m\": 1}"),
        (&only_200, 200, "text/plain", "OK"),
        (&only_200, 200, "", "OK"),
        (&only_200, 200, "image/png", "PNG"),
        (&only_200, 201, "application/json", "{\"job\": 1}"),
        (&only_200, 202, "text/plain", "queued"),
        (&two, 200, "application/json", "[]"),
        (&two, 202, "application/json", "[]"),
        (&two, 202, "application/json", "{\"n\": 1}"),
        (&range, 206, "application/json", "[]"),
        (&range, 203, "application/json", "[]"),
        (&errors, 201, "application/json", "[]"),
        (&errors, 200, "application/json", "[]"),
        (&fallback, 200, "application/json", "[]"),
    ] {
        let text = outcome(&documented("post", responses), reply(status, media_type, body.as_bytes())).await;
        outcomes.push_str(&format!("{status} {media_type} {body:?}\n  {text}\n"));
    }
    expect![[r#"
        200 application/json "{\"n\": 1}"
          {"n":1} | {"n":1}
        200 application/json "\u{feff}{\"n\": 1}"
          {"n":1} | {"n":1}
        200 text/html; charset=utf-8 "{\"n\": 1}"
          {"n":1} | {"n":1}
        200 text/plain "\u{feff}{\"n\": 1}"
          {"n":1} | {"n":1}
        200 application/octet-stream "{\"n\": 1}"
          {"n":1} | {"n":1}
        200  "{\"n\": 1}"
          {"n":1} | {"n":1}
        200 application/json "{\"n\": \"\u{202e}x\"}"
          error: the call did run, but its result does not fit the tool's output schema: /n: expected integer, received string "x"
        200 application/json "[1]"
          error: the call did run, but its result does not fit the tool's output schema: /: expected object, received array [1]
        200 application/json "null"
          error: the call did run, but its result does not fit the tool's output schema: /: expected object, received null
        200 application/json "<html>"
          error: the call did run, but its result does not fit the tool's output schema: the response is not valid JSON: expected value at line 1 column 1
        200 text/html "{\"m\": 1}"
          error: the call did run, but its result does not fit the tool's output schema: /: missing required property "n" (integer)
        200 text/plain "OK"
          OK | {"http_status":200,"location":"/a/7"} | the document describes JSON, but the response has the type text/plain
        200  "OK"
          OK | {"http_status":200,"location":"/a/7"} | the document describes JSON, but the response is not JSON
        200 image/png "PNG"
          [image/png, 3 bytes] | {"http_status":200,"location":"/a/7"} | the document describes JSON, but the response has the type image/png
        201 application/json "{\"job\": 1}"
          {"job":1} | {"http_status":201,"location":"/a/7","body":{"job":1}}
        202 text/plain "queued"
          queued | {"http_status":202,"location":"/a/7"}
        200 application/json "[]"
          error: the call did run, but its result does not fit the tool's output schema: /: expected object, received array []
        202 application/json "[]"
          [] | []
        202 application/json "{\"n\": 1}"
          error: the call did run, but its result does not fit the tool's output schema: /: expected array, received object {"n":1}
        206 application/json "[]"
          error: the call did run, but its result does not fit the tool's output schema: /: expected object, received array []
        203 application/json "[]"
          [] | {"http_status":203,"location":"/a/7","body":[]}
        201 application/json "[]"
          [] | []
        200 application/json "[]"
          [] | []
        200 application/json "[]"
          error: the call did run, but its result does not fit the tool's output schema: /: expected object, received array []
    "#]].assert_eq(&outcomes);
}

/// A compressed body is never shown as text, and each request forbids it.
#[tokio::test]
async fn compression_is_forbidden_and_named() {
    for (status, coding) in [(200, "gzip"), (201, "deflate"), (404, "br"), (500, "x-gzip, identity")] {
        let api = Api::start(move |request| {
            assert_eq!(request.header("accept-encoding"), "identity");
            (status, vec![("content-encoding", coding.to_owned())], b"\x1f\x8b\x08 binary".to_vec())
        })
        .await;
        let (_, message) = call_failed(&tools_of(&api), "post", json!({})).await;
        let name = coding.split(',').next().unwrap();
        assert!(
            message.contains(&format!("content coding {name}, although the request forbids it")),
            "{message}"
        );
        assert!(!message.contains("binary"), "{message}");
        let error =
            haft_openapi::OpenApiSource::fetch("a", &api.url, &OpenApiOptions::default()).await.unwrap_err();
        assert!(status >= 400 || error.to_string().contains(name), "{error}");
        assert_eq!(api.requests().len(), 2);
    }
    // The header of a body that is not there means nothing.
    let api = Api::start(|_| (204, vec![("content-encoding", "gzip".to_owned())], Vec::new())).await;
    assert_eq!(call_ok(&tools_of(&api), "post", json!({})).await.model_text(), "HTTP 204 No Content");
}

/// A number that would be rounded is kept in the text of the result.
#[tokio::test]
async fn numbers_of_results_are_not_rounded() {
    let text = outcome(
        &documented("get", &format!("{{'200': {COUNT}}}")),
        reply(200, "application/json", b"{\"n\": 123456789012345678901234, \"m\": 18446744073709551615}"),
    )
    .await;
    expect![[r#"{"n": 123456789012345678901234, "m": 18446744073709551615} | {"http_status":200,"location":"/a/7"} | the response is text, because the number 123456789012345678901234 cannot be represented exactly as data"#]].assert_eq(&text);
}
