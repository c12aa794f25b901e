//! Stamps of model files. A stamp is a small file beside the model file. A verified model file with
//! a valid stamp is not hashed again.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

#[cfg(feature = "download")]
use super::own_file;

/// In the stamp of a file whose SHA-256 the source did not send.
const UNVERIFIED: &str = "unverified";

/// The SHA-256, size and modification time of a verified file. If the size or the modification time
/// of the file differs, the file must be verified again. The stamp of a complete file that could
/// not be verified has no SHA-256.
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

    /// Adds the SHA-256 to a stamp that was created with an empty one. `None` marks the file as
    /// unverified.
    #[cfg(feature = "download")]
    pub(super) fn with_sha256(self, sha256: Option<&str>) -> Self {
        Self(format!("{}{}", sha256.unwrap_or(UNVERIFIED), self.0))
    }

    #[cfg(feature = "download")]
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        own_file::write(&stamp_path(file), &self.0)
    }
}

/// Returns `true` if `file` has a stamp with its size and modification time and any SHA-256.
pub(super) fn has_valid_stamp(file: &Path) -> bool {
    stamped_digest(file).is_some_and(|digest| digest != UNVERIFIED)
}

/// Returns `true` if `file` is complete, also if it could not be verified.
pub(super) fn is_complete(file: &Path) -> bool {
    stamped_digest(file).is_some()
}

/// Returns the first word of the stamp of `file`, if the stamp has its size and modification time.
fn stamped_digest(file: &Path) -> Option<String> {
    let (stamp, expected) = (fs::read_to_string(stamp_path(file)).ok()?, size_and_time(file).ok()?);
    let (digest, found) = stamp.split_once(' ')?;
    (found == expected).then(|| digest.to_owned())
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
