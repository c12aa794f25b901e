//! An HTTP API in the process, which records its requests.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, task::JoinSet};

/// A request that the API received.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The method, the path and the query: `GET /pets?limit=1`.
    pub(crate) line: String,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Recorded {
    /// Returns the value of the header `name`. Empty without this header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Returns the request line, the headers `shown` and the body.
    pub(crate) fn describe(&self, shown: &[&str]) -> String {
        let mut text = format!("{}\n", self.line);
        for name in shown.iter().filter(|name| !self.header(name).is_empty()) {
            text.push_str(&format!("{name}: {}\n", self.header(name)));
        }
        text.push_str(&String::from_utf8_lossy(&self.body));
        text
    }
}

/// A response of the API: the status, the headers and the body.
pub(crate) type Reply = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// Returns a response with a JSON body.
pub(crate) fn json(status: u16, body: impl ToString) -> Reply {
    (status, vec![("content-type", "application/json".to_owned())], body.to_string().into_bytes())
}

/// A running API. Dropping it closes its socket and its connections.
pub(crate) struct Api {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Recorded>>>,
    _tasks: JoinSet<()>,
}

impl Api {
    /// Starts an API on a free port of the loopback interface. `respond` returns the response to a
    /// request.
    pub(crate) async fn start(respond: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Recorded>>> = Arc::default();
        let (recorded, respond) = (Arc::clone(&requests), Arc::new(respond));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (recorded, respond) = (Arc::clone(&recorded), Arc::clone(&respond));
                let service = service_fn(move |request| {
                    let (recorded, respond) = (Arc::clone(&recorded), Arc::clone(&respond));
                    async move {
                        let request = record(request).await;
                        recorded.lock().unwrap().push(request.clone());
                        Ok::<_, Infallible>(build(respond(&request)))
                    }
                });
                connections.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url, requests, _tasks: tasks }
    }

    /// Starts an API that responds with status 200 and `{"ok": true}`.
    pub(crate) async fn ok() -> Self {
        Self::start(|_| json(200, r#"{"ok":true}"#)).await
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the only request so far, and forgets it.
    pub(crate) fn take_request(&self) -> Recorded {
        let mut requests = std::mem::take(&mut *self.requests.lock().unwrap());
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }
}

async fn record(request: Request<Incoming>) -> Recorded {
    let (head, body) = request.into_parts();
    let line = format!("{} {}", head.method, head.uri);
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    Recorded { line, headers, body }
}

fn build((status, headers, body): Reply) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Full::new(body.into())).unwrap()
}
