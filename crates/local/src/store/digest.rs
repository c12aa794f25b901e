//! SHA-256 digests of files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Computes the SHA-256 of the file at `path`, in lower-case hexadecimal digits.
pub(super) fn sha256_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hasher.update(buffer.get(..read).unwrap_or_default()),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
