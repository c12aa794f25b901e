//! Evaluated prefixes in a folder.

use std::cmp::Reverse;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};
use tracing::debug;

use super::{BLOCK_TOKENS, MAX_ENTRIES, PrefixCache};
use crate::common_prefix_length;

/// The first bytes of a file.
const MAGIC: [u8; 16] = *b"haft prefix\r\n\x1A\0\0";
/// The version of the file format and of the network. Increase it if the network computes other
/// keys and values for the same tokens.
const VERSION: u8 = 2;
/// The extension of complete files.
const EXTENSION: &str = "prefix";
/// The extension of files that are being written.
const PARTIAL: &str = "partial";
/// The age after which a partial file is removed: its process has ended without removing it.
const PARTIAL_LIFETIME: Duration = Duration::from_secs(3600);
/// The minimum number of tokens that a file must add to be loaded or written. Fewer tokens are
/// evaluated in about the same time.
const MIN_ADDED_TOKENS: usize = 128;
/// The minimum number of tokens of a stored prefix.
const MIN_STORED_TOKENS: usize = 256;

/// The prefixes of one model in the folder of a [`PrefixCache`].
///
/// A file has a header and blocks. The header has the magic bytes, the hash of model and versions
/// (32 bytes), the number of bytes per token and the number of tokens (32 bits each), the tokens
/// (32 bits each), and the CRC-32 of all these. A block has the keys and values of at most
/// [`BLOCK_TOKENS`] tokens and their CRC-32. Numbers are in little-endian order.
pub(crate) struct PrefixFolder {
    cache: PrefixCache,
    model: [u8; 32],
    bytes_per_token: usize,
}

/// A prefix in an open file, whose header was read.
struct StoredPrefix {
    path: PathBuf,
    file: BufReader<File>,
    tokens: Vec<u32>,
}

/// A reason not to use a file.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    /// The file is damaged. It is removed.
    #[error("the file is damaged")]
    Damaged,
    /// The file belongs to another model or to another version of this crate.
    #[error("the file belongs to another model")]
    OtherModel,
    /// The file cannot be read. It may have been removed by another process.
    #[error("the file cannot be read: {0}")]
    Unreadable(io::Error),
}

impl PrefixFolder {
    /// Creates the folder of `cache` for the model with the fingerprint `model`, whose keys and
    /// values have `bytes_per_token` bytes per token. Returns `None` if the maximum size is 0.
    pub(crate) fn new(cache: PrefixCache, model: &[u8; 32], bytes_per_token: usize) -> Option<Self> {
        let crate_version = env!("CARGO_PKG_VERSION").as_bytes();
        let model = Sha256::digest([model.as_slice(), crate_version, &[VERSION]].concat()).into();
        (cache.max_bytes > 0).then_some(Self { cache, model, bytes_per_token })
    }

