use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

/// The error of a [`LimitedBody`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than permitted.
    #[error("the body is too long")]
    TooLong,
    /// The body did not arrive in time.
    #[error("the body did not arrive in time")]
    TimedOut,
    /// The connection failed.
    #[error("the body cannot be read")]
    Failed,
}

/// The body of a request behind [`Access`](super::Access). It fails if it is longer than
/// [`max_body_bytes`](super::AccessConfig::max_body_bytes), or if it does not arrive within
/// [`body_timeout`](super::AccessConfig::body_timeout). The time begins when the service reads the
/// body.
///
/// After an error, the response to the request is the [rejection](super::Rejection::Body) of the
/// body, whatever the service returns.
#[derive(Debug)]
pub struct LimitedBody<B> {
    body: Pin<Box<B>>,
    left: usize,
    max_time: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
    failure: Arc<OnceLock<BodyError>>,
}

impl<B: Body> LimitedBody<B> {
    /// Limits `body`. An error is also stored in `failure`.
    pub(super) fn new(
        body: B,
        max_bytes: usize,
        max_time: Duration,
        failure: Arc<OnceLock<BodyError>>,
    ) -> Self {
        Self { body: Box::pin(body), left: max_bytes, max_time, deadline: None, failure }
    }

    fn poll_limited(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BodyError>>> {
        let is_too_long = |length: u64| usize::try_from(length).map_or(true, |length| length > self.left);
        if is_too_long(self.body.size_hint().lower()) {
            return Poll::Ready(Some(Err(BodyError::TooLong)));
        }
        // The first poll comes before the timer is made: most bodies have arrived by then.
        let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) else {
            let max_time = self.max_time;
            ready!(self.deadline.get_or_insert_with(|| Box::pin(sleep(max_time))).as_mut().poll(cx));
            return Poll::Ready(Some(Err(BodyError::TimedOut)));
        };
        let Some(frame) = frame else { return Poll::Ready(None) };
        let Ok(frame) = frame else { return Poll::Ready(Some(Err(BodyError::Failed))) };
        // Frames without data are trailers.
        let length = frame.data_ref().map_or(0, Buf::remaining);
        match self.left.checked_sub(length) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Some(Err(BodyError::TooLong))),
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

impl<B: Body> Body for LimitedBody<B> {
    type Data = B::Data;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BodyError>>> {
        if let Some(failure) = self.failure.get() {
            return Poll::Ready(Some(Err(*failure)));
        }
        let frame = ready!(self.poll_limited(cx));
        if let Some(Err(error)) = &frame {
            self.failure.get_or_init(|| *error);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
