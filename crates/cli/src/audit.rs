//! The audit log of a server.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use haft_core::{Pipeline, Timestamp, text::escape_hidden_in_json};
use haft_http::server::RejectedRequest;
use haft_middleware::{AuditEntry, AuditLog as CallLog};
use serde_json::json;

use crate::{error::CliError, terminal};

/// The maximum number of rejected requests with the same status that are recorded per
/// [`REJECTION_PERIOD`]. Otherwise, a client without a token could fill the disk.
const MAX_REJECTIONS: u64 = 60;
const REJECTION_PERIOD: Duration = Duration::from_secs(60);

/// A file with a line of JSON for each call, and for rejected requests. Clones write to the same
/// file.
#[derive(Clone)]
pub(crate) struct AuditLog(Arc<Inner>);

struct Inner {
    path: PathBuf,
    file: Mutex<File>,
    /// The rejected requests by their status.
    rejections: Mutex<BTreeMap<u16, Rejections>>,
}

/// The rejected requests in the current period.
struct Rejections {
    since: Instant,
    count: u64,
}

impl AuditLog {
    /// Opens the file at `path`. Only the user can read a new file.
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        let failed = |error| CliError::new(format!("cannot open the audit log {}: {error}", path.display()));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)?;
        let (path, file, rejections) = (path.to_owned(), Mutex::new(file), Mutex::default());
        Ok(Self(Arc::new(Inner { path, file, rejections })))
    }

    /// Returns a pipeline that records each call.
    pub(crate) fn pipeline(&self) -> Pipeline {
        let log = self.clone();
        Pipeline::new().with_recorder(CallLog::new(move |entry: AuditEntry| log.write(&entry.to_string())))
    }

    /// Records a rejected request. After [`MAX_REJECTIONS`] in a period, only their number is
    /// recorded, with the first rejection of the next period with the same status.
    pub(crate) fn record_rejection(&self, request: &RejectedRequest) {
        let mut by_status = self.0.rejections.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Rejections { since: Instant::now(), count: 0 };
        let rejections = by_status.entry(request.status).or_insert_with(new);
        let mut omitted = None;
        if rejections.since.elapsed() >= REJECTION_PERIOD {
            omitted = rejections.count.checked_sub(MAX_REJECTIONS).filter(|omitted| *omitted > 0);
            *rejections = new();
        }
        rejections.count += 1;
        let is_recorded = rejections.count <= MAX_REJECTIONS;
        drop(by_status);
        if is_recorded {
            let RejectedRequest { status, address, principal, .. } = request;
            let mut entry = json!({
                "started_at": Timestamp::now(), "rejected": status, "address": address, "principal": principal,
            });
            if let Some(omitted) = omitted {
                entry["omitted"] = omitted.into();
            }
            self.write(&entry.to_string());
        }
    }

    fn write(&self, entry: &str) {
        let Inner { path, file, .. } = &*self.0;
        // One write per line, so that several processes can append to the file.
        // Names and arguments are from outside.
        let line = format!("{}\n", escape_hidden_in_json(entry));
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.write_all(line.as_bytes()) {
            terminal::warn(&format!("cannot write to the audit log {}: {error}", path.display()));
        }
    }
}
