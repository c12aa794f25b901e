use std::time::Duration;

use haft_core::{ToolError, toolset::ToolList};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{ConnectionLost, Link, Status};

/// A call that comes while its server starts again waits as long as that may take, and no longer.
#[tokio::test(start_paused = true)]
async fn a_call_waits_as_long_as_its_server_may_start() {
    let (_sender, status) = watch::channel(Status::Restarting { tools: ToolList::default() });
    let patience = Duration::from_secs(2);
    let link = Link::new("mcp:slow".to_owned(), status, CancellationToken::new(), patience);
    let begun = Instant::now();
    let Err(ToolError::Failed { message, source }) = link.connection().await else {
        panic!("there is no connection");
    };
    assert_eq!(begun.elapsed(), patience);
    assert_eq!(message, "mcp:slow is not running");
    let lost = source.unwrap().downcast::<ConnectionLost>().unwrap();
    assert_eq!((&*lost.source_label, &*lost.reason), ("mcp:slow", "it has not started yet"));
}
