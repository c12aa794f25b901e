//! Where model files are kept, and which of them is meant.

mod catalogue;
#[cfg(feature = "download")]
mod pull;
mod stamp;

use std::env;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

pub use self::catalogue::{HubFile, KnownModel, PackagedParts};
#[cfg(feature = "download")]
pub use self::pull::{Downloader, PullError, PullEvent, SourceError};
use self::stamp::Stamp;

/// The folder where model files are kept.
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

/// The user has no folder for caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no home folder to keep models in: set HOME or HAFT_CACHE, or set HAFT_MODEL to a GGUF file that you have"
)]
pub struct NoHome;

impl ModelStore {
    /// The store of this user: the folder `models` in the one that `HAFT_CACHE` names, or in `haft` in the user's cache
    /// folder (`XDG_CACHE_HOME`, or `~/.cache`).
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

    /// A store in any folder, which need not exist yet.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the file of a model is, or will be.
    pub fn path(&self, model: &KnownModel) -> PathBuf {
        self.folder.join(model.file)
    }

    /// The file of a model, if it is there, was found to be the right one, and has not changed since.
    ///
    /// A file that came by another way than a pull is not known yet: a pull checks it and fetches nothing.
    pub fn get(&self, model: &KnownModel) -> Option<PathBuf> {
        let path = self.path(model);
        let is_right = Stamp::of(&path, model).is_ok_and(|stamp| stamp.is_beside(&path));
        is_right.then_some(path)
    }

    /// Forgets that the file of a model was right, so that the next pull checks it again.
    #[cfg(feature = "progress")]
    pub(crate) fn doubt(&self, model: &KnownModel) {
        // A stamp that cannot be removed is of a folder that cannot be written: nothing is fetched to it anyway.
        let _ = std::fs::remove_file(stamp::place(&self.path(model)));
    }
}

/// The model file that the user has chosen by `HAFT_MODEL`, whether or not it is there.
pub fn chosen_file() -> Option<PathBuf> {
    env::var_os("HAFT_MODEL").filter(|path| !path.is_empty()).map(PathBuf::from)
}
