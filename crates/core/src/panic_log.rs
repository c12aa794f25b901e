//! The log entry for the message of a caught panic.

use std::any::Any;

use crate::text::panic_text;

/// Logs the message of a caught `panic` of user code at the level `debug`. The message may contain
/// sensitive data, so the caller logs the event itself without the message, at the level `error`.
pub(crate) fn log_panic_text(panic: &(dyn Any + Send)) {
    tracing::debug!(panic = panic_text(panic), "message of the panic");
}
