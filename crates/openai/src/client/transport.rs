//! The way to the server and back.
//!
//! async-openai puts the request together and sends it. Its reply is taken over beneath, before it is read there:
//! async-openai drops the status of errors whose body is foreign, reads replies without a bound, and passes streams
//! through a channel without a bound that cannot tell `[DONE]` from a lost connection.

#[cfg(test)]
mod tests;

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
use tokio::time::timeout;
use tower::service_fn;

use super::{clock::Clock, profile::Server, request::Body};
use crate::failure::Complaint;

/// How much of the body of an error is read.
const ERROR_BYTES: usize = 64 << 10;

/// How long is waited for it. The status is there already.
const ERROR_WAIT: Duration = Duration::from_secs(5);

/// Where a server is, and what it is told with each request.
pub(super) struct Endpoint {
    pub(super) base_url: String,
    /// The address without credentials, for messages.
    pub(super) address: String,
    pub(super) server: Server,
    pub(super) key: SecretString,
    pub(super) headers: HeaderMap,
}

impl Endpoint {
    /// Takes out what a server repeats of what is secret.
    fn redact(&self, text: String) -> String {
        let headers = self.headers.values().filter_map(|value| value.to_str().ok());
        let secrets = headers.chain([self.key.expose_secret()]).filter(|secret| !secret.is_empty());
        secrets.fold(text, |text, secret| text.replace(secret, "[secret]"))
    }
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
    pub(super) async fn send(&self, body: &Body<'_>, clock: &Clock) -> Result<Reply, ModelError> {
        let exchange = self.exchange(body);
        let response = clock.wait(TimeoutPhase::FirstByte, exchange).await?;
        let response = response.map_err(|error| self.unreachable(error, clock))?;
        let reply = Reply::new(response, body.is_streaming());
        if reply.response.status().is_success() {
            return Ok(reply);
        }
        Err(self.refusal(reply).await)
    }

    /// Lets async-openai make the request and send it, and takes the reply out of its hands.
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
    async fn refusal(&self, mut reply: Reply) -> ModelError {
        let status = reply.response.status().as_u16();
        let retry_after = retry_after(reply.response.headers());
        let location = reply.response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let body = match location {
            Some(location) => format!("it has moved to {location}"),
            // The status is known and decides: what breaks while the body is read matters no more.
            None => String::from_utf8_lossy(&reply.beginning().await).into_owned(),
        };
        Complaint::of_body(&self.endpoint.redact(body)).into_error(status, retry_after)
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

/// A reply of which the head has come.
pub(super) struct Reply {
    response: Response,
    is_event_stream: bool,
}

impl Reply {
    fn new(response: Response, asked_to_stream: bool) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        let is_json = content_type.contains("json");
        let is_event_stream = content_type.contains("event-stream") || (asked_to_stream && !is_json);
        Self { response, is_event_stream }
    }

    /// Whether the server streams. Some do unasked, some do not although they were asked.
    pub(super) fn is_event_stream(&self) -> bool {
        self.is_event_stream
    }

    /// The next bytes; `None` at the end. An error says why there are no more.
    pub(super) async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, String> {
        self.response.chunk().await.map_err(|error| root_cause(&error.without_url()))
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

    /// The first bytes of an error, as many as come soon.
    async fn beginning(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(bytes)) = self.chunk().await {
                body.extend_from_slice(bytes.as_ref());
                if body.len() > ERROR_BYTES {
                    break;
                }
            }
        };
        // What came until then is enough.
        let _ = timeout(ERROR_WAIT, reading).await;
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
