use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream whose writes fail if none makes progress within a time. Without it, a client that does
/// not read its response keeps the connection.
pub(super) struct WriteDeadline<S> {
    stream: S,
    limit: Duration,
    /// The end of the write in progress.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteDeadline<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, deadline: None }
    }

    /// Returns `written`, or an error after the deadline.
    fn check<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let limit = self.limit;
        ready!(self.deadline.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read the response")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.check(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.check(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check(cx, closed)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, time::Duration};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::{Instant, sleep},
    };

    use super::WriteDeadline;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn write_fails_if_the_client_does_not_read() {
        let (server, _client) = duplex(4);
        let started = Instant::now();
        let error = WriteDeadline::new(server, LIMIT).write_all(&[0; 5]).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed()), (io::ErrorKind::TimedOut, LIMIT));
    }

    /// The deadline is for each write, and an idle stream has none.
    #[tokio::test(start_paused = true)]
    async fn slow_client_gets_the_whole_response() {
        let (server, mut client) = duplex(4);
        let reading = tokio::spawn(async move {
            let mut received = Vec::new();
            while let Ok(byte) = client.read_u8().await {
                received.push(byte);
                sleep(LIMIT * 9 / 10).await;
            }
            received
        });
        let mut server = WriteDeadline::new(server, LIMIT);
        server.write_all(b"the response").await.unwrap();
        sleep(3 * LIMIT).await;
        server.write_all(b", later").await.unwrap();
        drop(server);
        assert_eq!(reading.await.unwrap(), b"the response, later");
    }
}
