//! Integration tests of `haft-session`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking")]

mod disk_full;
mod files;
mod formats;
mod postgres;
mod server;
mod writers;

use std::path::Path;

use haft_session::SqlStore;
use tempfile::TempDir;

/// A database for one test. Each open store is like a process of its own.
enum Database {
    /// A file in a folder that is deleted at the end.
    Sqlite(TempDir),
    /// The URL of a database on the server of the tests.
    Postgres(String),
}

impl Database {
    fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// Creates a database on the server of the tests. Returns `None` if PostgreSQL is not installed.
    async fn postgres() -> Option<Self> {
        Some(Self::Postgres(server::create_database().await?))
    }

    async fn open(&self) -> SqlStore {
        match self {
            Self::Sqlite(folder) => open(&folder.path().join("haft #1%20.db")).await,
            Self::Postgres(url) => SqlStore::open(url).await.unwrap(),
        }
    }
}

async fn open(path: &Path) -> SqlStore {
    SqlStore::open_file(path).await.unwrap()
}

/// Defines a test with SQLite and a test with PostgreSQL for each function.
macro_rules! on_each_database {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(crate::Database::sqlite()).await;
            })*
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if let Some(database) = crate::Database::postgres().await {
                    super::$test(database).await;
                }
            })*
        }
    };
}
use on_each_database;
