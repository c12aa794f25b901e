//! What an interrupt (Ctrl-C) does: the first one cancels, the second one ends the program at once.

use std::process;

use tokio::signal::ctrl_c;

use crate::failure::Failure;

/// The exit code of a program that an interrupt has ended.
const INTERRUPTED: i32 = 130;

/// Waits for the next interrupt.
pub(crate) async fn next() {
    if ctrl_c().await.is_err() {
        // Where nobody can listen, the system ends the program by itself.
        std::future::pending::<()>().await;
    }
}

/// Does some work, unless an interrupt comes first.
pub(crate) async fn cancels<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        // It is listened for before the work begins.
        biased;
        () = next() => Err(Failure::new("cancelled")),
        ended = work => ended,
    }
}

/// Ends the program at the second interrupt, whatever it waits for.
pub(crate) fn exit_at_the_second() {
    tokio::spawn(async {
        next().await;
        next().await;
        process::exit(INTERRUPTED);
    });
}
