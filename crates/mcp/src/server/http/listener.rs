use std::{
    convert::Infallible,
    future::{Ready, ready},
    io,
    task::{Context, Poll},
};

use ::http::{HeaderValue, Request, Response, StatusCode, header::CONNECTION};
use futures::future::BoxFuture;
use haft_http::server::{self, Access, LimitedBody, ResponseBody, text_response};
use http_body::Body;
use rmcp::ServerHandler;
use tokio::net::TcpListener;
use tower_layer::Layer as _;
use tower_service::Service;

use super::McpService;

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";

/// Serves `service` at the path `/mcp` of `listener` until `shutdown` completes.
///
/// Also serves the metadata of a [protected resource](crate::authorization). A client has 30
/// seconds to send the headers of a request, and an idle connection is closed after this time, as
/// is that of a client that does not read a response for 30 seconds. A response with status 401,
/// 403, 404 or 429 closes its connection. The other [limits](crate::HttpServiceConfig#limits) are
/// in the configuration of the service.
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
    let config = service.listener_config().clone();
    let public = service.access_layer().without_authentication();
    let routes = Routes { service: service.clone(), not_found: public.layer(NotFound) };
    // The event streams of sessions are open until the sessions end.
    server::serve(routes, listener, &config, shutdown, move || service.close()).await
}

/// The service at [`PATH`] and at the paths of metadata. Other paths do not exist.
struct Routes<H> {
    service: McpService<H>,
    /// Counts the requests for other paths.
    not_found: Access<NotFound>,
}

/// Responds with status 404.
#[derive(Clone)]
struct NotFound;

impl<H> Clone for Routes<H> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), not_found: self.not_found.clone() }
    }
}

impl<H, B> Service<Request<B>> for Routes<H>
where
    H: ServerHandler,
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let is_metadata =
            self.service.access_layer().resource().is_some_and(|resource| resource.is_metadata_path(path));
        let response = match path.trim_end_matches('/') == PATH || is_metadata {
            true => self.service.call(request),
            false => self.not_found.call(request),
        };
        Box::pin(async move {
            let mut response = response.await?;
            // A client without a token must not keep its connection.
            if response.status() == StatusCode::NOT_FOUND {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

impl<B> Service<Request<LimitedBody<B>>> for NotFound {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _request: Request<LimitedBody<B>>) -> Self::Future {
        ready(Ok(text_response(StatusCode::NOT_FOUND, "the MCP endpoint is /mcp\n")))
    }
}
