//! Verification of model files by size and SHA-256.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{PullSourceError, blocking};
use crate::store::KnownModel;
use crate::store::digest::sha256;
use crate::store::stamp::Stamp;

/// Moves the file `downloaded` to `final_path` if its size and SHA-256 match those of `model`, and
/// removes it if not. Returns `final_path`.
pub(super) async fn verify_and_move(
    downloaded: PathBuf,
    final_path: PathBuf,
    model: &KnownModel,
) -> Result<PathBuf, PullSourceError> {
    let model = model.clone();
    let wrong = blocking(move || match check(&downloaded, &model)? {
        Ok(stamp) => {
            fs::rename(&downloaded, &final_path)?;
            stamp.write(&final_path).map(|()| Ok(final_path))
        }
        Err(reason) => fs::remove_file(&downloaded).map(|()| Err(reason)),
    });
    wrong.await?.map_err(|reason| PullSourceError::WrongFile { reason })
}

/// Accepts the existing file at `final_path` if its size and SHA-256 match those of `model`.
/// Returns `final_path`.
pub(super) async fn verify_in_place(
    final_path: PathBuf,
    model: &KnownModel,
) -> Result<PathBuf, PullSourceError> {
    let model = model.clone();
    let wrong = blocking(move || {
        Ok(check(&final_path, &model)?.map(|stamp| {
            // In a read-only folder, the stamp cannot be written. Each pull then verifies the file
            // again.
            let _ = stamp.write(&final_path);
            final_path
        }))
    });
    wrong.await?.map_err(|reason| PullSourceError::WrongFile { reason })
}

/// Returns the stamp of the file at `path` if its size and SHA-256 match those of `model`, or a
/// description of the mismatch.
fn check(path: &Path, model: &KnownModel) -> io::Result<Result<Stamp, String>> {
    let found = path.metadata()?.len();
    if found != model.size {
        return Ok(Err(format!("{found} bytes instead of {}", model.size)));
    }
    // The stamp is taken before hashing, so a change of the file during hashing invalidates it.
    let stamp = Stamp::of(path, model)?;
    let (found, expected) = (sha256(path)?, model.sha256);
    Ok(if found == expected { Ok(stamp) } else { Err(format!("SHA-256 {found} instead of {expected}")) })
}
