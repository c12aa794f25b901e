use std::sync::atomic::AtomicBool;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What is known of a server without asking it.
#[derive(Default)]
pub(crate) struct Notices {
    /// The list of tools is another now.
    pub(crate) list_changed: Notify,
    /// The server knows `server/discover` after all: it was only slow to say so.
    pub(crate) discovered: AtomicBool,
    /// The server closed its side.
    pub(crate) ended: CancellationToken,
}
