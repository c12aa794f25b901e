use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What is known of a server without asking it.
#[derive(Default)]
pub(crate) struct Notices {
    /// The list of tools is another now.
    pub(crate) list_changed: Notify,
    /// The server closed its side.
    pub(crate) ended: CancellationToken,
}
