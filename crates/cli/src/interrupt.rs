//! Handling of interrupts (Ctrl-C). The first interrupt cancels the command, and the second exits
//! the process immediately.

use std::process;

use tokio::signal::ctrl_c;

use crate::error::CliError;

/// The exit code after an interrupt: by convention, 128 plus the number of the signal (2 for
/// `SIGINT`).
const EXIT_CODE_INTERRUPTED: i32 = 130;

/// Waits for the next interrupt (Ctrl-C).
pub(crate) async fn next() {
    if ctrl_c().await.is_err() {
        // Without a signal handler, an interrupt ends the process by the default action, so wait
        // forever.
        std::future::pending::<()>().await;
    }
}

/// Awaits `work` and returns its result, or the error `cancelled` if an interrupt (Ctrl-C) comes
/// first.
pub(crate) async fn or_cancelled<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::select! {
        // `biased` polls the signal handler first, so the handler is installed before the work
        // starts.
        biased;
        () = next() => Err(CliError::new("cancelled")),
        result = work => result,
    }
}

/// Spawns a task that exits the process on the second interrupt (Ctrl-C).
pub(crate) fn exit_on_second() {
    tokio::spawn(async {
        next().await;
        next().await;
        process::exit(EXIT_CODE_INTERRUPTED);
    });
}
