use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_core::text::without_hidden_chars;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::ChildStderr,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// The maximum number of bytes that are kept from the end of standard error.
const TAIL_BYTES: usize = 16 << 10;
/// The maximum number of lines of standard error that an error message quotes.
const MAX_ERROR_LINES: usize = 5;

/// The last 16 KiB that a server wrote to its standard error.
///
/// A task reads the pipe continuously, because the server would block on a full pipe. Dropping the
/// `StderrTail` ends the task.
pub(crate) struct StderrTail {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reader: AbortOnDropHandle<()>,
}

impl StderrTail {
    pub(super) fn start_reading(stderr: ChildStderr) -> Self {
        let tail = Arc::default();
        let reader = tokio::spawn(drain(stderr, Arc::clone(&tail)));
        Self { tail, reader: AbortOnDropHandle::new(reader) }
    }

    /// Returns the last five non-empty lines of standard error, for an error message.
    ///
    /// Waits up to `drain_timeout` for the server to close its standard error.
    pub(crate) async fn last_lines(&mut self, drain_timeout: Duration) -> String {
        if !self.reader.is_finished() && !drain_timeout.is_zero() {
            let _ = timeout(drain_timeout, &mut self.reader).await;
        }
        let tail: Vec<u8> =
            self.tail.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&tail);
        let text = without_hidden_chars(&text);
        let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines.get(lines.len().saturating_sub(MAX_ERROR_LINES)..).unwrap_or_default().join("\n")
    }
}

async fn drain(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<VecDeque<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let read = chunk.get(..read).unwrap_or_default();
        let text = String::from_utf8_lossy(read);
        tracing::trace!(text = &*without_hidden_chars(&text), "output on the server's standard error");
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(read);
        let surplus = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..surplus);
    }
}
