//! The listener with a router of axum, over loopback connections.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Extension, Router, routing::get};
use haft_core::tool::Principal;
use haft_http::server::{AccessConfig, AccessLayer, ClientAddress, ListenerConfig, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tower::Layer as _;

/// A server at a loopback address.
struct Served {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    is_closed: Arc<AtomicBool>,
    task: JoinHandle<std::io::Result<()>>,
}

async fn start(config: ListenerConfig) -> Served {
    let ann = Principal { id: "ann".to_owned(), ..Principal::default() };
    let access = AccessLayer::new(AccessConfig::default().with_bearer_token("token-a", ann));
    let address = async |Extension(address): Extension<ClientAddress>| address.0.to_string();
    let router = Router::new().route("/address", get(address)).route("/wait", get(pending::<()>));
    let service = access.layer(router);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = Arc::clone(&is_closed);
    let task = tokio::spawn(async move {
        let shutdown = async { drop(stopped.await) };
        serve(service, listener, &config, shutdown, move || closed.store(true, Ordering::Relaxed)).await
    });
    Served { address, stop, is_closed, task }
}

impl Served {
    async fn connect(&self, path: &str, token: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

async fn read_to_end(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let read = timeout(Duration::from_secs(60), stream.read_to_string(&mut text)).await;
    read.unwrap().unwrap();
    text
}

/// The handler gets the address of the connection. An idle connection is closed after 30 seconds.
#[tokio::test(start_paused = true)]
async fn idle_connection_is_closed() {
    let server = start(ListenerConfig::default()).await;
    let started = Instant::now();
    let response = read_to_end(server.connect("/address", "token-a").await).await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("127.0.0.1"), "{response}");
    let elapsed = started.elapsed();
    assert!((30..32).contains(&elapsed.as_secs()), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_token_is_closed() {
    let server = start(ListenerConfig::default()).await;
    let started = Instant::now();
    let response = read_to_end(server.connect("/address", "token-b").await).await;
    assert!(response.starts_with("HTTP/1.1 401") && response.contains("connection: close"), "{response}");
    assert!(started.elapsed() < Duration::from_secs(1));
}

/// One connection more than permitted is closed at once.
#[tokio::test]
async fn connections_of_an_address_are_limited() {
    let server = start(ListenerConfig::default().with_max_connections_per_address(1)).await;
    let mut first = server.connect("/address", "token-a").await;
    first.read_exact(&mut [0; 12]).await.unwrap();
    let mut second = TcpStream::connect(server.address).await.unwrap();
    let read = timeout(Duration::from_secs(5), second.read(&mut [0])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

/// At the end, requests in progress have five seconds, and five more after `close`.
#[tokio::test(start_paused = true)]
async fn shutdown_takes_a_bounded_time() {
    for (path, seconds) in [("/address", 0), ("/wait", 10)] {
        let server = start(ListenerConfig::default()).await;
        let mut stream = server.connect(path, "token-a").await;
        match path {
            "/address" => drop(stream.read_exact(&mut [0; 12]).await.unwrap()),
            // The request arrives before the end.
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        let started = Instant::now();
        server.stop.send(()).unwrap();
        server.task.await.unwrap().unwrap();
        assert!(server.is_closed.load(Ordering::Relaxed));
        let elapsed = started.elapsed();
        assert!((seconds..=seconds + 1).contains(&elapsed.as_secs()), "{path}: {elapsed:?}");
        drop(stream);
    }
}
