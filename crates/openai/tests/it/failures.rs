//! Servers that refuse, fail, or cannot be reached.

use std::time::Duration;

use futures::TryStreamExt as _;
use haft_core::{ChatModel as _, ChatResponse, ModelError, TimeoutPhase, Value, json};
use haft_openai::{ChatCompletions, Timeouts};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, timeout},
};

use crate::server::{STREAM, Server, Step, chunks, header, hello, ok, reply, stream};

fn fine() -> Vec<u8> {
    ok(&json!({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}))
}

async fn refused_with(status: &str, body: &str) -> (ModelError, usize) {
    let refusal = reply(status, "", body);
    let server = Server::replying([refusal.clone(), refusal.clone(), refusal]).await;
    let model = server.builder().max_retries(2).api_key("sk-secret").build().unwrap();
    let error = model.chat(&hello()).await.unwrap_err();
    (error, server.take_requests().len())
}

/// FAULTS M1: waits at least as long as the server asks for. (The policy itself is tested where time is paused.)
#[tokio::test]
async fn too_many_requests_are_tried_again_when_the_server_says() {
    let busy = reply("429 Too Many Requests", "retry-after: 0.2\r\n", r#"{"error":{"message":"slow down"}}"#);
    let server = Server::replying([busy.clone(), busy, fine()]).await;
    let started = Instant::now();
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
    assert!(started.elapsed() >= Duration::from_millis(400));
    assert_eq!(server.take_requests().len(), 3);
}

/// An overloaded server says when to come back, too.
#[tokio::test]
async fn every_failure_may_say_when_to_come_back() {
    let busy = |status| reply(status, "retry-after: 30\r\n", "");
    for status in ["503 Service Unavailable", "529 Overloaded", "500 Internal Server Error", "408 Timeout"] {
        let server = Server::replying([busy(status)]).await;
        let model = server.builder().max_retries(0).build().unwrap();
        let error = model.chat(&hello()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(30)), "{error:?}");
    }
}

/// A wait that no clock can hold ends the attempts, not the program.
#[tokio::test]
async fn an_absurd_wait_is_no_panic() {
    let busy = reply("429 Too Many Requests", "retry-after: 18000000000000000000\r\n", "");
    let server = Server::replying([busy]).await;
    let error = server.model().chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::RateLimited { .. }), "{error:?}");
}

/// FAULTS M2: the status decides, whatever the body is made of.
#[tokio::test]
async fn a_foreign_body_does_not_hide_the_status() {
    for body in
        ["slow down", "<html>429</html>", r#"{"error":{"message":"slow","code":429}}"#, "", r#"["x"]"#]
    {
        let server =
            Server::replying([reply("429 Too Many Requests", "retry-after-ms: 1\r\n", body), fine()]).await;
        assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi", "after {body:?}");
    }
}

/// FAULTS M3: one request, and no key in the error.
#[tokio::test]
async fn what_cannot_pass_is_not_tried_again() {
    let quota = json!({"error": {"message": "pay", "code": "insufficient_quota"}}).to_string();
    let (error, requests) = refused_with("429 Too Many Requests", &quota).await;
    assert!(matches!(error, ModelError::RateLimited { permanent: true, .. }), "{error:?}");
    assert_eq!(requests, 1);

    for (status, code) in [("400 Bad Request", 400), ("404 Not Found", 404)] {
        let (error, requests) = refused_with(status, "no").await;
        assert!(matches!(error, ModelError::Rejected { status, .. } if status == code), "{error:?}");
        assert_eq!(requests, 1);
    }
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let (error, requests) = refused_with(status, "not with sk-secret, Bearer sk-secret").await;
        assert!(matches!(error, ModelError::Unauthorized(_)), "{error:?}");
        assert_eq!(requests, 1);
        assert!(!format!("{error} {error:?}").contains("sk-secret"), "{error}");
    }
}

/// FAULTS M4: the error carries the status, and at most 1 kB of the body.
#[tokio::test]
async fn a_failing_server_is_tried_again_and_then_told_of() {
    for (status, code) in
        [("500 Internal Server Error", 500), ("502 Bad Gateway", 502), ("503 Service Unavailable", 503)]
    {
        let page = format!("<html>{}</html>", "ü".repeat(5000));
        let (error, requests) = refused_with(status, &page).await;
        let ModelError::Server { status: Some(status), body, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*status, requests), (code, 3));
        assert!(body.starts_with("<html>ü") && body.len() <= 1024, "{} bytes", body.len());
    }
}

