//! Logs on standard error: by `-v`, or by the filter in `HAFT_LOG`.

use std::{env, io, io::IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};

use crate::failure::Failure;

/// Begins to log, if anybody asked for it.
pub(crate) fn start(verbose: u8) -> Result<(), Failure> {
    let asked = env::var("HAFT_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let filter = match (asked, verbose) {
        (Some(filter), _) => EnvFilter::try_new(&filter).map_err(|error| {
            Failure::usage(format!("HAFT_LOG is {filter:?}, which is no filter: {error}"))
        })?,
        (None, 0) => return Ok(()),
        // The prefix stands for every crate of haft.
        (None, 1) => EnvFilter::new("haft=info,warn"),
        (None, 2) => EnvFilter::new("haft=debug,info"),
        (None, _) => EnvFilter::new("trace"),
    };
    // What is done, such as a call, is told when it ends, with the time that it took.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    Ok(())
}
