//! Whether a file is the one that is known.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{KnownModel, SourceError, blocking};

/// Puts a file in its place if its size and its hash are right, and removes it if they are not.
pub(super) async fn put_in_place(
    arrived: PathBuf,
    place: PathBuf,
    model: &KnownModel,
) -> Result<PathBuf, SourceError> {
    let (size, hash) = (model.size, model.sha256);
    let wrong = blocking(move || {
        let reason = difference(&arrived, size, hash)?;
        match reason {
            None => fs::rename(&arrived, &place).map(|()| Ok(place)),
            Some(reason) => fs::remove_file(&arrived).map(|()| Err(reason)),
        }
    });
    wrong.await?.map_err(|reason| SourceError::WrongFile { reason })
}

fn difference(path: &Path, size: u64, hash: &str) -> io::Result<Option<String>> {
    let found = path.metadata()?.len();
    if found != size {
        return Ok(Some(format!("{found} bytes in place of {size}")));
    }
    let found = sha256(path)?;
    Ok((found != hash).then(|| format!("SHA-256 {found} in place of {hash}")))
}

fn sha256(path: &Path) -> io::Result<String> {
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
