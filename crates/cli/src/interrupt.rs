//! Interrupts (Ctrl-C). The first cancels the command, the second exits immediately.

use std::process;

use tokio::signal::ctrl_c;

use crate::error::CliError;

/// The conventional exit code after an interrupt: 128 + `SIGINT`.
const INTERRUPTED: i32 = 130;

/// Waits for the next interrupt.
pub(crate) async fn next() {
    if ctrl_c().await.is_err() {
        // Without a signal handler, the default action of the signal ends the process.
        std::future::pending::<()>().await;
    }
}

/// Runs a future, and returns an error if an interrupt comes first.
pub(crate) async fn or_cancelled<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::select! {
        // `biased` polls the handler first, so it is installed before the work starts.
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
        process::exit(INTERRUPTED);
    });
}