/// FAULTS M4: a reset before the head of the reply.
#[tokio::test]
async fn a_reset_before_the_reply_is_tried_again() {
    let server = Server::start([vec![Step::Reset], vec![Step::Send(fine())]]).await;
    assert_eq!(server.model().chat(&hello()).await.unwrap().message.text(), "Hi");
}

/// FAULTS M4: nobody listens.
#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model =
        ChatCompletions::builder("m").base_url(format!("http://user:pass@{address}/v1")).max_retries(0);
    let error = model.build().unwrap().chat(&hello()).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(
        text.starts_with(&format!("the model's server at http://{address} cannot be reached: ")),
        "{text}"
    );
    assert!(!format!("{error:?}").contains("pass"), "{error:?}");
}

async fn timed_out(script: Vec<Step>, timeouts: Timeouts) -> TimeoutPhase {
    let server = Server::start([script]).await;
    let model = server.builder().timeouts(timeouts).build().unwrap();
    match model.chat(&hello()).await {
        Err(ModelError::TimedOut { phase, .. }) => phase,
        other => panic!("{other:?}"),
    }
}

/// FAULTS M5: a connection that is not accepted. The queue of a listener is full, and more callers are not answered.
#[tokio::test]
async fn connecting_ends() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(Ok(waiting)) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        queue.push(waiting);
    }
    let short = Timeouts::default().with_connect(Duration::from_millis(50));
    let model =
        ChatCompletions::builder("m").base_url(format!("http://{address}")).timeouts(short).build().unwrap();
    let error = model.chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::TimedOut { phase: TimeoutPhase::Connect, .. }), "{error:?}");
}

/// FAULTS M5: each wait is its own error.
#[tokio::test]
async fn every_wait_ends() {
    let short = Duration::from_millis(50);
    let silent = timed_out(vec![Step::Stall], Timeouts::default().with_first_byte(short)).await;
    assert_eq!(silent, TimeoutPhase::FirstByte);

    let head = vec![Step::Send(STREAM.into()), Step::Stall];
    let first_byte = timed_out(head, Timeouts::default().with_first_byte(short)).await;
    assert_eq!(first_byte, TimeoutPhase::FirstByte, "a head is no byte of the reply");

    let begun = || vec![Step::Send(STREAM.into()), Step::Send(b": ping\n\n".into()), Step::Stall];
    assert_eq!(timed_out(begun(), Timeouts::default().with_idle(short)).await, TimeoutPhase::Idle);
    assert_eq!(timed_out(begun(), Timeouts::default().with_total(short)).await, TimeoutPhase::Total);
}

/// FAULTS M5: a reply that always goes on and never comes ends as a whole.
#[tokio::test]
async fn a_steady_drip_ends() {
    let drip = Step::Drip(b": ping\n\n", Duration::from_millis(10));
    let short = Timeouts::default().with_total(Duration::from_millis(200));
    assert_eq!(timed_out(vec![Step::Send(STREAM.into()), drip], short).await, TimeoutPhase::Total);
}

/// FAULTS M5, M12: nothing of a call that stands still is given out as a whole.
#[tokio::test]
async fn a_stall_inside_a_call_ends() {
    let call = json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}});
    let half = chunks([&json!({"choices": [{"delta": {"tool_calls": [call]}}]})]);
    let short = Timeouts::default().with_idle(Duration::from_millis(50));
    assert_eq!(timed_out(vec![Step::Send(half), Step::Stall], short).await, TimeoutPhase::Idle);
}

/// A server that sends its head at once thinks after it: that is no silence within a reply.
#[tokio::test]
async fn the_first_byte_is_waited_for_longer_than_the_next() {
    let chunk =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n".to_vec();
    let thinking = Step::Pause(Duration::from_millis(300));
    let server = Server::start([vec![Step::Send(STREAM.into()), thinking, Step::Send(chunk)]]).await;
    let short = Timeouts::default().with_idle(Duration::from_millis(50));
    let model = server.builder().timeouts(short).build().unwrap();
    assert_eq!(model.chat(&hello()).await.unwrap().message.text(), "Hi");
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_apart() {
    let openai = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    let llama = json!({"error": {"message": "too long", "code": 400, "type": "exceed_context_size_error"}});
    let vllm = json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400});
    for body in [openai, llama, vllm] {
        let (error, requests) = refused_with("400 Bad Request", &body.to_string()).await;
        assert!(matches!(error, ModelError::ContextTooLong(_)), "{error:?}");
        assert_eq!(requests, 1);
    }
}

/// A redirect would make the POST a GET, or take the key to another host.
#[tokio::test]
async fn a_redirect_is_not_followed_but_told() {
    let moved = reply("301 Moved Permanently", "location: https://example.com/v1\r\n", "");
    let server = Server::replying([moved]).await;
    let error = server.model().chat(&hello()).await.unwrap_err();
    assert!(error.to_string().contains("https://example.com/v1"), "{error}");
}

