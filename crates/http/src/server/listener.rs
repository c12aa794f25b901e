use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt as _;
use haft_core::call::BoxError;
use http::{HeaderValue, Request, Response, StatusCode, header::CONNECTION};
use http_body::Body;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service;

use super::{ClientAddress, ClientKey, ClientSlots, write_deadline::WriteDeadline};

/// The maximum time from the end of a response, or from the connection, to the end of the headers
/// of the next request. An idle connection is closed after this time. A client that sends a request
/// at that moment gets an error, so the time must not be short. A client without a token can hold
/// the permit of a connection for this time, so it must not be long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time without progress of a response, for a client that does not read it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time after the end of the server in which connections are closed by the response to their
/// next request. A client that sends a request on an idle connection while it is closed would lose
/// the request.
const CLOSING_TIME: Duration = Duration::from_millis(250);
/// The time for requests in progress to finish after the end of the server.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The pause after a failed `accept`, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The default maximum number of open connections.
const MAX_CONNECTIONS: usize = 1024;
/// The default maximum number of open connections of an address.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 256;

/// A response with one of these statuses closes its connection: a client without a token must not
/// keep it.
const CLOSING: [StatusCode; 3] =
    [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];

/// The limits of the connections of [`serve`].
///
/// # Examples
///
/// ```
/// use haft_http::server::ListenerConfig;
///
/// // Behind a reverse proxy, all connections have its address.
/// let config = ListenerConfig::default().with_max_connections_per_address(1024);
/// assert_eq!(config.max_connections, 1024);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerConfig {
    /// The maximum number of open connections, at least 1. Further clients wait until a connection
    /// is closed. Default: 1,024.
    pub max_connections: usize,
    /// The maximum number of open connections of an address, at least 1. Further connections are
    /// closed at once, so that one client cannot use the connections of the others. IPv6 addresses
    /// are grouped by /64 prefix. Behind a reverse proxy, all connections have its address: set it
    /// to `max_connections`. Default: 256.
    pub max_connections_per_address: usize,
}

impl Default for ListenerConfig {
    fn default() -> Self {
        Self { max_connections: MAX_CONNECTIONS, max_connections_per_address: MAX_CONNECTIONS_PER_ADDRESS }
    }
}

impl ListenerConfig {
    /// Sets the maximum number of open connections.
    #[must_use]
    pub fn with_max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Sets the maximum number of open connections of an address.
    #[must_use]
    pub fn with_max_connections_per_address(mut self, connections: usize) -> Self {
        self.max_connections_per_address = connections;
        self
    }
}

/// Serves `service` over HTTP/1.1 at `listener` until `shutdown` completes.
///
/// Each request has the [`ClientAddress`] of its connection as an extension. A client has 30
/// seconds to send the headers of a request, and an idle connection is closed after this time, as
/// is that of a client that does not read a response for 30 seconds. A response with status 401,
/// 403 or 429 closes its connection.
///
/// The service is an `axum::Router`, for example, or an [`Access`](super::Access) around one.
///
/// # Shutdown
///
/// After `shutdown` completes, no further connection is accepted, and each response closes its
/// connection. After 250 ms, idle connections are closed, and requests in progress have five
/// seconds to finish. Then `close` is called, once, to end the requests that wait for something,
/// such as streams of events. After another five seconds, the connections are closed. `close` is
/// called also if no request is left.
///
/// # Errors
///
/// Fails if the address of `listener` is not available. A failure of a single connection is no
/// error.
///
/// # Cancellation
///
/// Dropping the future closes the listener and all connections. `close` is not called.
pub async fn serve<S, R>(
    service: S,
    listener: TcpListener,
    config: &ListenerConfig,
    shutdown: impl Future<Output = ()> + Send,
    close: impl FnOnce() + Send,
) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let address = listener.local_addr()?;
    tracing::info!(%address, "serving HTTP");
    let mut connections = Connections {
        service,
        permits: Arc::new(Semaphore::new(config.max_connections.clamp(1, Semaphore::MAX_PERMITS))),
        per_address: ClientSlots::new(config.max_connections_per_address.max(1)),
        graceful: GracefulShutdown::new(),
        is_closing: Arc::default(),
        tasks: JoinSet::new(),
    };
    let mut shutdown = pin!(shutdown);
    loop {
        let next = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&connections.permits).acquire_owned().await;
            (listener.accept().await, permit.ok())
        };
        let (accepted, permit) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, peer)) => connections.serve(stream, peer, permit),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.is_closing.store(true, Ordering::Relaxed);
    // These clients have connected before the end, and may have sent a request.
    while let Some(Ok((stream, peer))) = listener.accept().now_or_never() {
        let Ok(permit) = Arc::clone(&connections.permits).try_acquire_owned() else { break };
        connections.serve(stream, peer, Some(permit));
    }
    drop(listener);
    let Connections { graceful, mut tasks, .. } = connections;
    let _ = timeout(CLOSING_TIME, async { while tasks.join_next().await.is_some() {} }).await;
    let mut drained = pin!(graceful.shutdown());
    let is_drained = timeout(SHUTDOWN_GRACE, &mut drained).await.is_ok();
    close();
    if !is_drained {
        let _ = timeout(SHUTDOWN_GRACE, drained).await;
    }
    Ok(())
}

/// The open connections.
struct Connections<S> {
    service: S,
    permits: Arc<Semaphore>,
    per_address: ClientSlots,
    graceful: GracefulShutdown,
    /// `true` after the end of the server: each response closes its connection.
    is_closing: Arc<AtomicBool>,
    /// Dropping the set closes the connections.
    tasks: JoinSet<()>,
}

impl<S> Connections<S> {
    /// Serves a connection on a task.
    fn serve<R>(&mut self, stream: TcpStream, peer: SocketAddr, permit: Option<OwnedSemaphorePermit>)
    where
        S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        R: Body<Data = Bytes> + Send + 'static,
        R::Error: Into<BoxError>,
    {
        let Some(slot) = self.per_address.acquire(ClientKey::new(None, Some(ClientAddress(peer.ip()))))
        else {
            tracing::debug!(address = %peer.ip(), "too many connections of a client");
            return;
        };
        let (service, is_closing) = (self.service.clone(), Arc::clone(&self.is_closing));
        let handle =
            service_fn(move |request| respond(service.clone(), request, peer.ip(), Arc::clone(&is_closing)));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(WriteDeadline::new(stream, WRITE_TIMEOUT)), handle);
        let connection = self.graceful.watch(connection);
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection failed");
            }
            drop((permit, slot));
        });
    }
}

async fn respond<S, R>(
    mut service: S,
    mut request: Request<Incoming>,
    address: IpAddr,
    is_closing: Arc<AtomicBool>,
) -> Result<Response<R>, Infallible>
where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
{
    request.extensions_mut().insert(ClientAddress(address));
    poll_fn(|cx| service.poll_ready(cx)).await?;
    let mut response = service.call(request).await?;
    if CLOSING.contains(&response.status()) || is_closing.load(Ordering::Relaxed) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
