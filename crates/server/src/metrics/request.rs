//! Measured HTTP requests and event streams.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{Method, header},
    middleware::Next,
    response::Response,
};
use http_body::{Frame, SizeHint};
use opentelemetry::KeyValue;

use super::{InProgressGuard, Metrics, OTHER};

/// The methods of the semantic conventions. Another one is `_OTHER`, so that a client cannot add
/// series.
const METHODS: [Method; 9] = [
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

/// A middleware that measures each request of a route, from its head to the end of the response
/// body.
pub(crate) async fn measure_request(
    State(metrics): State<Metrics>,
    route: MatchedPath,
    request: Request,
    next: Next,
) -> Response {
    let method = METHODS.iter().find(|method| *method == request.method()).map_or(OTHER, Method::as_str);
    let attributes = vec![
        KeyValue::new("http.request.method", method.to_owned()),
        KeyValue::new("http.route", route.as_str().to_owned()),
    ];
    let mut measured = MeasuredRequest { metrics, attributes, started: Instant::now(), status: None };
    let response = next.run(request).await;
    measured.status = Some(response.status().as_u16());
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_stream = content_type.is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let reader = is_stream.then(|| measured.metrics.0.event_readers.add_one());
    response.map(|body| Body::new(MeasuredBody { body, _request: measured, _reader: reader }))
}

/// A request in progress. It is recorded when it is dropped.
struct MeasuredRequest {
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
