//! Whether a file is the one that is known.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{SourceError, blocking};
use crate::store::KnownModel;
use crate::store::stamp::Stamp;

/// Puts a file in its place if its size and its hash are right, and removes it if they are not.
pub(super) async fn put_in_place(
    arrived: PathBuf,
    place: PathBuf,
    model: &KnownModel,
) -> Result<PathBuf, SourceError> {
    let model = model.clone();
    let wrong = blocking(move || match check(&arrived, &model)? {
        Ok(stamp) => {
            fs::rename(&arrived, &place)?;
            stamp.write_beside(&place).map(|()| Ok(place))
        }
        Err(reason) => fs::remove_file(&arrived).map(|()| Err(reason)),
    });
    wrong.await?.map_err(|reason| SourceError::WrongFile { reason })
}

/// Accepts a file that lies in its place already, if its size and its hash are right.
pub(super) async fn accept(place: PathBuf, model: &KnownModel) -> Result<PathBuf, SourceError> {
    let model = model.clone();
    let wrong = blocking(move || {
        Ok(check(&place, &model)?.map(|stamp| {
            // In a folder that can only be read, the file is checked each time.
            let _ = stamp.write_beside(&place);
            place
        }))
    });
    wrong.await?.map_err(|reason| SourceError::WrongFile { reason })
}

/// What may be said of a file that is right, or what is wrong with it.
fn check(path: &Path, model: &KnownModel) -> io::Result<Result<Stamp, String>> {
    let found = path.metadata()?.len();
    if found != model.size {
        return Ok(Err(format!("{found} bytes in place of {}", model.size)));
    }
    // Before the hash: what changes meanwhile must not have been seen.
    let stamp = Stamp::of(path, model)?;
    let (found, expected) = (sha256(path)?, model.sha256);
    Ok(if found == expected { Ok(stamp) } else { Err(format!("SHA-256 {found} in place of {expected}")) })
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
