//! The stamp of a verified file: a small file beside it. Hashing half a gigabyte at each start
//! takes too long.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::KnownModel;

/// SHA-256, size and modification time of a verified file. If size or time differ, the file is
/// verified again.
pub(super) struct Stamp(String);

impl Stamp {
    /// The stamp that the file would have now.
    pub(super) fn of(file: &Path, model: &KnownModel) -> io::Result<Self> {
        let file = file.metadata()?;
        let changed = file.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Ok(Self(format!("{} {} {changed}\n", model.sha256, file.len())))
    }

    /// Returns `true` if the file has this stamp.
    pub(super) fn is_beside(&self, file: &Path) -> bool {
        fs::read_to_string(place(file)).is_ok_and(|stamp| stamp == self.0)
    }

    #[cfg(feature = "download")]
    pub(super) fn write_beside(&self, file: &Path) -> io::Result<()> {
        fs::write(place(file), &self.0)
    }
}

/// The path of a file's stamp.
pub(super) fn place(file: &Path) -> PathBuf {
    file.with_added_extension("verified")
}
