//! Logging to standard error. It is enabled by `-v` or by a filter in the environment variable
//! `HAFT_LOG`.

use std::{env, io, io::IsTerminal as _};

use tracing_subscriber::{EnvFilter, fmt::format::FmtSpan};

use crate::error::CliError;

/// Installs the log subscriber if `HAFT_LOG` contains a filter or the flag `-v` was given.
/// `verbose` is the number of `-v` flags. The filter in `HAFT_LOG` overrides the flags.
pub(crate) fn init_logging(verbose: u8) -> Result<(), CliError> {
    let filter = env::var("HAFT_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let filter = match (filter, verbose) {
        (Some(filter), _) => EnvFilter::try_new(&filter)
            .map_err(|error| CliError::usage(format!("invalid filter {filter:?} in HAFT_LOG: {error}")))?,
        (None, 0) => return Ok(()),
        // `haft` also matches `haft_core`, `haft_mcp` and so on, because a filter matches the start
        // of a target.
        (None, 1) => EnvFilter::new("haft=info,warn"),
        (None, 2) => EnvFilter::new("haft=debug,info"),
        (None, _) => EnvFilter::new("trace"),
    };
    // When a span such as a tool call ends, log its duration.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    Ok(())
}
