//! Integration tests of `haft-session`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod files;
mod writers;

use std::path::Path;

use haft_session::SqlStore;
use tempfile::TempDir;

/// An SQLite file in a folder that is deleted at the end.
struct Database(TempDir);

impl Database {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("haft #1%20.db")
    }

    async fn open(&self) -> SqlStore {
        open(&self.path()).await
    }
}

async fn open(path: &Path) -> SqlStore {
    SqlStore::open_file(path).await.unwrap()
}
