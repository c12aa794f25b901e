//! The audit log of a served toolset.

use std::{
    fs::OpenOptions,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{Mutex, PoisonError},
};

use haft_core::Pipeline;
use haft_middleware::{AuditEntry, AuditLog};

use crate::{error::CliError, terminal};

/// Returns a pipeline that appends a line of JSON for each call to the file at `path`. Only the
/// user can read a new file.
pub(super) fn audited(path: &Path) -> Result<Pipeline, CliError> {
    let failed = |error| CliError::new(format!("cannot open the audit log {}: {error}", path.display()));
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)?;
    let (file, path) = (Mutex::new(file), path.to_owned());
    Ok(Pipeline::new().with_recorder(AuditLog::new(move |entry: AuditEntry| {
        // One write per line, so that several processes can append to the file.
        let line = format!("{entry}\n");
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            terminal::warn(&format!("cannot write to the audit log {}: {error}", path.display()));
        }
    })))
}
