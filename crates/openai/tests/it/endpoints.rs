//! Tests of the URLs, keys and headers of requests, and of their redaction.

use futures::TryStreamExt as _;
use haft_core::{
    ChatModel as _,
    model::{ChatResponse, ModelError},
};
use serde_json::{Value, json};

use crate::server::{Server, header, hello, minimal_reply, ok_reply, reply, stream_reply};

/// API keys and other header values are sent with the request, but are not part of the debug
/// output.
#[tokio::test]
async fn key_is_sent_and_redacted_in_debug_output() {
    let server = Server::with_replies([minimal_reply()]).await;
    let builder = server.builder().api_key("sk-secret\n").header("x-team", "sk-other");
    let shown = format!("{builder:?}");
    let model = builder.build().unwrap();
    let shown = format!("{shown} {model:?}");
    let _: ChatResponse = model.chat(&hello()).await.unwrap();
    let head = server.take_requests().remove(0).head;
    assert_eq!(header(&head, "authorization"), Some("Bearer sk-secret"));
    assert_eq!(header(&head, "x-team"), Some("sk-other"));
    assert!(header(&head, "user-agent").unwrap().starts_with("haft/"));
    assert_eq!(header(&head, "accept-encoding"), Some("identity"));
    assert!(!shown.contains("sk-"), "{shown}");
}

/// The API key is redacted if a server echoes it in an error with status 200, in a body or in a
/// stream.
#[tokio::test]
async fn key_in_a_reply_is_redacted() {
    let text = "Incorrect API key provided: sk-secret-1";
    let error = json!({"error": {"message": text}});
    let page = reply("200 OK", "", &format!("<html>{}Bearer sk-secret-1</html>", "x".repeat(970)));
    let text = json!({"choices": [{"delta": {"content": "Hi"}}]});
    for sent in [ok_reply(&error), page, stream_reply([&error]), stream_reply([&text, &error])] {
        let server = Server::with_replies([sent.clone(), sent]).await;
        let model = server.builder().api_key("sk-secret-1").max_retries(0).build().unwrap();
        let whole = model.chat(&hello()).await.unwrap_err();
        let streamed = model.stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
        let shown = format!("{whole} {whole:?} {streamed} {streamed:?}");
        assert!(shown.contains("[secret]") && !shown.contains("sk-secret"), "{shown}");
    }
}

/// Short header values are not redacted, because they may occur by chance in an error message.
#[tokio::test]
async fn short_header_value_is_not_redacted() {
    let busy = json!({"error": {"message": "slow down 4 times", "code": 429}});
    let server = Server::with_replies([ok_reply(&busy)]).await;
    let model = server.builder().header("x-tier", "4").max_retries(0).build().unwrap();
    let error = model.chat(&hello()).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::RateLimited { message, .. } if message == "slow down 4 times"),
        "{error:?}"
    );
}

/// The query of the base URL is sent with each request, because Azure requires the API version in
/// the query.
#[tokio::test]
async fn query_of_the_base_url_is_sent() {
    let server = Server::with_replies([minimal_reply()]).await;
    let base_url = format!("{}?api-version=preview", server.base_url);
    server.builder().base_url(base_url).build().unwrap().chat(&hello()).await.unwrap();
    let head = server.take_requests().remove(0).head;
    assert!(head.starts_with("POST /v1/chat/completions?api-version=preview HTTP/1.1"), "{head}");
}

#[tokio::test]
async fn credentials_of_the_base_url_are_sent_as_a_header() {
    let server = Server::with_replies([minimal_reply()]).await;
    let base_url = server.base_url.replace("http://", "http://me:secret@");
    server.builder().base_url(base_url).build().unwrap().chat(&hello()).await.unwrap();
    let head = server.take_requests().remove(0).head;
    assert_eq!(header(&head, "authorization"), Some("Basic bWU6c2VjcmV0"));
}

/// A 404 error contains the URL, because a missing `/v1` in the base URL is a common mistake.
#[tokio::test]
async fn error_404_names_the_url() {
    let missing = reply("404 Not Found", "", "Not Found");
    let server = Server::with_replies([missing.clone(), missing]).await;
    let address = server.base_url.trim_end_matches("/v1");
    let short = server.builder().base_url(address.replace("http://", "http://me:secret@")).build().unwrap();
    assert_eq!(
        short.chat(&hello()).await.unwrap_err().to_string(),
        format!(
            "the model's server refused the request (status 404): at {address}/chat/completions \
             (should the base URL end in /v1?): Not Found"
        )
    );
    let error = server.model().chat(&hello()).await.unwrap_err().to_string();
    assert!(error.ends_with(&format!("at {address}/v1/chat/completions: Not Found")), "{error}");
}

#[tokio::test]
async fn no_authorization_is_sent_without_a_key() {
    let server = Server::with_replies([minimal_reply()]).await;
    server.model().chat(&hello()).await.unwrap();
    let request = server.take_requests().remove(0);
    assert_eq!(header(&request.head, "authorization"), None);
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", request.head);
    assert_ne!(request.body, Value::Null);
}
