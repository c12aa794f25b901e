use std::{convert::Infallible, io, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use ::http::{HeaderValue, Request, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use rmcp::ServerHandler;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service as _;

use super::{
    ClientAddress, ClientSlots, McpService, ResponseBody, client::ClientKey, write_deadline::WriteDeadline,
};

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";
/// The maximum time from the end of a response, or from the connection, to the end of the headers
/// of the next request. An idle connection is closed after this time. A client that sends a request
/// at that moment gets an error, so the time must not be short. A client without a token can hold
/// the permit of a connection for this time, so it must not be long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time without progress of a response, for a client that does not read it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for calls in progress to finish after the end of the server.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The pause after a failed `accept`, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `service` at the path `/mcp` of `listener` until `shutdown` completes.
///
/// Also serves the metadata of a [protected resource](crate::authorization). A client has 30
/// seconds to send the headers of a request, and an idle connection is closed after this time, as
/// is that of a client that does not read a response for 30 seconds. A response with status 401,
/// 404 or 429 closes its connection. The other [limits](crate::HttpServiceConfig#limits) are in the
/// configuration of the service.
///
/// # Shutdown
///
/// After `shutdown` completes, no connection is accepted, and calls in progress have five seconds
/// to finish before they are cancelled.
///
/// # Errors
///
/// Fails if the address of `listener` is not available. A failure of a single connection is no
/// error.
///
/// # Cancellation
///
/// Dropping the future closes the listener and all connections.
pub async fn serve_http<H: ServerHandler>(
    service: McpService<H>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    tracing::info!(%address, "serving MCP over HTTP");
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(service.max_connections().clamp(1, Semaphore::MAX_PERMITS)));
    let per_address = ClientSlots::new(service.max_connections_per_address().max(1));
    let mut shutdown = pin!(shutdown);
    // Dropping the set closes the connections.
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&permits).acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            next = next => next,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(slot) = per_address.acquire(ClientKey::new(None, Some(ClientAddress(peer.ip())))) else {
            tracing::debug!(address = %peer.ip(), "too many connections of a client");
            continue;
        };
        let service = service.clone();
        let handle = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ClientAddress(peer.ip()));
            respond(service.clone(), request, peer.ip())
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(WriteDeadline::new(stream, WRITE_TIMEOUT)), handle);
        let connection = graceful.watch(connection);
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection failed");
            }
            drop((permit, slot));
        });
    }
    drop(listener);
    let mut drained = pin!(graceful.shutdown());
    if timeout(SHUTDOWN_GRACE, &mut drained).await.is_err() {
        // The event streams of sessions are open until the sessions end.
        service.close();
        let _ = timeout(SHUTDOWN_GRACE, drained).await;
    }
    service.close();
    Ok(())
}

async fn respond<H: ServerHandler>(
    mut service: McpService<H>,
    request: Request<Incoming>,
    address: IpAddr,
) -> Result<::http::Response<ResponseBody>, Infallible> {
    let path = request.uri().path();
    let mut response = match path.trim_end_matches('/') == PATH || service.is_metadata_path(path) {
        true => service.call(request).await?,
        false => service.not_found(ClientAddress(address), "the MCP endpoint is /mcp\n"),
    };
    // A client without a token must not keep its connection.
    let closing = [StatusCode::UNAUTHORIZED, StatusCode::NOT_FOUND, StatusCode::TOO_MANY_REQUESTS];
    if closing.contains(&response.status()) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
