//! Fingerprints of model files, which are computed without reading the whole file.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

/// The number of samples of a file.
const SAMPLES: u64 = 64;
/// The length of a sample in bytes.
const SAMPLE_BYTES: u64 = 4096;

/// Returns a hash of the size, the modification time and 64 samples of the content of the file at
/// `path`. Two files with the same fingerprint have the same content, unless a program forged it.
pub(crate) fn fingerprint(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    let size = metadata.len();
    let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = Sha256::new();
    hasher.update(size.to_le_bytes());
    hasher.update(modified.as_nanos().to_le_bytes());
    for index in 0..SAMPLES {
        let start =
            u128::from(size.saturating_sub(SAMPLE_BYTES)) * u128::from(index) / u128::from(SAMPLES - 1);
        file.seek(SeekFrom::Start(start as u64))?;
        let mut sample = Vec::new();
        (&mut file).take(SAMPLE_BYTES).read_to_end(&mut sample)?;
        hasher.update(&sample);
    }
    Ok(hasher.finalize().into())
}
