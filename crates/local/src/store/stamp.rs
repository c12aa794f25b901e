//! Stamps of verified model files. A stamp is a small file beside the model file. A model file with
//! a valid stamp is not hashed again.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

/// The SHA-256, size and modification time of a verified file. If the size or the modification time
/// of the file differs, the file must be verified again.
pub(super) struct VerificationStamp(String);

impl VerificationStamp {
    /// Creates the stamp from the current size and modification time of `file` and its SHA-256. The
    /// file is not hashed.
    pub(super) fn of(file: &Path, sha256: &str) -> io::Result<Self> {
        Ok(Self(format!("{sha256} {}", size_and_time(file)?)))
    }

    /// Returns `true` if the stamp file beside `file` contains this stamp.
    pub(super) fn matches_file(&self, file: &Path) -> bool {
        fs::read_to_string(stamp_path(file)).is_ok_and(|stamp| stamp == self.0)
    }

    /// Adds the SHA-256 to a stamp that was created with an empty one.
    #[cfg(feature = "download")]
    pub(super) fn with_sha256(self, sha256: &str) -> Self {
        Self(format!("{sha256}{}", self.0))
    }

    #[cfg(feature = "download")]
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        fs::write(stamp_path(file), &self.0)
    }
}

/// Returns `true` if `file` has a stamp with its size and modification time and any SHA-256.
pub(super) fn has_valid_stamp(file: &Path) -> bool {
    let (Ok(stamp), Ok(expected)) = (fs::read_to_string(stamp_path(file)), size_and_time(file)) else {
        return false;
    };
    stamp.split_once(' ').is_some_and(|(_, found)| found == expected)
}

fn size_and_time(file: &Path) -> io::Result<String> {
    let file = file.metadata()?;
    let changed = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    Ok(format!("{} {changed}\n", file.len()))
}

/// Returns the path of the stamp file of `file`.
pub(super) fn stamp_path(file: &Path) -> PathBuf {
    file.with_added_extension("verified")
}
