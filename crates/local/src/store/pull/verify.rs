//! Verification of model files by size and SHA-256.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{FileLock, PullSourceError, spawn_blocking_io};
use crate::store::digest::sha256_of_file;
use crate::store::stamp::VerificationStamp;

/// The size and SHA-256 that a file must have. Values that are not known are not checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExpectedFile {
    pub(super) size: Option<u64>,
    /// The SHA-256 in lower-case hexadecimal digits.
    pub(super) sha256: Option<String>,
}

/// Verifies the size and SHA-256 of the file `downloaded`. If they match `expected`, moves the file
/// to `final_path` and returns `final_path`. Without an expected SHA-256, the stamp marks the file
/// as unverified. `lock` is held until these file operations end, even
/// if the future is dropped.
///
/// # Errors
///
/// Fails with [`PullSourceError::WrongFile`] and removes the file if its size or SHA-256 does not
/// match.
pub(super) async fn verify_and_move(
    downloaded: PathBuf,
    final_path: PathBuf,
    expected: &ExpectedFile,
    lock: &FileLock,
) -> Result<PathBuf, PullSourceError> {
    let expected = expected.clone();
    let wrong = lock.spawn_blocking_io(move || match verify(&downloaded, &expected)? {
        Ok(stamp) => {
            fs::rename(&downloaded, &final_path)?;
            stamp.write(&final_path).map(|()| Ok(final_path))
        }
        Err(reason) => fs::remove_file(&downloaded).map(|()| Err(reason)),
    });
    wrong.await?.map_err(|reason| PullSourceError::WrongFile { reason })
}

/// Verifies the size and SHA-256 of the existing file at `final_path`. Returns `final_path` if they
/// match `expected`, and fails with [`PullSourceError::WrongFile`] if not.
pub(super) async fn verify_in_place(
    final_path: PathBuf,
    expected: &ExpectedFile,
) -> Result<PathBuf, PullSourceError> {
    let expected = expected.clone();
    let wrong = spawn_blocking_io(move || {
        Ok(verify(&final_path, &expected)?.map(|stamp| {
            // The write fails in a read-only folder. Each pull then verifies the file again.
            let _ = stamp.write(&final_path);
            final_path
        }))
    });
    wrong.await?.map_err(|reason| PullSourceError::WrongFile { reason })
}

/// Returns the stamp of the file at `path` if the size and SHA-256 match `expected`. Otherwise
/// returns a description of the mismatch.
fn verify(path: &Path, expected: &ExpectedFile) -> io::Result<Result<VerificationStamp, String>> {
    let found = path.metadata()?.len();
    if let Some(size) = expected.size.filter(|size| *size != found) {
        return Ok(Err(format!("{found} bytes instead of {size}")));
    }
    // The stamp without its SHA-256 is created before the file is hashed. A change during hashing
    // thus invalidates it.
    let stamp = VerificationStamp::of(path, "")?;
    let Some(sha256) = &expected.sha256 else { return Ok(Ok(stamp.with_sha256(None))) };
    let found = sha256_of_file(path)?;
    match *sha256 == found {
        true => Ok(Ok(stamp.with_sha256(Some(&found)))),
        false => Ok(Err(format!("SHA-256 {found} instead of {sha256}"))),
    }
}
