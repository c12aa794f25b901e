use std::sync::atomic::AtomicBool;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Elicitations;

/// The events that the transport detects while it reads the server's output.
#[derive(Default)]
pub(crate) struct ServerEvents {
    /// Notified when the server sends `notifications/tools/list_changed`, and when a subscription
    /// to changes of the tool list begins.
    pub(crate) list_changed: Notify,
    /// `true` after a valid response to `server/discover` has arrived later than the probe timeout.
    /// A failed handshake is then repeated.
    pub(crate) has_late_discover: AtomicBool,
    /// `true` after `server/discover` had no response within the probe timeout.
    pub(crate) has_unanswered_discover: AtomicBool,
    /// `true` while a subscription to changes of the tool list is active.
    pub(crate) is_subscribed: AtomicBool,
    /// The elicitations that the server has sent, and the client has not handled yet.
    pub(crate) elicitations: Elicitations,
    /// A token that is cancelled when the server closes its output, or when reading fails.
    pub(crate) closed: CancellationToken,
}