/// FAULTS X3.
#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let server = Server::replying([fine()]).await;
    let builder = server.builder().api_key("sk-secret\n").header("x-team", "sk-other");
    let shown = format!("{builder:?}");
    let model = builder.build().unwrap();
    let shown = format!("{shown} {model:?}");
    let _: ChatResponse = model.chat(&hello()).await.unwrap();
    let head = server.take_requests().remove(0).head;
    assert_eq!(header(&head, "authorization"), Some("Bearer sk-secret"));
    assert_eq!(header(&head, "x-team"), Some("sk-other"));
    assert!(!shown.contains("sk-"), "{shown}");
}

/// FAULTS X3: what a server repeats with status 200, in a body or in the middle of a stream.
#[tokio::test]
async fn a_key_that_a_reply_repeats_is_not_shown() {
    let said = "Incorrect API key provided: sk-secret-1";
    let error = json!({"error": {"message": said}});
    let page = reply("200 OK", "", &format!("<html>{}Bearer sk-secret-1</html>", "x".repeat(970)));
    let text = json!({"choices": [{"delta": {"content": "Hi"}}]});
    for sent in [ok(&error), page, stream([&error]), stream([&text, &error])] {
        let server = Server::replying([sent.clone(), sent]).await;
        let model = server.builder().api_key("sk-secret-1").max_retries(0).build().unwrap();
        let whole = model.chat(&hello()).await.unwrap_err();
        let streamed = model.stream(&hello()).try_collect::<Vec<_>>().await.unwrap_err();
        let shown = format!("{whole} {whole:?} {streamed} {streamed:?}");
        assert!(shown.contains("[secret]") && !shown.contains("sk-secret"), "{shown}");
    }
}

/// A header that is not secret does not damage what the server says.
#[tokio::test]
async fn a_short_header_value_stays_in_an_error() {
    let busy = json!({"error": {"message": "slow down 4 times", "code": 429}});
    let server = Server::replying([ok(&busy)]).await;
    let model = server.builder().header("x-tier", "4").max_retries(0).build().unwrap();
    let error = model.chat(&hello()).await.unwrap_err();
    assert!(
        matches!(&error, ModelError::RateLimited { message, .. } if message == "slow down 4 times"),
        "{error:?}"
    );
}

/// What cannot pass is not tried again, although the status was 200: Gemini's list, and a code beside a text.
#[tokio::test]
async fn an_error_with_status_200_may_be_permanent() {
    let list = json!([{"error": {"code": 400, "message": "Bad tool", "status": "INVALID_ARGUMENT"}}]);
    let text = json!({"error": "pay", "code": "insufficient_quota"});
    let word = json!({"error": {"message": "no such key", "code": "invalid_api_key"}});
    for body in [&list, &text, &word] {
        for sent in [ok(body), stream([body])] {
            let server = Server::replying([sent.clone(), sent]).await;
            let error = server.model().chat(&hello()).await.unwrap_err();
            assert!(!error.is_transient(), "{error:?}");
            assert_eq!(server.take_requests().len(), 1, "{error:?}");
        }
    }
}

/// Azure wants its version in the query.
#[tokio::test]
async fn a_query_of_the_base_url_is_sent() {
    let server = Server::replying([fine()]).await;
    let base_url = format!("{}?api-version=preview", server.base_url);
    server.builder().base_url(base_url).build().unwrap().chat(&hello()).await.unwrap();
    let head = server.take_requests().remove(0).head;
    assert!(head.starts_with("POST /v1/chat/completions?api-version=preview HTTP/1.1"), "{head}");
}

#[tokio::test]
async fn credentials_of_the_base_url_are_sent() {
    let server = Server::replying([fine()]).await;
    let base_url = server.base_url.replace("http://", "http://me:secret@");
    server.builder().base_url(base_url).build().unwrap().chat(&hello()).await.unwrap();
    let head = server.take_requests().remove(0).head;
    assert_eq!(header(&head, "authorization"), Some("Basic bWU6c2VjcmV0"));
}

/// The usual mistake in a base URL.
#[tokio::test]
async fn where_nothing_is_found_the_address_is_named() {
    let missing = reply("404 Not Found", "", "Not Found");
    let server = Server::replying([missing.clone(), missing]).await;
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
async fn without_a_key_none_is_sent() {
    let server = Server::replying([fine()]).await;
    server.model().chat(&hello()).await.unwrap();
    let request = server.take_requests().remove(0);
    assert_eq!(header(&request.head, "authorization"), None);
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", request.head);
    assert_ne!(request.body, Value::Null);
}
