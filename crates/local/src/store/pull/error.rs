use std::path::PathBuf;
use std::time::Duration;

/// An error of [`Downloader::pull`](crate::Downloader::pull).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The folder of the store cannot be written.
    #[error("the model folder {} cannot be used: free or allow it, or set HAFT_CACHE to another", path.display())]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// All sources failed.
    #[error(
        "the model {model} could not be downloaded ({}); or set HAFT_MODEL to a GGUF file that you have",
        listed(failures)
    )]
    NoSource {
        /// The name of the model.
        model: &'static str,
        /// The name and the error of each source, in the order of the attempts.
        failures: Vec<(&'static str, SourceError)>,
    },
}

/// An error of a single source, such as the Hugging Face hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The connection could not be established, or it broke.
    #[error("no connection ({reason}); check the network and try again")]
    Unreachable {
        /// The reason, without the address of the source.
        reason: String,
    },
    /// The source did not send data in time.
    #[error("no answer for {}; try again", seconds(after))]
    TimedOut {
        /// The time limit that was exceeded.
        after: Duration,
    },
    /// The HTTP response has an error status.
    #[error("it answered with status {status}")]
    HttpStatus {
        /// The HTTP status code.
        status: u16,
    },
    /// The file does not have the expected size or SHA-256. It was removed.
    #[error("its file is not the expected one ({reason}); it was thrown away")]
    WrongFile {
        /// The difference between the expected and the actual file.
        reason: String,
    },
    /// The source cannot be used, for example because `pip` is not installed.
    #[error("{reason}")]
    Unavailable {
        /// The reason.
        reason: String,
    },
    /// A file could not be read or written.
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
