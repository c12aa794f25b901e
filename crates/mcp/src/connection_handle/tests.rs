use std::time::Duration;

use haft_core::{ToolError, toolset::ToolList};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{ConnectionHandle, NotConnected, SourceStatus};

/// A call during a restart must not wait longer than the start timeout.
#[tokio::test(start_paused = true)]
async fn call_during_a_restart_fails_after_the_start_timeout() {
    let (_sender, status) = watch::channel(SourceStatus::Restarting { tools: ToolList::default() });
    let start_timeout = Duration::from_secs(2);
    let handle =
        ConnectionHandle::new("mcp:slow".to_owned(), status, CancellationToken::new(), start_timeout);
    let started = Instant::now();
    let Err(ToolError::Failed { message, source }) = handle.wait_for_connection().await else {
        panic!("there is no connection");
    };
    assert_eq!(started.elapsed(), start_timeout);
    assert_eq!(message, "mcp:slow is not running");
    let error = source.unwrap().downcast::<NotConnected>().unwrap();
    assert_eq!((&*error.source_label, &*error.reason), ("mcp:slow", "the server is still starting"));
}
