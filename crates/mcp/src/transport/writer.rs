use std::sync::Arc;

use serde::Serialize;
use tokio::{
    io::{self, AsyncWrite, AsyncWriteExt as _},
    sync::Mutex,
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

    /// Serializes `message` immediately. The returned future writes it.
    ///
    /// # Errors
    ///
    /// Fails with `BrokenPipe` after [`close`](Self::close).
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
    ) -> impl Future<Output = io::Result<()>> + Send + use<T, W> {
        let frame = serde_json::to_vec(message);
        let stream = Arc::clone(&self.0);
        async move {
            let mut frame = frame?;
            frame.push(b'\n');
            let mut stream = stream.lock().await;
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
