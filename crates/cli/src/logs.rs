//! Logging to standard error, enabled by `-v` or by the filter in the environment variable
//! `HAFT_LOG`.

use std::{env, io, io::IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};

use crate::error::CliError;

/// Installs the log subscriber if logging is enabled. `verbose` is the number of `-v` flags. A
/// filter in `HAFT_LOG` has precedence over the flags.
pub(crate) fn start(verbose: u8) -> Result<(), CliError> {
    let filter = env::var("HAFT_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let filter = match (filter, verbose) {
        (Some(filter), _) => EnvFilter::try_new(&filter)
            .map_err(|error| CliError::usage(format!("invalid filter {filter:?} in HAFT_LOG: {error}")))?,
        (None, 0) => return Ok(()),
        // The filter `haft` matches all haft crates, because targets are matched by prefix.
        (None, 1) => EnvFilter::new("haft=info,warn"),
        (None, 2) => EnvFilter::new("haft=debug,info"),
        (None, _) => EnvFilter::new("trace"),
    };
    // Log the duration of each span, such as a tool call, at its end.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    Ok(())
}
