//! Handling of interrupts (Ctrl-C). The first interrupt cancels the command, and the second exits
//! the process immediately.

use std::process;

use tokio::signal::ctrl_c;

use crate::error::CliError;

/// The exit code after the second interrupt: by convention, 128 plus the number of the signal (2
/// for `SIGINT`).
const EXIT_CODE_INTERRUPTED: i32 = 130;

/// Waits for the next interrupt (Ctrl-C).
pub(crate) async fn wait_for_interrupt() {
    if ctrl_c().await.is_err() {
        // The signal handler could not be installed, so an interrupt ends the process directly.
        // There is nothing to wait for: stay pending forever.
        std::future::pending::<()>().await;
    }
}

/// Awaits `work` and returns its result. Returns the error `cancelled` if an interrupt (Ctrl-C)
/// arrives first.
pub(crate) async fn cancel_on_interrupt<T>(
    work: impl Future<Output = Result<T, CliError>>,
) -> Result<T, CliError> {
    tokio::select! {
        // Poll the signal first, so that its handler is installed before the work starts.
        biased;
        () = wait_for_interrupt() => Err(CliError::new("cancelled")),
        result = work => result,
    }
}

/// Spawns a task that exits the process on the second interrupt (Ctrl-C).
pub(crate) fn exit_on_second_interrupt() {
    tokio::spawn(async {
        wait_for_interrupt().await;
        wait_for_interrupt().await;
        process::exit(EXIT_CODE_INTERRUPTED);
    });
}
