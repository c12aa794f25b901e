use std::path::PathBuf;
use std::time::Duration;

/// An error of [`Downloader::pull`](crate::Downloader::pull).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The store's folder cannot be written.
    #[error("the model folder {} cannot be used: free or allow it, or set HAFT_CACHE to another", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// No source has the file.
    #[error(
        "the model {model} could not be downloaded ({}); or set HAFT_MODEL to a GGUF file that you have",
        listed(failures)
    )]
    NoSource {
        /// The model's name.
        model: &'static str,
        /// The error of each source.
        failures: Vec<(&'static str, SourceError)>,
    },
}

/// The error of one source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The connection failed or broke.
    #[error("no connection ({reason}); check the network and try again")]
    Unreachable {
        /// The reason.
        reason: String,
    },
    /// No data arrived for too long.
    #[error("no answer for {}; try again", seconds(after))]
    TimedOut {
        /// The time limit.
        after: Duration,
    },
    /// The response has an error status.
    #[error("it answered with status {status}")]
    HttpStatus {
        /// The HTTP status.
        status: u16,
    },
    /// The file has another size or SHA-256 than expected. It was removed.
    #[error("its file is not the expected one ({reason}); it was thrown away")]
    WrongFile {
        /// The difference.
        reason: String,
    },
    /// The source cannot be used.
    #[error("{reason}")]
    Unavailable {
        /// The reason.
        reason: String,
    },
    /// A file could not be written or read.
    #[error(
        "a file could not be written or read ({0}); check the free space and the permissions of the model folder"
    )]
    File(#[from] std::io::Error),
}

fn listed(failures: &[(&'static str, SourceError)]) -> String {
    let failures: Vec<_> = failures.iter().map(|(source, error)| format!("{source}: {error}")).collect();
    failures.join("; ")
}

fn seconds(duration: &Duration) -> String {
    format!("{} s", duration.as_secs())
}
