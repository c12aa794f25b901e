use std::sync::Arc;

use futures::FutureExt as _;
use serde::Serialize;
use tokio::{
    io::{self, AsyncWrite, AsyncWriteExt as _},
    sync::Mutex,
    task::coop::unconstrained,
};

/// A writer for JSON messages, one per line. Clones write to the same stream.
pub(crate) struct MessageWriter<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for MessageWriter<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> MessageWriter<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self(Arc::new(Mutex::new(Some(stream))))
    }

    /// Serializes `message` immediately. The returned future writes it. Messages are written in the
    /// order of the calls to this method, also if their futures are polled in another order. Until
    /// the future is polled or dropped, later messages wait.
    ///
    /// # Errors
    ///
    /// Fails with `BrokenPipe` after [`close`](Self::close).
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
    ) -> impl Future<Output = io::Result<()>> + Send + use<T, W> {
        let frame = serde_json::to_vec(message);
        // A waiter of the mutex has its place in the queue after the first poll.
        let turn = match Arc::clone(&self.0).try_lock_owned() {
            Ok(stream) => Ok(stream),
            Err(_) => {
                let mut waiter = Box::pin(unconstrained(Arc::clone(&self.0).lock_owned()));
                waiter.as_mut().now_or_never().ok_or(waiter)
            }
        };
        async move {
            let mut frame = frame?;
            frame.push(b'\n');
            let mut stream = match turn {
                Ok(stream) => stream,
                Err(waiter) => waiter.await,
            };
            let Some(open) = &mut *stream else { return Err(io::ErrorKind::BrokenPipe.into()) };
            open.write_all(&frame).await?;
            open.flush().await
        }
    }

    /// Closes the stream. The peer then reads the end of its input.
    pub(crate) async fn close(&self) {
        self.0.lock().await.take();
    }
}
