use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::ChildStderr,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// How much of what a server wrote last is kept, in bytes.
const KEPT: usize = 16 << 10;
/// How many of the last lines are shown with an error.
const SHOWN_LINES: usize = 5;

/// Reads a server's standard error for as long as this lives, so that it never blocks, and keeps the end of it.
pub(crate) struct StderrTail {
    kept: Arc<Mutex<VecDeque<u8>>>,
    reader: AbortOnDropHandle<()>,
}

impl StderrTail {
    pub(super) fn read(stderr: ChildStderr) -> Self {
        let kept = Arc::default();
        let reader = tokio::spawn(drain(stderr, Arc::clone(&kept)));
        Self { kept, reader: AbortOnDropHandle::new(reader) }
    }

    /// The last lines of a server that ended, for an error message. What it wrote may still be on its way, for as
    /// long as `patience`.
    pub(crate) async fn last_lines(&mut self, patience: Duration) -> String {
        if !self.reader.is_finished() {
            let _ = timeout(patience, &mut self.reader).await;
        }
        let kept: Vec<u8> =
            self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let text = String::from_utf8_lossy(&kept);
        let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n")
    }
}

async fn drain(mut stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        let read = chunk.get(..read).unwrap_or_default();
        tracing::trace!(text = %String::from_utf8_lossy(read), "the server writes to its standard error");
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(read);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    }
}
