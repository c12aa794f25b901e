//! Access to model files: the catalogue, the folder for downloads, and the file in `HAFT_MODEL`.

mod catalogue;
mod digest;
mod fingerprint;
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
pub(crate) use self::fingerprint::fingerprint;
#[cfg(feature = "download")]
pub use self::pull::{Downloader, PullError, PullEvent, PullSourceError};
use self::stamp::VerificationStamp;

/// A folder for downloaded model files.
///
/// # Examples
///
/// ```
/// use haft_local::{KnownModel, ModelStore};
///
/// let store = ModelStore::in_folder("/nowhere/models");
/// let model = KnownModel::default_model();
/// assert!(store.path(model).starts_with("/nowhere/models"));
/// assert_eq!(store.verified_path(model), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelStore {
    folder: PathBuf,
}

/// The error for a missing cache folder: neither `HAFT_CACHE` nor a home folder is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no home folder for models: set HOME or HAFT_CACHE, or set HAFT_MODEL to an existing GGUF file"
)]
pub struct NoHomeFolder;

impl ModelStore {
    /// Creates the default store of the user. If `HAFT_CACHE` is set and not empty, the folder is
    /// `$HAFT_CACHE/models`. Otherwise, the folder is `haft/models` in the user's cache folder:
    /// `$XDG_CACHE_HOME` or `~/.cache`, or `%LOCALAPPDATA%` on Windows.
    ///
    /// # Errors
    ///
    /// Fails if the user has no home folder and `HAFT_CACHE` is unset or empty.
    pub fn new() -> Result<Self, NoHomeFolder> {
        Ok(Self::in_folder(cache_folder()?.join("models")))
    }

    /// Creates a store in `folder`. The first download creates the folder if it does not exist.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the path of the folder that contains the model files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the file of `model` in this store. The file may not exist.
    pub fn path(&self, model: &KnownModel) -> PathBuf {
        self.folder.join(model.file_name)
    }

    /// Returns the path of the file of `model` if the file was verified, and its size and
    /// modification time have not changed since then.
    ///
    /// Returns `None` if there is no such file, or if the file was not verified, for example
    /// because the user copied it into the folder. The next download then verifies the existing
    /// file, and uses it if it is correct.
    pub fn verified_path(&self, model: &KnownModel) -> Option<PathBuf> {
        let path = self.path(model);
        let is_verified = VerificationStamp::of(&path, model).is_ok_and(|stamp| stamp.matches_file(&path));
        is_verified.then_some(path)
    }

    /// Removes the stamp file, which marks the file of `model` as verified. The next pull then
    /// verifies the model file again.
    #[cfg(feature = "download")]
    pub(crate) fn invalidate(&self, model: &KnownModel) {
        // An error is ignored. If the folder is read-only, a pull could not replace the model file
        // either.
        let _ = std::fs::remove_file(stamp::stamp_path(&self.path(model)));
    }
}

/// Returns the cache folder of haft: `$HAFT_CACHE`, or `haft` in the user's cache folder.
pub(crate) fn cache_folder() -> Result<PathBuf, NoHomeFolder> {
    match env::var_os("HAFT_CACHE").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(etcetera::choose_base_strategy().map_err(|_| NoHomeFolder)?.cache_dir().join("haft")),
    }
}

/// Returns the path in the environment variable `HAFT_MODEL`, or `None` if the variable is unset or
/// empty. The file may not exist.
pub fn model_file_from_env() -> Option<PathBuf> {
    env::var_os("HAFT_MODEL").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Identifies the file at `path` as a model of the catalogue by its size and SHA-256. Returns
/// `None` if no model matches. The SHA-256 is computed only for a file that has a matching size and
/// no valid stamp.
pub(crate) fn identify_model(path: &Path) -> Option<&'static KnownModel> {
    let size = path.metadata().ok()?.len();
    KnownModel::all().iter().filter(|model| model.size == size).find(|model| {
        let is_verified = VerificationStamp::of(path, model).is_ok_and(|stamp| stamp.matches_file(path));
        is_verified || digest::sha256_of_file(path).is_ok_and(|digest| digest == model.sha256)
    })
}
