//! The way to the server and back.
//!
//! async-openai makes the request, once: what changes with each is its body. It is sent beside it, since async-openai drops the
//! status of errors whose body is foreign, reads replies without a bound, and passes streams through a channel without a bound
//! that cannot tell `[DONE]` from a lost connection.

#[cfg(test)]
mod tests;

use std::{
    future::ready,
    pin::pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use async_openai::{Client, config::Config, error::OpenAIError, middleware::HttpRequestFactory};
use haft_core::{
    call::BoxError,
    model::{ModelError, TimeoutPhase},
};
use reqwest::{
    Request, Response,
    header::{HeaderMap, LOCATION, RETRY_AFTER},
};
use serde::Serialize;
use tower::{Layer, Service, ServiceExt as _, service_fn, util::BoxCloneService};

use super::{
    Api,
    clock::Clock,
    endpoint::Endpoint,
    refusals::Refusal,
    reply::{Reply, root_cause},
};
use crate::failure::{Complaint, seconds_of};

/// async-openai, by which requests are put together.
pub(super) type OpenAi = Client<Arc<dyn Config>>;

/// What sends a request and brings the head of its reply; the body is read behind it.
pub type HttpService = BoxCloneService<Request, Response, BoxError>;

/// The layers that a user puts around requests, the innermost first.
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

    /// What requests go through; `None` where there is nothing around them.
    fn around(&self, http: &reqwest::Client) -> Option<Arc<Mutex<HttpService>>> {
        let http = http.clone();
        let plain = service_fn(move |request| {
            let http = http.clone();
            async move { Ok(http.execute(request).await?) }
        });
        let service = self.0.iter().fold(HttpService::new(plain), |inner, layer| layer(inner));
        (!self.0.is_empty()).then(|| Arc::new(Mutex::new(service)))
    }
}

/// Carries requests to one server.
pub(super) struct Transport {
    endpoint: Arc<Endpoint>,
    openai: OpenAi,
    /// What all requests have in common, once there was one.
    blank: OnceLock<Request>,
    http: reqwest::Client,
    /// Cloned for each request, since layers need not be shared between threads.
    middleware: Option<Arc<Mutex<HttpService>>>,
}

impl Transport {
    pub(super) fn new(endpoint: Endpoint, http: reqwest::Client, middleware: Middleware) -> Self {
        let endpoint = Arc::new(endpoint);
        let openai = Client::build(http.clone(), endpoint.clone() as Arc<dyn Config>);
        let middleware = middleware.around(&http);
        Self { endpoint, openai, blank: OnceLock::new(), http, middleware }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request and waits for the head of a reply that says that it went well.
    pub(super) async fn send<A: Api>(
        &self,
        body: impl Serialize + Send,
        clock: &Clock,
    ) -> Result<Reply, Refusal> {
        // Pinned first: what is put around it then moves a pointer, not the state of the exchange.
        let exchange = pin!(self.exchange::<A>(body));
        let response = clock.wait(TimeoutPhase::FirstByte, exchange).await?;
        let response = response.map_err(|error| self.unreachable(error, clock))?;
        let reply = Reply::new(response, clock.clone());
        if reply.status().is_success() {
            return Ok(reply);
        }
        // In a box, as what else is rare: every request would carry the state of it along.
        Err(Box::pin(self.refusal(reply, A::PATH)).await)
    }

    async fn exchange<A: Api>(&self, body: impl Serialize + Send) -> Result<Response, BoxError> {
        let mut request = match self.blank.get() {
            Some(blank) => blank.try_clone(),
            None => {
                let made = Box::pin(self.blank_request::<A>()).await?;
                self.blank.get_or_init(|| made).try_clone()
            }
        }
        .ok_or("a request without a body cannot be copied")?;
        *request.body_mut() = Some(serde_json::to_vec(&body)?.into());
        match &self.middleware {
            Some(around) => {
                let service = around.lock().unwrap_or_else(PoisonError::into_inner).clone();
                service.oneshot(request).await
            }
            None => Ok(self.http.execute(request).await?),
        }
    }

    /// A request without a body. async-openai makes it, and is not let send it.
    async fn blank_request<A: Api>(&self) -> Result<Request, OpenAIError> {
        let made = Arc::new(OnceLock::new());
        let slot = Arc::clone(&made);
        let service = service_fn(move |request: HttpRequestFactory| {
            let _ = slot.set(request);
            ready(Err(OpenAIError::InvalidArgument("it is not sent".to_owned())))
        });
        let unsent = A::send(&self.openai.clone().with_http_service(service)).await;
        let made = made.get().ok_or_else(|| {
            unsent.err().unwrap_or_else(|| OpenAIError::InvalidArgument("it was not made".to_owned()))
        })?;
        let mut request = made.build().await?;
        *request.body_mut() = None;
        Ok(request)
    }

    /// What a status that is no success means.
    async fn refusal(&self, mut reply: Reply, path: &str) -> Refusal {
        let status = reply.status().as_u16();
        let retry_after = retry_after(reply.headers());
        let location = reply.headers().get(LOCATION).filter(|_| reply.status().is_redirection());
        let location = location.and_then(|location| location.to_str().ok());
        let mut complaint = match (location, reply.compression()) {
            (Some(location), _) => Complaint::of_body(&format!("it has moved to {location}")),
            (None, Some(encoding)) => {
                Complaint::of_body(&format!("(what it says is compressed: {encoding})"))
            }
            // The status is known and decides: what breaks while the body is read matters no more.
            (None, None) => Complaint::of_body(&String::from_utf8_lossy(&reply.beginning().await)),
        };
        if status == 404 {
            complaint.ask_about(&self.endpoint.url(path));
        }
        complaint.will_pass(should_retry(reply.headers()));
        let parameter = complaint.take_parameter();
        Refusal { error: complaint.into_error(status, retry_after), parameter }
    }

    fn unsent(&self, error: reqwest::Error, clock: &Clock) -> ModelError {
        if error.is_timeout() && error.is_connect() {
            return clock.connect_timed_out();
        }
        // The address in it may hold credentials.
        let error = error.without_url();
        let (endpoint, reason) = (self.endpoint.address().to_owned(), root_cause(&error));
        ModelError::Unreachable { endpoint, reason, source: Some(error.into()) }
    }

    /// The error of a layer, or of what is below it. A layer's own words are kept, and nothing else of it: it saw the
    /// key.
    fn unreachable(&self, error: BoxError, clock: &Clock) -> ModelError {
        let error = match error.downcast::<OpenAIError>().map(|error| *error) {
            Ok(OpenAIError::Reqwest(error)) => return self.unsent(error, clock),
            Ok(other) => return ModelError::failed(other),
            Err(other) => other,
        };
        let error = match error.downcast::<reqwest::Error>() {
            Ok(error) => return self.unsent(*error, clock),
            Err(other) => other,
        };
        match error.downcast::<ModelError>() {
            Ok(error) => *error,
            Err(other) => ModelError::Failed { message: other.to_string(), source: None },
        }
    }
}

/// What OpenAI and others say of trying again.
fn should_retry(headers: &HeaderMap) -> Option<bool> {
    headers.get("x-should-retry")?.to_str().ok()?.trim().parse().ok()
}

/// How long a server wants us to wait: `Retry-After` in seconds or as a date (RFC 9110, section 10.2.3), or OpenAI's
/// `retry-after-ms`.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = text(RETRY_AFTER.as_str())?;
    match text.parse() {
        Ok(seconds) => seconds_of(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}
