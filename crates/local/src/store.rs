//! Model files: the catalogue, the folder of downloads, and the user's choice.

mod catalogue;
mod digest;
#[cfg(feature = "download")]
mod pull;
mod stamp;
#[cfg(feature = "download")]
#[cfg(test)]
mod tests;

use std::env;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

pub use self::catalogue::{HubFile, KnownModel};
#[cfg(feature = "download")]
pub use self::pull::{Downloader, PullError, PullEvent, SourceError};
use self::stamp::Stamp;

/// The folder of downloaded models.
///
/// # Examples
///
/// ```
/// use haft_local::{KnownModel, ModelStore};
///
/// let store = ModelStore::in_folder("/nowhere/models");
/// let model = KnownModel::default_model();
/// assert!(store.path(model).starts_with("/nowhere/models"));
/// assert_eq!(store.get(model), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStore {
    folder: PathBuf,
}

/// The user has no cache folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no home folder for models: set HOME or HAFT_CACHE, or set HAFT_MODEL to an existing GGUF file"
)]
pub struct NoHome;

impl ModelStore {
    /// The store of this user: `$HAFT_CACHE/models`, or `haft/models` in the user's cache folder
    /// (`XDG_CACHE_HOME`, or `~/.cache`).
    ///
    /// # Errors
    ///
    /// Fails when the user has no home folder and `HAFT_CACHE` is not set.
    pub fn new() -> Result<Self, NoHome> {
        let cache = match env::var_os("HAFT_CACHE").filter(|folder| !folder.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => etcetera::choose_base_strategy().map_err(|_| NoHome)?.cache_dir().join("haft"),
        };
        Ok(Self::in_folder(cache.join("models")))
    }

    /// A store in a folder. The first download creates the folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a model's file. The file may not exist.
    pub fn path(&self, model: &KnownModel) -> PathBuf {
        self.folder.join(model.file)
    }

    /// The file of a model, if it was verified and has not changed since.
    ///
    /// A file from another source is not verified yet: a pull verifies it without a download.
    pub fn get(&self, model: &KnownModel) -> Option<PathBuf> {
        let path = self.path(model);
        let is_right = Stamp::of(&path, model).is_ok_and(|stamp| stamp.matches_file(&path));
        is_right.then_some(path)
    }

    /// Removes the stamp of a file. The next pull verifies the file again.
    #[cfg(feature = "download")]
    pub(crate) fn invalidate(&self, model: &KnownModel) {
        // This fails in a read-only folder, and a pull cannot write there either.
        let _ = std::fs::remove_file(stamp::stamp_path(&self.path(model)));
    }
}

/// The file in the environment variable `HAFT_MODEL`. The file may not exist.
pub fn configured_file() -> Option<PathBuf> {
    env::var_os("HAFT_MODEL").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The model of the catalogue with this file, by size and SHA-256. Only a file of a matching size
/// is hashed.
pub(crate) fn identify(path: &Path) -> Option<&'static KnownModel> {
    let size = path.metadata().ok()?.len();
    KnownModel::all().iter().filter(|model| model.size == size).find(|model| {
        let is_verified = Stamp::of(path, model).is_ok_and(|stamp| stamp.matches_file(path));
        is_verified || digest::sha256(path).is_ok_and(|digest| digest == model.sha256)
    })
}
