//! The errors of a download.

use std::path::PathBuf;
use std::time::Duration;

/// An error from [`Downloader::pull`](crate::Downloader::pull).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The folder of the [`ModelStore`](crate::ModelStore) cannot be created or written to.
    #[error("cannot write to the model folder {}: check its permissions and the free space, or set HAFT_CACHE to another folder", path.display())]
    Folder {
        /// The path of the model folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// All sources of the model file failed.
    #[error(
        "cannot download the model {model} ({}); try again, or set HAFT_MODEL to the path of a GGUF file",
        join_failures(failures)
    )]
    NoSource {
        /// The name of the model in the catalogue, or the location of the file on the hub.
        model: String,
        /// The name of each source and its error, in the order of the attempts. If an existing file
        /// was damaged or could not be read, its error is the first entry, with the name
        /// `the model folder`.
        failures: Vec<(&'static str, PullSourceError)>,
    },
}

/// An error from a single source, such as the Hugging Face hub.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullSourceError {
    /// The connection to the source could not be established, or it broke.
    #[error("the connection failed ({reason}); check the network and try again")]
    Unreachable {
        /// The reason for the failure, without the address of the source.
        reason: String,
    },
    /// The source stopped sending data, or the download took too long.
    #[error("timed out after {}; check the network and try again", seconds(after))]
    TimedOut {
        /// The time limit that was exceeded.
        after: Duration,
    },
    /// The source returned an unexpected HTTP status, such as 404.
    #[error("the server returned HTTP status {status}; try again later, or check HF_ENDPOINT")]
    HttpStatus {
        /// The HTTP status code.
        status: u16,
    },
    /// The repository is gated: its owner requires the acceptance of terms.
    #[error(
        "the repository {repository} is gated: accept its terms at {page}, then {}",
        if *has_token { "try again; the account of your access token must have accepted them" }
        else { "set HF_TOKEN to an access token of your account" }
    )]
    Gated {
        /// The name of the repository.
        repository: String,
        /// The address of the web page of the repository.
        page: String,
        /// `true` if the request had an access token.
        has_token: bool,
    },
    /// The hub denied access. The repository is private or does not exist.
    #[error(
        "the hub denied access to {repository}: check its name; if it is private, {}",
        if *has_token { "check that your access token (HF_TOKEN) is valid and can read it" }
        else { "set HF_TOKEN to an access token that can read it" }
    )]
    AccessDenied {
        /// The name of the repository.
        repository: String,
        /// `true` if the request had an access token.
        has_token: bool,
    },
    /// The repository, the revision or the file does not exist.
    #[error("the hub has no file {file}; check the names of the repository, the file and the revision")]
    NotFound {
        /// The location of the file.
        file: String,
    },
    /// The size or the SHA-256 of the file is wrong. The file is not used.
    #[error("the file is damaged or from another version ({reason}); it must be downloaded again")]
    WrongFile {
        /// A description of the mismatch in size or SHA-256.
        reason: String,
    },
    /// The source cannot be used, for example because `pip` is not installed.
    #[error("{reason}")]
    Unavailable {
        /// A description of the failure.
        reason: String,
    },
    /// A file in the model folder could not be read or written.
    #[error(
        "a file in the model folder cannot be read or written ({0}); check the permissions and the free space"
    )]
    File(#[from] std::io::Error),
}

fn join_failures(failures: &[(&'static str, PullSourceError)]) -> String {
    let failures: Vec<_> = failures.iter().map(|(source, error)| format!("{source}: {error}")).collect();
    failures.join("; ")
}

fn seconds(duration: &Duration) -> String {
    format!("{} s", duration.as_secs())
}
