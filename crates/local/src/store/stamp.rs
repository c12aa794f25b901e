//! That a file was right once: a small file beside it, since half a gigabyte takes too long to hash at each start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::KnownModel;

/// What is said of a file that is right. Of one that was changed later something else would have to be said.
pub(super) struct Stamp(String);

impl Stamp {
    /// What would be said of this file as it is now.
    pub(super) fn of(file: &Path, model: &KnownModel) -> io::Result<Self> {
        let file = file.metadata()?;
        let changed = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Ok(Self(format!("{} {} {changed}\n", model.sha256, file.len())))
    }

    /// Whether it has been said.
    pub(super) fn is_beside(&self, file: &Path) -> bool {
        fs::read_to_string(place(file)).is_ok_and(|said| said == self.0)
    }

    #[cfg(feature = "download")]
    pub(super) fn write_beside(&self, file: &Path) -> io::Result<()> {
        fs::write(place(file), &self.0)
    }
}

/// Where the stamp of a file is.
pub(super) fn place(file: &Path) -> PathBuf {
    file.with_added_extension("verified")
}
