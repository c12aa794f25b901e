use std::{
    mem::replace,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::{
    future::{BoxFuture, FutureExt as _},
    stream::Stream,
};
use haft_core::{ChatEvent, ModelError};
use tracing::Span;

use super::{record, reply_stream::ReplyStream};
use crate::reply::Streamed;

/// The events of a reply as they come, from the request on, within a span that is told the end of them.
pub(super) struct ReplyEvents<'a, F> {
    state: State<'a, F>,
    span: Span,
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
    pub(super) fn new(opening: BoxFuture<'a, Result<Box<ReplyStream<F>>, ModelError>>, span: Span) -> Self {
        Self { state: State::Waits(opening), span }
    }

    /// The next event of what has come; `None` where more is waited for from now on, or nothing is to come.
    fn heard(&mut self) -> Result<Option<ChatEvent>, ModelError> {
        let State::Here(mut reply) = replace(&mut self.state, State::Over) else { return Ok(None) };
        let event = reply.heard()?;
        if let Some(ChatEvent::Finished(response)) = &event {
            record(&self.span, response);
        }
        if event.is_some() {
            self.state = State::Here(reply);
        } else if !reply.is_over() {
            let more = async move { reply.fill().await.map(|()| reply) };
            self.state = State::Waits(more.boxed());
        }
        Ok(event)
    }
}

impl<'a, F: Streamed + 'a> Stream for ReplyEvents<'a, F> {
    type Item = Result<ChatEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Self { state, span } = &mut *self;
            match state {
                State::Waits(more) => {
                    let more = ready!(span.in_scope(|| more.poll_unpin(cx)));
                    *state = State::Over;
                    match more {
                        Ok(reply) => *state = State::Here(reply),
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
                State::Here(_) => {
                    if let Some(event) = self.heard().transpose() {
                        return Poll::Ready(Some(event));
                    }
                }
                State::Over => return Poll::Ready(None),
            }
        }
    }
}
