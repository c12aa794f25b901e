//! Reuse of evaluated prompt prefixes: in memory between the conversations of a process, and on
//! disk between processes.
//!
//! A prefix is stored in blocks of [`BLOCK_TOKENS`] tokens with their keys and values, in the form
//! of [`Network::export_cache`](crate::network::Network::export_cache).

mod disk;
mod memory;
#[cfg(test)]
mod tests;

use std::env;
use std::path::{Path, PathBuf};

pub(crate) use self::disk::PrefixFolder;
pub(crate) use self::memory::{MemoryBlocks, TakenBlocks};
use crate::NoHomeFolder;
use crate::store::cache_folder;

/// The number of tokens in a block. The last block of a prefix may have fewer.
pub(crate) const BLOCK_TOKENS: usize = 64;

/// The default of [`PrefixCache::max_bytes`].
const DEFAULT_MAX_BYTES: u64 = 1 << 30;
/// The maximum number of prefixes in a folder.
const MAX_ENTRIES: usize = 16;

/// A folder with the evaluated beginnings of prompts, which makes the second start of a program
/// fast: its instructions and its tool list are not evaluated again.
///
/// After a reply, the keys and values of the instructions and the tool list are written to a file,
/// if they have at least 256 tokens. The messages of the user and everything after them are not
/// written. A later request that begins with the same tokens loads them, in this process or in
/// another one. The file has about 25 kB per token for a model with half a billion parameters, and
/// 57 kB for 1.5 billion.
///
/// # Files
///
/// A file belongs to one model file (its size, modification time and samples of its content) and to
/// one version of this crate. The folder has at most 16 files and [`max_bytes`](Self::max_bytes)
/// bytes; the least recently used files are removed. Instructions can be confidential: on Unix,
/// only the user can read the folder (mode 0700) and the files (mode 0600). A damaged file is
/// removed. An error of the file system is logged at the level `debug` and has no other effect.
///
/// # Examples
///
/// ```no_run
/// use haft_local::{LocalModel, PrefixCache};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let cache = PrefixCache::in_folder("/var/cache/my-program").max_bytes(200_000_000);
/// let model = LocalModel::builder().prefix_cache(cache).open("model.gguf").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct PrefixCache {
    folder: PathBuf,
    max_bytes: u64,
}

impl PrefixCache {
    /// Creates the default cache of the user: `haft/prefixes` in the user's cache folder, or
    /// `$HAFT_CACHE/prefixes` if `HAFT_CACHE` is set. `HAFT_PREFIX_CACHE_MB` is the maximum size in
    /// megabytes. With 0, nothing is read or written. If the variable is unset or no number, the
    /// size is 1,074 MB (1 GiB).
    ///
    /// # Errors
    ///
    /// Fails if the user has no home folder and `HAFT_CACHE` is unset or empty.
    pub fn new() -> Result<Self, NoHomeFolder> {
        let megabytes: Option<u64> =
            env::var("HAFT_PREFIX_CACHE_MB").ok().and_then(|number| number.trim().parse().ok());
        let max_bytes = megabytes.map_or(DEFAULT_MAX_BYTES, |number| number.saturating_mul(1_000_000));
        Ok(Self::in_folder(cache_folder()?.join("prefixes")).max_bytes(max_bytes))
    }

    /// Creates a cache in `folder`, with the default size. The first write creates the folder. Use
    /// a folder without other files.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), max_bytes: DEFAULT_MAX_BYTES }
    }

    /// Sets the maximum size of all files in bytes. A longer prefix is not stored. With 0, nothing
    /// is read or written. The default is 1 GiB.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
