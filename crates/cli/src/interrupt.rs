//! Handling of interrupts (Ctrl-C). The first interrupt cancels the command, and the second exits
//! the process immediately.

use std::process;

use tokio::signal::ctrl_c;

use crate::error::CliError;

/// The conventional exit code after an interrupt: 128 + 2, the number of `SIGINT`.
const EXIT_CODE_INTERRUPTED: i32 = 130;

/// Waits for the next interrupt (Ctrl-C).
pub(crate) async fn next() {
    if ctrl_c().await.is_err() {
        // No signal handler could be installed, so an interrupt ends the process by the default
        // action.
        std::future::pending::<()>().await;
    }
}

/// Awaits a future. Returns the error `cancelled` if an interrupt comes first.
pub(crate) async fn or_cancelled<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::select! {
        // `biased` polls the signal handler first, so the handler is installed before the work
        // starts.
        biased;
        () = next() => Err(CliError::new("cancelled")),
        result = work => result,
    }
}

/// Exits the process on the second interrupt.
pub(crate) fn exit_on_second() {
    tokio::spawn(async {
        next().await;
        next().await;
        process::exit(EXIT_CODE_INTERRUPTED);
    });
}
