//! Transmission of HTTP requests with `reqwest`, through user-supplied layers.

use std::sync::{Arc, Mutex, PoisonError};

use haft_core::{
    call::BoxError,
    model::{ModelError, ServerError, TimeoutPhase},
};
use reqwest::{
    Request, Response,
    header::{HeaderMap, HeaderValue, LOCATION},
};
use serde::Serialize;
use tower::{Layer, Service, ServiceExt as _, service_fn, util::BoxCloneService};

use super::{HttpReply, RequestError, RequestTimer, endpoint::Endpoint, root_cause};
use crate::client::retry_after;

/// The HTTP service that a user-supplied layer wraps. It sends an HTTP request and returns the
/// response head.
pub type HttpService = BoxCloneService<Request, Response, BoxError>;

/// The initial capacity of the buffer for a request body, in bytes. It is enough for a short
/// conversation.
const BODY_CAPACITY_BYTES: usize = 4096;

/// The user-supplied `tower` layers, innermost first.
#[derive(Clone, Default)]
pub(super) struct Middleware(Vec<Arc<dyn Fn(HttpService) -> HttpService + Send + Sync>>);

impl Middleware {
    pub(super) fn add<L, S>(&mut self, layer: L)
    where
        L: Layer<HttpService, Service = S> + Send + Sync + 'static,
        S: Service<Request, Response = Response> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError> + 'static,
    {
        let around = move |inner| HttpService::new(layer.layer(inner).map_err(Into::into));
        self.0.push(Arc::new(around));
    }

    /// Wraps `http` in all layers. Returns `None` if there are no layers.
    fn wrap(&self, http: &reqwest::Client) -> Option<Arc<Mutex<HttpService>>> {
        let http = http.clone();
        let plain = service_fn(move |request| {
            let http = http.clone();
            async move { Ok(http.execute(request).await?) }
        });
        let service = self.0.iter().fold(HttpService::new(plain), |inner, layer| layer(inner));
        (!self.0.is_empty()).then(|| Arc::new(Mutex::new(service)))
    }
}

/// The HTTP client, endpoint and layers for one server.
pub(super) struct Transport {
    endpoint: Endpoint,
    http: reqwest::Client,
    /// The HTTP client, wrapped in the layers. `None` if there are no layers. The service is cloned
    /// for each request. The lock is needed because an [`HttpService`] is not `Sync`.
    middleware: Option<Arc<Mutex<HttpService>>>,
    /// The end of the message of a 404 error, such as a question about the base URL.
    not_found_hint: fn(&str) -> &'static str,
}

impl Transport {
    pub(super) fn new(
        endpoint: Endpoint,
        http: reqwest::Client,
        middleware: &Middleware,
        not_found_hint: fn(&str) -> &'static str,
    ) -> Self {
        let middleware = middleware.wrap(&http);
        Self { endpoint, http, middleware, not_found_hint }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends `body` as JSON to `path`, with `headers`, and waits for the head of a successful response.
    pub(super) async fn send(
        &self,
        path: &str,
        headers: &[(&'static str, String)],
        body: impl Serialize + Send,
        timer: &RequestTimer,
    ) -> Result<HttpReply, RequestError> {
        let response = timer.run(TimeoutPhase::FirstByte, self.exchange(path, headers, body)).await?;
        let response = response.map_err(|error| self.service_error(error, timer))?;
        let reply = HttpReply::new(response, timer.clone());
        if reply.status().is_success() {
            return Ok(reply);
        }
        // The future of this rare path is boxed, because it would otherwise enlarge the future of
        // every request.
        Err(Box::pin(self.read_rejection(path, reply)).await)
    }

    async fn exchange(
        &self,
        path: &str,
        headers: &[(&'static str, String)],
        body: impl Serialize + Send,
    ) -> Result<Response, BoxError> {
        let mut json = Vec::with_capacity(BODY_CAPACITY_BYTES);
        serde_json::to_writer(&mut json, &body)?;
        let mut request = self.endpoint.build_request(path, json);
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::try_from(value) {
                request.headers_mut().insert(*name, value);
            }
        }
        match &self.middleware {
            Some(around) => {
                let service = around.lock().unwrap_or_else(PoisonError::into_inner).clone();
                service.oneshot(request).await
            }
            None => Ok(self.http.execute(request).await?),
        }
    }

    /// Converts `reply`, an unsuccessful response, to an error. Reads the beginning of the body,
    /// unless the response is a redirect or compressed.
    async fn read_rejection(&self, path: &str, mut reply: HttpReply) -> RequestError {
        let status = reply.status().as_u16();
        let retry_after = retry_after(reply.headers());
        let location = reply.headers().get(LOCATION).filter(|_| reply.status().is_redirection());
        let location = location.and_then(|location| location.to_str().ok());
        let mut error = match (location, reply.compression()) {
            (Some(location), _) => ServerError::parse(&format!("it has moved to {location}")),
            (None, Some(encoding)) => ServerError::parse(&format!("(the body is compressed: {encoding})")),
            // The status already identifies the error, so a failure to read the body is ignored.
            (None, None) => ServerError::parse(&String::from_utf8_lossy(&reply.read_error_body().await)),
        };
        if status == 404 {
            let url = self.endpoint.display_url(path);
            error.prefix_message(&format!("at {url}{}: ", (self.not_found_hint)(&url)));
        }
        error.set_retryable(should_retry(reply.headers()));
        let param = error.param().to_owned();
        RequestError { error: error.into_model_error(Some(status), retry_after), param }
    }

    fn connection_error(&self, error: reqwest::Error, timer: &RequestTimer) -> ModelError {
        if error.is_timeout() && error.is_connect() {
            return timer.connect_timed_out();
        }
        // The URL may contain credentials.
        let error = error.without_url();
        let (endpoint, reason) = (self.endpoint.address().to_owned(), root_cause(&error));
        ModelError::Unreachable { endpoint, reason, source: Some(error.into()) }
    }

    /// Converts `error`, an error of the HTTP client or of a layer, to a [`ModelError`]. The source
    /// of a layer's error is dropped, because it may contain the API key.
    fn service_error(&self, error: BoxError, timer: &RequestTimer) -> ModelError {
        let error = match error.downcast::<reqwest::Error>() {
            Ok(error) => return self.connection_error(*error, timer),
            Err(other) => other,
        };
        match error.downcast::<ModelError>() {
            Ok(error) => *error,
            Err(other) => ModelError::Failed { message: other.to_string(), source: None },
        }
    }
}

/// Returns the value of the header `x-should-retry`, which OpenAI and others send. `None` if it is
/// missing or invalid.
fn should_retry(headers: &HeaderMap) -> Option<bool> {
    headers.get("x-should-retry")?.to_str().ok()?.trim().parse().ok()
}
