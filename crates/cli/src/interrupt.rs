//! Handling of interrupts (Ctrl-C) and of `SIGTERM`, the signal of service managers and containers.
//! The first interrupt or signal cancels the command, and the second exits the process immediately.

use std::{future, process, sync::LazyLock};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::error::CliError;

/// The exit code after the second interrupt: by convention, 128 plus the number of the signal (2
/// for `SIGINT`).
const EXIT_CODE_INTERRUPTED: i32 = 130;

/// `true` after the first interrupt or `SIGTERM`.
static IS_INTERRUPTED: LazyLock<watch::Sender<bool>> = LazyLock::new(watch::Sender::default);

/// Waits for the first interrupt (Ctrl-C) or `SIGTERM` of the process. Completes immediately if it
/// has arrived.
pub(crate) async fn wait_for_interrupt() {
    // The sender is static, so the channel is never closed.
    let _ = IS_INTERRUPTED.subscribe().wait_for(|is_interrupted| *is_interrupted).await;
}

/// Awaits `work` and returns its result. Returns the error `cancelled` if an interrupt or `SIGTERM`
/// arrives first.
pub(crate) async fn cancel_on_interrupt<T>(
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    tokio::select! {
        biased;
        () = wait_for_interrupt() => Err(CliError::new("cancelled")),
        result = work => result,
    }
}

/// Installs the handlers of interrupts and `SIGTERM`. The second signal exits the process.
pub(crate) fn watch_signals() {
    // If a handler cannot be installed, the signal ends the process directly.
    let mut signals = [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok());
    tokio::spawn(async move {
        let [interrupts, terminations] = &mut signals;
        for is_second in [false, true] {
            tokio::select! {
                () = next(interrupts) => {}
                () = next(terminations) => {}
            }
            if is_second {
                process::exit(EXIT_CODE_INTERRUPTED);
            }
            IS_INTERRUPTED.send_replace(true);
        }
    });
}

async fn next(signals: &mut Option<Signal>) {
    match signals {
        Some(signals) => {
            signals.recv().await;
        }
        None => future::pending().await,
    }
}
