//! Connections that are used again.

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

/// Answers each request on a connection by a stream, of which the end is a piece of its own.
async fn answer(mut socket: TcpStream) {
    socket.set_nodelay(true).unwrap();
    while read_request(&mut socket).await.is_some() {
        let events =
            [delta(json!({"content": "Hi"})), finish("stop")].map(|event| format!("data: {event}\n\n"));
        let events = events.concat() + "data: [DONE]\n\n";
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let body = format!("{head}{:x}\r\n{events}\r\n", events.len());
        for bytes in [body.as_bytes(), b"0\r\n\r\n"] {
            socket.write_all(bytes).await.unwrap();
            // The client reads what there is before there is more.
            tokio::task::yield_now().await;
        }
    }
}

/// A connection for each step of an agent would cost more than the step.
#[tokio::test]
async fn one_connection_carries_stream_after_stream() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asking = tokio::spawn(async move {
        let model = ChatCompletions::builder("m").base_url(base_url).build().unwrap();
        for _ in 0..5 {
            let events: Vec<_> = model.stream(&hello()).try_collect().await.unwrap();
            assert_eq!(events.len(), 2);
            // Between two requests there is always something to do, such as to take the connection back.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        model
    });
    let (mut connections, mut answering) = (0, JoinSet::new());
    let accepting = async {
        loop {
            answering.spawn(answer(listener.accept().await.unwrap().0));
            connections += 1;
        }
    };
    tokio::select! {
        () = accepting => {}
        model = asking => drop(model.unwrap()),
    }
    assert_eq!(connections, 1);
}
