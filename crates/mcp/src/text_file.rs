//! Text files that people write.

use std::{fs, io, path::Path};

use haft_core::text::decode_utf8;

/// Reads the text file at `path`, without a byte order mark.
///
/// # Errors
///
/// Fails if the file cannot be read, or if it is not UTF-8. The error contains no content.
pub(crate) fn read(path: impl AsRef<Path>) -> io::Result<String> {
    decode_utf8(fs::read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
