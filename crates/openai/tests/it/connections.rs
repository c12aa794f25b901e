//! Tests of connection reuse.

use futures::TryStreamExt as _;
use haft_core::ChatModel as _;
use haft_openai::ChatCompletions;
use serde_json::json;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::{
    server::{hello, read_request},
    streams::{delta, finish},
};

/// Replies to each request on `socket` with a stream. The final HTTP chunk is sent in a separate
/// write, so the client receives it after `[DONE]`.
async fn serve(mut socket: TcpStream) {
    socket.set_nodelay(true).unwrap();
    while read_request(&mut socket).await.is_some() {
        let events =
            [delta(json!({"content": "Hi"})), finish("stop")].map(|event| format!("data: {event}\n\n"));
        let events = events.concat() + "data: [DONE]\n\n";
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let body = format!("{head}{:x}\r\n{events}\r\n", events.len());
        for bytes in [body.as_bytes(), b"0\r\n\r\n"] {
            socket.write_all(bytes).await.unwrap();
            // Yield, so that the client reads the first write before the second write is sent.
            tokio::task::yield_now().await;
        }
    }
}

/// A connection must be reused, because an agent sends many requests, and a new connection for each
/// request is expensive.
#[tokio::test]
async fn connection_is_reused_after_a_stream() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let client = tokio::spawn(async move {
        let model = ChatCompletions::builder("m").base_url(base_url).build().unwrap();
        for _ in 0..5 {
            let events: Vec<_> = model.stream(&hello()).try_collect().await.unwrap();
            assert_eq!(events.len(), 2);
            // Yield, because a background task of the client must return the connection to the pool
            // before the next request.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        model
    });
    let (mut connections, mut tasks) = (0, JoinSet::new());
    let accepting = async {
        loop {
            tasks.spawn(serve(listener.accept().await.unwrap().0));
            connections += 1;
        }
    };
    tokio::select! {
        () = accepting => {}
        model = client => drop(model.unwrap()),
    }
    assert_eq!(connections, 1);
}
