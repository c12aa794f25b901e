//! Measured HTTP requests and event streams.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::MatchedPath,
    http::{Method, header},
    response::Response,
};
use http_body::{Frame, SizeHint};
use opentelemetry::KeyValue;

use super::{InProgressGuard, Metrics, OTHER};

/// The methods of the semantic conventions. Another one is `_OTHER`, so that a client cannot add
/// series.
static METHODS: [Method; 9] = [
    Method::CONNECT,
    Method::DELETE,
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::PATCH,
    Method::POST,
    Method::PUT,
    Method::TRACE,
];

impl Metrics {
    /// Measures a request from its head to the end of the response body.
    pub(crate) fn measure_request(&self, route: &MatchedPath, method: &Method) -> MeasuredRequest {
        let method = METHODS.iter().find(|known| *known == method).map_or(OTHER, Method::as_str);
        let attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route.as_str().to_owned()),
        ];
        MeasuredRequest { metrics: self.clone(), attributes, started: Instant::now(), status: None }
    }
}

impl MeasuredRequest {
    /// Returns `response` with a body that ends the measurement.
    pub(crate) fn respond(mut self, response: Response) -> Response {
        self.status = Some(response.status().as_u16());
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let is_stream = content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
        let reader = is_stream.then(|| self.metrics.0.event_readers.add_one());
        response.map(|body| Body::new(MeasuredBody { body, _request: self, _reader: reader }))
    }
}

/// A request in progress. It is recorded when it is dropped.
pub(crate) struct MeasuredRequest {
    metrics: Metrics,
    attributes: Vec<KeyValue>,
    started: Instant,
    /// `None` until there is a response.
    status: Option<u16>,
}

impl Drop for MeasuredRequest {
    fn drop(&mut self) {
        let outcome = match self.status {
            Some(status) => KeyValue::new("http.response.status_code", i64::from(status)),
            None => KeyValue::new("error.type", "cancelled"),
        };
        self.attributes.push(outcome);
        self.metrics.0.request_duration.record(self.started.elapsed().as_secs_f64(), &self.attributes);
    }
}

/// The body of a response. The request ends when it is dropped.
struct MeasuredBody {
    body: Body,
    _request: MeasuredRequest,
    _reader: Option<InProgressGuard>,
}

impl HttpBody for MeasuredBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
