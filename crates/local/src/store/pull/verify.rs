//! Verification of model files by size and SHA-256.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{FileLock, PullSourceError, spawn_blocking_io};
use crate::store::KnownModel;
use crate::store::digest::sha256_of_file;
use crate::store::stamp::VerificationStamp;

/// Verifies the size and SHA-256 of the file `downloaded`. If they match `model`, moves the file to
/// `final_path` and returns `final_path`. `lock` is held until these file operations end, even if
/// the future is dropped.
///
/// # Errors
///
/// Fails with [`PullSourceError::WrongFile`] and removes the file if its size or SHA-256 does not
/// match.
pub(super) async fn verify_and_move(
    downloaded: PathBuf,
    final_path: PathBuf,
    model: &KnownModel,
    lock: &FileLock,
) -> Result<PathBuf, PullSourceError> {
    let model = model.clone();
    let wrong = lock.spawn_blocking_io(move || match verify(&downloaded, &model)? {
        Ok(stamp) => {
            fs::rename(&downloaded, &final_path)?;
            stamp.write(&final_path).map(|()| Ok(final_path))
        }
        Err(reason) => fs::remove_file(&downloaded).map(|()| Err(reason)),
    });
    wrong.await?.map_err(|reason| PullSourceError::WrongFile { reason })
}

/// Verifies the size and SHA-256 of the existing file at `final_path`. Returns `final_path` if they
/// match `model`, and fails with [`PullSourceError::WrongFile`] if not.
pub(super) async fn verify_in_place(
    final_path: PathBuf,
    model: &KnownModel,
) -> Result<PathBuf, PullSourceError> {
    let model = model.clone();
    let wrong = spawn_blocking_io(move || {
        Ok(verify(&final_path, &model)?.map(|stamp| {
            // The write fails in a read-only folder. Each pull then verifies the file again.
            let _ = stamp.write(&final_path);
            final_path
        }))
    });
    wrong.await?.map_err(|reason| PullSourceError::WrongFile { reason })
}

/// Returns the stamp of the file at `path` if the size and SHA-256 match `model`. Otherwise returns
/// a description of the mismatch.
fn verify(path: &Path, model: &KnownModel) -> io::Result<Result<VerificationStamp, String>> {
    let found = path.metadata()?.len();
    if found != model.size {
        return Ok(Err(format!("{found} bytes instead of {}", model.size)));
    }
    // The stamp is created before the file is hashed. A change during hashing thus invalidates it.
    let stamp = VerificationStamp::of(path, model)?;
    let (found, expected) = (sha256_of_file(path)?, model.sha256);
    Ok(if found == expected { Ok(stamp) } else { Err(format!("SHA-256 {found} instead of {expected}")) })
}
