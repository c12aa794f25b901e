//! The way to the server and back.
//!
//! async-openai puts the request together and sends it. Its reply is taken over beneath, before it is read there:
//! async-openai drops the status of errors whose body is foreign, reads replies without a bound, and passes streams
//! through a channel without a bound that cannot tell `[DONE]` from a lost connection.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use async_openai::{Client, config::Config, error::OpenAIError, middleware::HttpRequestFactory};
use haft_core::{ModelError, TimeoutPhase};
use reqwest::{
    Response,
    header::{HeaderMap, LOCATION, RETRY_AFTER},
};
use serde::Serialize;
use tower::service_fn;

use super::{
    Api,
    clock::Clock,
    endpoint::Endpoint,
    reply::{Reply, root_cause},
};
use crate::failure::Complaint;

/// async-openai, by which requests are put together.
pub(super) type OpenAi = Client<Arc<dyn Config>>;

/// Carries requests to one server.
pub(super) struct Transport {
    endpoint: Arc<Endpoint>,
    openai: OpenAi,
    http: reqwest::Client,
}

impl Transport {
    pub(super) fn new(endpoint: Endpoint, http: reqwest::Client) -> Self {
        let endpoint = Arc::new(endpoint);
        let openai = Client::build(http.clone(), endpoint.clone() as Arc<dyn Config>);
        Self { endpoint, openai, http }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Sends a request and waits for the head of a reply that says that it went well.
    pub(super) async fn send<A: Api>(
        &self,
        body: impl Serialize + Send + Sync,
        clock: &Clock,
    ) -> Result<Reply, ModelError> {
        let exchange = self.exchange::<A>(body);
        let response = clock.wait(TimeoutPhase::FirstByte, exchange).await?;
        let response = response.map_err(|error| self.unreachable(error, clock))?;
        let reply = Reply::new(response, clock.clone());
        if reply.status().is_success() {
            return Ok(reply);
        }
        Err(self.refusal(reply, A::PATH).await)
    }

    /// Lets async-openai make the request and send it, and takes the reply out of its hands.
    async fn exchange<A: Api>(&self, body: impl Serialize + Send + Sync) -> Result<Response, OpenAIError> {
        let taken = Arc::new(Mutex::new(None));
        let (http, slot) = (self.http.clone(), taken.clone());
        let service = service_fn(move |request: HttpRequestFactory| {
            let (http, slot) = (http.clone(), slot.clone());
            async move {
                let response = http.execute(request.build().await?).await?;
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
                Ok::<_, OpenAIError>(Response::from(http::Response::new("null")))
            }
        });
        let openai = self.openai.clone().with_http_service(service);
        A::send(&openai, body).await?;
        let response = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        response.ok_or_else(|| OpenAIError::InvalidArgument("the request was not sent".into()))
    }

    /// What a status that is no success means.
    async fn refusal(&self, mut reply: Reply, path: &str) -> ModelError {
        let status = reply.status().as_u16();
        let retry_after = retry_after(reply.headers());
        let location = reply.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let mut complaint = match location {
            Some(location) => Complaint::of_body(&format!("it has moved to {location}")),
            // The status is known and decides: what breaks while the body is read matters no more.
            None => Complaint::of_body(&String::from_utf8_lossy(&reply.beginning().await)),
        };
        if status == 404 {
            complaint.ask_about(&self.endpoint.url(path));
        }
        complaint.into_error(status, retry_after)
    }

    fn unreachable(&self, error: OpenAIError, clock: &Clock) -> ModelError {
        match error {
            OpenAIError::Reqwest(error) if error.is_timeout() && error.is_connect() => {
                clock.connect_timed_out()
            }
            OpenAIError::Reqwest(error) => {
                // The address in it may hold credentials.
                let error = error.without_url();
                let (endpoint, reason) = (self.endpoint.address().to_owned(), root_cause(&error));
                ModelError::Unreachable { endpoint, reason, source: Some(error.into()) }
            }
            other => ModelError::failed(other),
        }
    }
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
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}
