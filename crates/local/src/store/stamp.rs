//! Stamps of verified model files. A stamp is a small file beside the model file. A model file with
//! a valid stamp is not hashed again.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use super::KnownModel;

/// The SHA-256, size and modification time of a verified file. If the size or the modification time
/// of the file differs, the file must be verified again.
pub(super) struct VerificationStamp(String);

impl VerificationStamp {
    /// Creates the stamp from the current size and modification time of `file` and the SHA-256 of
    /// `model`. The file is not hashed.
    pub(super) fn of(file: &Path, model: &KnownModel) -> io::Result<Self> {
        let file = file.metadata()?;
        let changed = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Ok(Self(format!("{} {} {changed}\n", model.sha256, file.len())))
    }

    /// Returns `true` if the stamp file beside `file` contains this stamp.
    pub(super) fn matches_file(&self, file: &Path) -> bool {
        fs::read_to_string(stamp_path(file)).is_ok_and(|stamp| stamp == self.0)
    }

    #[cfg(feature = "download")]
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        fs::write(stamp_path(file), &self.0)
    }
}

/// Returns the path of the stamp file of `file`.
pub(super) fn stamp_path(file: &Path) -> PathBuf {
    file.with_added_extension("verified")
}
