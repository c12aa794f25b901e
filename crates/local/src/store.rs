//! Access to model files: the catalogue, the folder for downloads, and the file in `HAFT_MODEL`.

mod catalogue;
mod digest;
mod fingerprint;
mod hub_file;
#[cfg(feature = "download")]
mod own_file;
#[cfg(feature = "download")]
mod pull;
mod stamp;
#[cfg(feature = "download")]
#[cfg(test)]
mod tests;

use std::env;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;

pub use self::catalogue::KnownModel;
pub(crate) use self::fingerprint::fingerprint;
pub use self::hub_file::{HubFile, InvalidHubFile};
#[cfg(feature = "download")]
pub use self::pull::{Downloader, PullError, PullEvent, PullSourceError};
use self::stamp::VerificationStamp;

/// The maximum number of entries of the folders that [`ModelStore::hub_files`] lists.
const MAX_LISTED_ENTRIES: usize = 100_000;
/// The maximum number of folders on the path of a file in [`ModelStore::hub_files`].
const MAX_LISTED_DEPTH: usize = 16;

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
        is_verified(&path, model).then_some(path)
    }

    /// Returns the path of `file` in this store. The file may not exist.
    pub fn hub_path(&self, file: &HubFile) -> PathBuf {
        self.folder.join(file.relative_path())
    }

    /// Returns the path of `file` if it was downloaded and verified, and its size and modification
    /// time have not changed since then. A file without a SHA-256 on the hub is never verified.
    pub fn verified_hub_path(&self, file: &HubFile) -> Option<PathBuf> {
        let path = self.hub_path(file);
        stamp::has_valid_stamp(&path).then_some(path)
    }

    /// Returns the path of `file` if it was downloaded, and its size and modification time have not
    /// changed since then. Unlike [`verified_hub_path`](Self::verified_hub_path), includes a file
    /// without a SHA-256 on the hub.
    pub fn downloaded_hub_path(&self, file: &HubFile) -> Option<PathBuf> {
        let path = self.hub_path(file);
        stamp::is_complete(&path).then_some(path)
    }

    /// Returns the files that were downloaded by their location on the hub, in order of their
    /// names, also those that could not be verified. Files of the catalogue are not included.
    ///
    /// Links to folders are not followed. The search ends after 100,000 entries, and 16 levels
    /// below the folder of the store.
    pub fn hub_files(&self) -> Vec<HubFile> {
        let mut folders = vec![(self.folder.join("hub"), 1)];
        let mut files = Vec::new();
        let mut entries_left = MAX_LISTED_ENTRIES;
        while let Some((folder, depth)) = folders.pop() {
            let Ok(entries) = folder.read_dir() else { continue };
            for entry in entries.take(entries_left).filter_map(Result::ok) {
                entries_left -= 1;
                let path = entry.path();
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true if depth < MAX_LISTED_DEPTH => folders.push((path, depth + 1)),
                    true => {}
                    false if path.is_file() && stamp::is_complete(&path) => files.push(path),
                    false => {}
                }
            }
        }
        files.sort();
        let relative = files.iter().filter_map(|path| path.strip_prefix(&self.folder).ok());
        relative.filter_map(HubFile::from_relative_path).collect()
    }

    /// Removes the stamp file, which marks the model file at `path` as verified. The next pull then
    /// verifies the model file again.
    #[cfg(feature = "download")]
    pub(crate) fn invalidate(path: &Path) {
        // An error is ignored. If the folder is read-only, a pull could not replace the model file
        // either.
        let _ = std::fs::remove_file(stamp::stamp_path(path));
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
/// empty. If the variable is the location of a [`HubFile`], such as
/// `hub:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf`, the path is in the default [`ModelStore`]. The
/// file may not exist.
pub fn model_file_from_env() -> Option<PathBuf> {
    let model = env::var_os("HAFT_MODEL").filter(|path| !path.is_empty())?;
    match hub_file_from_env() {
        Some(file) => ModelStore::new().ok().map(|store| store.hub_path(&file)),
        None => Some(PathBuf::from(model)),
    }
}

/// Returns the location in `HAFT_MODEL`, if the variable begins with `hub:` and is valid.
pub(crate) fn hub_file_from_env() -> Option<HubFile> {
    let model = env::var("HAFT_MODEL").ok()?;
    if model.starts_with("hub:") { model.parse().ok() } else { None }
}

/// Returns `true` if the file at `path` is the verified file of `model`, and its size and
/// modification time have not changed since then.
fn is_verified(path: &Path, model: &KnownModel) -> bool {
    match model.sha256 {
        Some(sha256) => VerificationStamp::of(path, sha256).is_ok_and(|stamp| stamp.matches_file(path)),
        None => path.metadata().is_ok_and(|file| file.len() == model.size) && stamp::has_valid_stamp(path),
    }
}

/// Identifies the file at `path` as a model of the catalogue by its size and SHA-256. Returns
/// `None` if no model matches. The SHA-256 is computed only for a file that has a matching size and
/// no valid stamp.
pub(crate) fn identify_model(path: &Path) -> Option<&'static KnownModel> {
    let size = path.metadata().ok()?.len();
    KnownModel::all().iter().filter(|model| model.size == size).find(|model| {
        let Some(sha256) = model.sha256 else { return false };
        is_verified(path, model) || digest::sha256_of_file(path).is_ok_and(|digest| digest == sha256)
    })
}
