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

/// A long body is not kept in memory, and a compressed one is not decompressed.
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
    assert!(message.contains("compressed"), "{message}");
    assert_eq!(api.take_request().header("accept-encoding"), "");
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