    /// Loads the longest stored prefix of `prompt`, if it is longer than `length` by at least
    /// [`MIN_ADDED_TOKENS`]. Calls `import` with the position and the keys and values of each
    /// block. A block may contain tokens that are not in `prompt`. Returns the new length, which is
    /// less than the length of `prompt`.
    pub(crate) fn load<E: std::fmt::Display>(
        &self,
        prompt: &[u32],
        length: usize,
        mut import: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> usize {
        let usable = prompt.get(..prompt.len().saturating_sub(1)).unwrap_or_default();
        if usable.len() < length + MIN_ADDED_TOKENS {
            return length;
        }
        let Some((mut stored, common)) = self.longest_prefix(usable) else { return length };
        if common < length + MIN_ADDED_TOKENS {
            return length;
        }
        let mut loaded = length;
        while loaded < common {
            let begin = loaded - loaded % BLOCK_TOKENS;
            match stored.read_block(begin, self.bytes_per_token) {
                Ok(block) => {
                    if let Err(error) = import(begin, &block) {
                        debug!(%error, "the stored prefix cannot be imported");
                        return begin;
                    }
                    loaded = common.min(begin + BLOCK_TOKENS);
                }
                Err(reason) => {
                    discard(&stored.path, &reason);
                    return loaded;
                }
            }
        }
        // The modification time is the time of the last use.
        if let Err(error) = stored.file.get_ref().set_modified(SystemTime::now()) {
            debug!(%error, "the time of the last use cannot be stored");
        }
        debug!(tokens = loaded, path = %stored.path.display(), "loaded a prefix");
        loaded
    }

    /// Stores the keys and values of `tokens`. `export` returns those of a range of `tokens`. Does
    /// nothing if `tokens` is short, or if stored prefixes contain nearly all of `tokens`.
    pub(crate) fn store<E: std::fmt::Display>(
        &self,
        tokens: &[u32],
        mut export: impl FnMut(Range<usize>) -> Result<Vec<u8>, E>,
    ) {
        if tokens.len() < MIN_STORED_TOKENS {
            return;
        }
        let known = self.longest_prefix(tokens);
        if known.as_ref().is_some_and(|(_, common)| tokens.len() < common + MIN_ADDED_TOKENS) {
            return;
        }
        let mut export = |range| export(range).map_err(|error| io::Error::other(error.to_string()));
        let written = match self.file_bytes(tokens.len()) > self.cache.max_bytes {
            true => Err(io::Error::other("the prefix is larger than the cache")),
            false => self.write(tokens, &mut export),
        };
        match written {
            Ok(path) => {
                debug!(tokens = tokens.len(), path = %path.display(), "stored a prefix");
                // The new file contains everything of a file with a shorter prefix.
                if let Some((shorter, _)) = known.filter(|(stored, common)| stored.tokens.len() == *common) {
                    let _ = fs::remove_file(&shorter.path);
                }
            }
            Err(error) => debug!(%error, "the prefix is not stored"),
        }
    }

    fn write(
        &self,
        tokens: &[u32],
        export: &mut dyn FnMut(Range<usize>) -> io::Result<Vec<u8>>,
    ) -> io::Result<PathBuf> {
        create_private_folder(&self.cache.folder)?;
        let header = self.header(tokens);
        let name: String =
            Sha256::digest(&header).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let path = self.cache.folder.join(format!("{name}.{EXTENSION}"));
        // Another process may be writing the same prefix.
        let partial = path.with_extension(format!("{:016x}.{PARTIAL}", rand::random::<u64>()));
        let mut write = || {
            let mut file = create_private_file(&partial)?;
            file.write_all(&header)?;
            for start in (0..tokens.len()).step_by(BLOCK_TOKENS) {
                let block = export(start..tokens.len().min(start + BLOCK_TOKENS))?;
                file.write_all(&block)?;
                file.write_all(&crc32fast::hash(&block).to_le_bytes())?;
            }
            // The file is not synchronized: after a power failure, the checksums detect a
            // truncated file.
            drop(file);
            fs::rename(&partial, &path)
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        self.remove_excess();
        written.map(|()| path)
    }

    fn header(&self, tokens: &[u32]) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend(self.model);
        header.extend((self.bytes_per_token as u32).to_le_bytes());
        header.extend((tokens.len() as u32).to_le_bytes());
        header.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        header.extend(crc32fast::hash(&header).to_le_bytes());
        header
    }

    /// Returns the size of the file of a prefix of `tokens` tokens.
    pub(super) fn file_bytes(&self, tokens: usize) -> u64 {
        let header = MAGIC.len() + self.model.len() + 8 + 4 * tokens + 4;
        (header + tokens * self.bytes_per_token + 4 * tokens.div_ceil(BLOCK_TOKENS)) as u64
    }

    /// Returns the file that shares the longest prefix with `tokens`, and the length of this
    /// prefix. Removes damaged files.
    fn longest_prefix(&self, tokens: &[u32]) -> Option<(StoredPrefix, usize)> {
        let files = files_in(&self.cache.folder, EXTENSION).ok()?;
        let stored = files.into_iter().filter_map(|file| match self.open(&file.path) {
            Ok(stored) => Some(stored),
            Err(reason) => {
                discard(&file.path, &reason);
                None
            }
        });
        let stored = stored.map(|stored| {
            let common = common_prefix_length(&stored.tokens, tokens);
            (stored, common)
        });
        stored.max_by_key(|(_, common)| *common).filter(|(_, common)| *common > 0)
    }

    /// Opens the file at `path` and reads its header.
    fn open(&self, path: &Path) -> Result<StoredPrefix, Unusable> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut file = BufReader::new(file);
        let mut hasher = crc32fast::Hasher::new();
        let mut read = |bytes: &mut [u8]| -> io::Result<()> {
            file.read_exact(bytes)?;
            hasher.update(bytes);
            Ok(())
        };
        let (mut magic, mut model, mut number) = ([0; MAGIC.len()], [0; 32], [0; 4]);
        read(&mut magic)?;
        if magic != MAGIC {
            return Err(Unusable::Damaged);
        }
        read(&mut model)?;
        if model != self.model {
            return Err(Unusable::OtherModel);
        }
        read(&mut number)?;
        let bytes_per_token = u32::from_le_bytes(number) as usize;
        read(&mut number)?;
        let count = u32::from_le_bytes(number) as usize;
        // The size is checked before memory for the tokens is allocated.
        if bytes_per_token != self.bytes_per_token || self.file_bytes(count) != length {
            return Err(Unusable::Damaged);
        }
        let mut tokens = vec![0; 4 * count];
        read(&mut tokens)?;
        let checksum = hasher.finalize();
        file.read_exact(&mut number)?;
        if u32::from_le_bytes(number) != checksum {
            return Err(Unusable::Damaged);
        }
        let tokens = tokens.as_chunks().0.iter().map(|token| u32::from_le_bytes(*token)).collect();
        Ok(StoredPrefix { path: path.to_owned(), file, tokens })
    }

