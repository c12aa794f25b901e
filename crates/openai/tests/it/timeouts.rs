//! Tests of the timeout of each phase of a request.

use std::time::Duration;

use haft_core::{
    ChatModel as _,
    model::{ModelError, TimeoutPhase},
};
use haft_openai::{ChatCompletions, Timeouts};
use serde_json::json;
use tokio::{
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::server::{STREAM, Server, Step, chunks_reply, hello};

async fn timed_out(script: Vec<Step>, timeouts: Timeouts) -> TimeoutPhase {
    let server = Server::start([script]).await;
    let model = server.builder().timeouts(timeouts).build().unwrap();
    match model.chat(&hello()).await {
        Err(ModelError::TimedOut { phase, .. }) => phase,
        other => panic!("{other:?}"),
    }
}

/// Establishing a connection has a timeout.
///
/// The test connects to a listener with a full backlog, because the kernel never establishes such a
/// connection.
#[tokio::test]
async fn connecting_times_out() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(Ok(connection)) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        queue.push(connection);
    }
    let short = Timeouts::default().with_connect(Duration::from_millis(50));
    let model =
        ChatCompletions::builder("m").base_url(format!("http://{address}")).timeouts(short).build().unwrap();
    let error = model.chat(&hello()).await.unwrap_err();
    assert!(matches!(error, ModelError::TimedOut { phase: TimeoutPhase::Connect, .. }), "{error:?}");
}

/// Each phase of a request has its own timeout.
#[tokio::test]
async fn every_phase_times_out() {
    let short = Duration::from_millis(50);
    let no_response = timed_out(vec![Step::Stall], Timeouts::default().with_first_byte(short)).await;
    assert_eq!(no_response, TimeoutPhase::FirstByte);

    let head = vec![Step::Send(STREAM.into()), Step::Stall];
    let first_byte = timed_out(head, Timeouts::default().with_first_byte(short)).await;
    assert_eq!(first_byte, TimeoutPhase::FirstByte, "the head is not a part of the body");

    let begun = || vec![Step::Send(STREAM.into()), Step::Send(b": ping\n\n".into()), Step::Stall];
    assert_eq!(timed_out(begun(), Timeouts::default().with_idle(short)).await, TimeoutPhase::Idle);
    assert_eq!(timed_out(begun(), Timeouts::default().with_total(short)).await, TimeoutPhase::Total);
}

/// Keep-alive comments reset the idle timeout, but not the total timeout.
#[tokio::test]
async fn endless_keep_alive_times_out() {
    let drip = Step::Drip(b": ping\n\n", Duration::from_millis(10));
    let short = Timeouts::default().with_total(Duration::from_millis(200));
    assert_eq!(timed_out(vec![Step::Send(STREAM.into()), drip], short).await, TimeoutPhase::Total);
}

/// If the server stalls inside a call, the request times out, and the call is not returned.
#[tokio::test]
async fn stall_inside_a_call_times_out() {
    let call = json!({"index": 0, "id": "a", "function": {"name": "add", "arguments": "{\"x\":"}});
    let half = chunks_reply([&json!({"choices": [{"delta": {"tool_calls": [call]}}]})]);
    let short = Timeouts::default().with_idle(Duration::from_millis(50));
    assert_eq!(timed_out(vec![Step::Send(half), Step::Stall], short).await, TimeoutPhase::Idle);
}

/// The idle timeout starts only after the first byte of the body. Some servers send the response
/// head at once, and process the prompt before the first byte.
#[tokio::test]
async fn idle_timeout_starts_after_the_first_byte() {
    let chunk =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n".to_vec();
    let thinking = Step::Pause(Duration::from_millis(300));
    let server = Server::start([vec![Step::Send(STREAM.into()), thinking, Step::Send(chunk)]]).await;
    let short = Timeouts::default().with_idle(Duration::from_millis(50));
    let model = server.builder().timeouts(short).build().unwrap();
    assert_eq!(model.chat(&hello()).await.unwrap().message.text(), "Hi");
}
