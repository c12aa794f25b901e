use haft_core::model::ModelError;
use serde::Serialize;

use super::{HttpReply, RequestError, RequestTimer, RetryPolicy, Timeouts, transport::Transport};

/// A connection to the server of a model, created by
/// [`HttpOptions::connect`](super::HttpOptions::connect).
pub struct Connection {
    transport: Transport,
    retry: RetryPolicy,
    timeouts: Timeouts,
}

impl Connection {
    pub(super) fn new(transport: Transport, retry: RetryPolicy, timeouts: Timeouts) -> Self {
        Self { transport, retry, timeouts }
    }

    /// Returns the scheme, host and port of the server.
    pub fn address(&self) -> &str {
        self.transport.endpoint().address()
    }

    #[cfg(test)]
    pub(super) fn endpoint(&self) -> &super::endpoint::Endpoint {
        self.transport.endpoint()
    }

    /// Starts the timer of a model request.
    pub fn start_timer(&self) -> RequestTimer {
        RequestTimer::start(&self.timeouts)
    }

    /// Sends `body` as JSON to `path`, relative to the base URL, and waits for the head of a
    /// successful response. `path` can have a query.
    ///
    /// # Errors
    ///
    /// Fails with the error of the server, redacted, or if the server cannot be reached in time. The
    /// request is not repeated: see [`with_retries`](Self::with_retries).
    pub async fn post(
        &self,
        path: &str,
        body: impl Serialize + Send,
        timer: &RequestTimer,
    ) -> Result<HttpReply, RequestError> {
        self.post_with_headers(path, &[], body, timer).await
    }

    /// Sends `body` as [`post`](Self::post), with `headers`, which replace headers of the same name.
    /// A header with an invalid value is not sent.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    pub async fn post_with_headers(
        &self,
        path: &str,
        headers: &[(&'static str, String)],
        body: impl Serialize + Send,
        timer: &RequestTimer,
    ) -> Result<HttpReply, RequestError> {
        self.transport.send(path, headers, body, &timer.for_attempt()).await
    }

    /// Runs `attempt`, and repeats it after a transient error. Secrets in errors are redacted.
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt.
    pub async fn with_retries<T, F>(
        &self,
        timer: &RequestTimer,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, ModelError>
    where
        F: Future<Output = Result<T, ModelError>> + Send,
    {
        // The future is boxed, because `retry` would otherwise copy a large future.
        let attempt = || {
            let reply = Box::pin(attempt());
            async move { reply.await.map_err(|error| self.redact(error)) }
        };
        self.retry.run(timer, attempt).await
    }

    /// Redacts the API key and other secrets in the text of `error`.
    pub fn redact(&self, error: ModelError) -> ModelError {
        self.transport.endpoint().redact(error)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.address()).finish_non_exhaustive()
    }
}
