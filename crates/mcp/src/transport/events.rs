use std::sync::atomic::AtomicBool;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Events of a connection, set by the transport while it reads.
#[derive(Default)]
pub(crate) struct ServerEvents {
    /// Notified by `notifications/tools/list_changed`.
    pub(crate) list_changed: Notify,
    /// Set by a valid response to `server/discover` after the probe timed out.
    pub(crate) late_discover: AtomicBool,
    /// Cancelled at the end of the server's output, or after a read error.
    pub(crate) closed: CancellationToken,
}
