//! The way to the server and back.
//!
//! async-openai puts the request together and sends it. Its reply is taken over beneath, before it is read there:
//! async-openai drops the status of errors whose body is foreign, reads replies without a bound, and passes streams
//! through a channel without a bound that cannot tell `[DONE]` from a lost connection.

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use async_openai::{Client, config::Config, error::OpenAIError, middleware::HttpRequestFactory};
use haft_core::{ModelError, TimeoutPhase, limits::LINE_BYTES};
use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Serialize, de::IgnoredAny};
use tower::service_fn;

use super::{clock::Clock, profile::Server};
use crate::failure::Complaint;

/// How much of the body of an error is read.
const ERROR_BYTES: usize = 64 << 10;

/// Where a server is, and what it is told with each request.
pub(super) struct Endpoint {
    pub(super) base_url: String,
    /// The address without credentials, for messages.
    pub(super) address: String,
    pub(super) server: Server,
    pub(super) key: SecretString,
    pub(super) headers: HeaderMap,
}

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        &self.base_url
    }

    fn api_key(&self) -> &SecretString {
        &self.key
    }
}

/// Carries requests to one server.
pub(super) struct Transport {
    endpoint: Arc<Endpoint>,
    openai: Client<Arc<dyn Config>>,
    http: reqwest::Client,
}

impl Transport {
    pub(super) fn new(endpoint: Endpoint, http: reqwest::Client) -> Self {
        let endpoint = Arc::new(endpoint);
        let openai = Client::build(http.clone(), endpoint.clone() as Arc<dyn Config>);
        Self { endpoint, openai, http }
    }

    pub(super) fn server(&self) -> Server {
        self.endpoint.server
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint.address
    }

    /// Sends a request and waits for the head of a reply that says that it went well.
    pub(super) async fn send(&self, body: &impl Serialize, clock: &Clock) -> Result<Reply, ModelError> {
        let exchange = self.exchange(body);
        let response = clock.wait(TimeoutPhase::FirstByte, exchange).await?;
        let response = response.map_err(|error| self.unreachable(error, clock))?;
        if response.status().is_success() {
            return Ok(Reply(response));
        }
        Err(self.refusal(Reply(response), clock).await)
    }

    async fn exchange(&self, body: &impl Serialize) -> Result<Response, OpenAIError> {
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
        openai.chat().create_byot::<_, IgnoredAny>(body).await?;
        let response = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        response.ok_or_else(|| OpenAIError::InvalidArgument("the request was not sent".into()))
    }

    /// What a status that is no success means.
    async fn refusal(&self, mut reply: Reply, clock: &Clock) -> ModelError {
        let status = reply.0.status().as_u16();
        let retry_after = retry_after(reply.0.headers());
        let location = reply.0.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let complaint = match location {
            Some(location) => Complaint::of_body(format!("it has moved to {location}").as_bytes()),
            // The status is known and decides: what breaks while the body is read matters no more.
            None => Complaint::of_body(&reply.beginning(ERROR_BYTES, clock).await),
        };
        complaint.without(self.endpoint.key.expose_secret()).into_error(status, retry_after)
    }

    fn unreachable(&self, error: OpenAIError, clock: &Clock) -> ModelError {
        match error {
            OpenAIError::Reqwest(error) if error.is_timeout() && error.is_connect() => {
                clock.connect_timed_out()
            }
            OpenAIError::Reqwest(error) => {
                // The address in it may hold credentials.
                let error = error.without_url();
                let (endpoint, reason) = (self.endpoint.address.clone(), root_cause(&error));
                ModelError::Unreachable { endpoint, reason, source: Some(error.into()) }
            }
            other => ModelError::failed(other),
        }
    }
}

/// A reply whose status says that it is one.
pub(super) struct Reply(Response);

impl Reply {
    /// Whether the server streams, whatever it was asked for.
    pub(super) fn is_event_stream(&self) -> bool {
        let content_type = self.0.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        content_type
            .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    }

    /// The next bytes; `None` at the end. An error says why there are no more.
    pub(super) async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, String> {
        self.0.chunk().await.map_err(|error| root_cause(&error.without_url()))
    }

    /// All bytes, of a reply that does not stream.
    pub(super) async fn body(&mut self, clock: &Clock) -> Result<Vec<u8>, ModelError> {
        let mut body = Vec::new();
        loop {
            match clock.wait(TimeoutPhase::Idle, self.chunk()).await? {
                Ok(Some(bytes)) => body.extend_from_slice(bytes.as_ref()),
                Ok(None) => return Ok(body),
                Err(reason) => return Err(ModelError::Truncated { reason, partial: Box::default() }),
            }
            if body.len() > LINE_BYTES {
                return Err(ModelError::InvalidResponse(format!("it is longer than {LINE_BYTES} bytes")));
            }
        }
    }

    /// The first bytes, as many as come.
    async fn beginning(&mut self, limit: usize, clock: &Clock) -> Vec<u8> {
        let mut body = Vec::new();
        while body.len() < limit {
            match clock.wait(TimeoutPhase::Idle, self.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(bytes.as_ref()),
                _ => break,
            }
        }
        body
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

/// The lowest error of a chain, which says what happened: those above say only where.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}