    /// Removes the least recently used files until the folder is within its bounds, and abandoned
    /// partial files.
    fn remove_excess(&self) {
        let Ok(mut files) = files_in(&self.cache.folder, EXTENSION) else { return };
        files.sort_by_key(|file| Reverse(file.modified));
        let mut total = 0;
        for (index, file) in files.iter().enumerate() {
            total += file.bytes;
            if index >= MAX_ENTRIES || total > self.cache.max_bytes {
                let _ = fs::remove_file(&file.path);
            }
        }
        for file in files_in(&self.cache.folder, PARTIAL).unwrap_or_default() {
            if file.modified.elapsed().is_ok_and(|age| age > PARTIAL_LIFETIME) {
                let _ = fs::remove_file(&file.path);
            }
        }
    }
}

impl StoredPrefix {
    /// Reads the block at position `start` in tokens.
    fn read_block(&mut self, start: usize, bytes_per_token: usize) -> Result<Vec<u8>, Unusable> {
        let blocks_before = start / BLOCK_TOKENS;
        let from_end = (self.tokens.len() - start) * bytes_per_token
            + 4 * (self.tokens.len().div_ceil(BLOCK_TOKENS) - blocks_before);
        let end = self.file.get_ref().metadata()?.len();
        self.file.seek(SeekFrom::Start(end.saturating_sub(from_end as u64)))?;
        let tokens = BLOCK_TOKENS.min(self.tokens.len() - start);
        let (mut block, mut checksum) = (vec![0; tokens * bytes_per_token], [0; 4]);
        self.file.read_exact(&mut block)?;
        self.file.read_exact(&mut checksum)?;
        match crc32fast::hash(&block) == u32::from_le_bytes(checksum) {
            true => Ok(block),
            false => Err(Unusable::Damaged),
        }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::Unreadable(error),
        }
    }
}

/// Removes the file at `path` if it is damaged.
fn discard(path: &Path, reason: &Unusable) {
    if !matches!(reason, Unusable::OtherModel) {
        debug!(path = %path.display(), %reason, "a stored prefix cannot be used");
    }
    if matches!(reason, Unusable::Damaged) {
        let _ = fs::remove_file(path);
    }
}

struct FileEntry {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

/// Returns the files in `folder` whose names end with `extension`.
fn files_in(folder: &Path, extension: &str) -> io::Result<Vec<FileEntry>> {
    let entries = fs::read_dir(folder)?.filter_map(|entry| {
        let entry = entry.ok()?;
        let (path, file) = (entry.path(), entry.metadata().ok()?);
        let is_match = file.is_file() && path.extension().is_some_and(|found| found == extension);
        is_match.then_some(FileEntry { path, bytes: file.len(), modified: file.modified().ok()? })
    });
    Ok(entries.collect())
}

/// Creates `folder`. On Unix, only the user can access it.
fn create_private_folder(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates the file at `path`, which must not exist. On Unix, only the user can read it.
fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
