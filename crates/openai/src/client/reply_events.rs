use std::{
    mem::replace,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::{
    future::{BoxFuture, FutureExt as _},
    stream::Stream,
};
use haft_core::model::{ChatEvent, ModelError};
use tracing::Span;

use super::{endpoint::Endpoint, record, reply_stream::ReplyStream};
use crate::reply::Streamed;

/// The events of a reply as they come, from the request on, within a span that is told the end of them. Nothing of them is secret.
pub(super) struct ReplyEvents<'a, F> {
    state: State<'a, F>,
    span: Span,
    endpoint: &'a Endpoint,
}

/// In boxes, since it is handed on with each wait.
enum State<'a, F> {
    /// More of it is waited for.
    Waits(BoxFuture<'a, Result<Box<ReplyStream<F>>, ModelError>>),
    /// Some of it has come.
    Here(Box<ReplyStream<F>>),
    Over,
}

impl<'a, F: Streamed + 'a> ReplyEvents<'a, F> {
    /// Begins to wait for the first event.
    pub(super) fn new(
        opening: BoxFuture<'a, Result<Box<ReplyStream<F>>, ModelError>>,
        span: Span,
        endpoint: &'a Endpoint,
    ) -> Self {
        Self { state: State::Waits(opening), span, endpoint }
    }
}

impl<'a, F: Streamed + 'a> State<'a, F> {
    /// Waits for more than has come.
    fn wait(&mut self) {
        if let Self::Here(mut reply) = replace(self, Self::Over) {
            *self = Self::Waits(Box::pin(async move { reply.fill().await.map(|()| reply) }));
        }
    }
}

/// Also what ends with it ends within the span.
impl<F> Drop for ReplyEvents<'_, F> {
    fn drop(&mut self) {
        let state = replace(&mut self.state, State::Over);
        self.span.in_scope(|| drop(state));
    }
}

impl<'a, F: Streamed + 'a> Stream for ReplyEvents<'a, F> {
    type Item = Result<ChatEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Self { state, span, endpoint } = &mut *self;
            match state {
                State::Waits(more) => {
                    let more = ready!(span.in_scope(|| more.poll_unpin(cx)));
                    *state = State::Over;
                    match more {
                        Ok(reply) => *state = State::Here(reply),
                        Err(error) => return Poll::Ready(Some(Err(endpoint.redact(error)))),
                    }
                }
                State::Here(reply) => match reply.heard() {
                    Ok(Some(event)) => {
                        if let ChatEvent::Finished(response) = &event {
                            record(span, response);
                        }
                        return Poll::Ready(Some(Ok(event)));
                    }
                    Ok(None) if reply.is_told() => *state = State::Over,
                    Ok(None) => state.wait(),
                    Err(error) => {
                        *state = State::Over;
                        return Poll::Ready(Some(Err(endpoint.redact(error))));
                    }
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }
}
