//! Logging to standard error, and the export of spans. Logging is enabled by `-v` or by a filter in
//! the environment variable `HAFT_LOG`.

use std::{env, io, io::IsTerminal as _};

use tracing_subscriber::{
    EnvFilter, Layer as _, fmt::format::FmtSpan, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::{error::CliError, telemetry::Telemetry};

/// Installs the log subscriber if `HAFT_LOG` contains a filter or the flag `-v` was given, and the
/// export of spans if `telemetry` has one. `verbose` is the number of `-v` flags. The filter in
/// `HAFT_LOG` overrides the flags.
pub(crate) fn init_logging(verbose: u8, telemetry: Option<&Telemetry>) -> Result<(), CliError> {
    let filter = log_filter(verbose)?;
    let spans = telemetry.and_then(Telemetry::layer);
    if filter.is_none() && spans.is_none() {
        return Ok(());
    }
    let logs = filter.map(|filter| {
        tracing_subscriber::fmt::layer()
            // When a span such as a tool call ends, log its duration.
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .with_filter(filter)
    });
    tracing_subscriber::registry().with(spans).with(logs).init();
    Ok(())
}

fn log_filter(verbose: u8) -> Result<Option<EnvFilter>, CliError> {
    let filter = env::var("HAFT_LOG").ok().filter(|filter| !filter.trim().is_empty());
    Ok(Some(match (filter, verbose) {
        (Some(filter), _) => EnvFilter::try_new(&filter)
            .map_err(|error| CliError::usage(format!("invalid filter {filter:?} in HAFT_LOG: {error}")))?,
        (None, 0) => return Ok(None),
        // `haft` also matches `haft_core`, `haft_mcp` and so on, because a filter matches the start
        // of a target.
        (None, 1) => EnvFilter::new("haft=info,warn"),
        (None, 2) => EnvFilter::new("haft=debug,info"),
        (None, _) => EnvFilter::new("trace"),
    }))
}
