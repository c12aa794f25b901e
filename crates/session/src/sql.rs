//! The store in an SQL database.

mod entries;
mod events;
mod open;
mod queries;
mod requests;
mod runs;
mod sessions;

use std::{borrow::Cow, fmt, time::Duration};

use async_trait::async_trait;
use haft_core::{
    Timestamp,
    call::{BoxError, Decision, Decisions},
};
use serde_json::Value;
use sqlx::{Any, AnyPool, Transaction};
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    Append, Entry, EntryBody, Lease, NewRun, RequestKey, Retention, RunSummary, RunUpdate, SearchHit,
    Session, SessionKey, SessionStore, StoreError, StoredEvent, StoredRun, ToolStats,
};

/// The number of events of a session that are kept.
const MAX_EVENTS: i64 = 10_000;

/// The size of the events of a session that are kept, in bytes.
const MAX_EVENT_BYTES: i64 = 16 * 1024 * 1024;

/// The size of the searched part of a message with PostgreSQL, in bytes. A `tsvector` has at most
/// 1 MiB, with up to 4 bytes for a word beside its text.
const MAX_SEARCHED: usize = 256 * 1024;

/// A [`SessionStore`] in an SQLite file or on a PostgreSQL server. It keeps the latest 10,000 events
/// of a session, and at most 16 MiB of them.
///
/// # SQLite
///
/// One file, created on first use, in WAL mode. Each write is synchronized to the disk before it
/// returns. Several processes can use the file at once, on one machine.
///
/// # PostgreSQL
///
/// The tables are created in the default schema of the connection. The clock of the server decides
/// about leases, so the clocks of the machines can differ. The search finds words in the first
/// 256 KiB of a message. Ids, titles and tenants cannot contain the character U+0000.
pub struct SqlStore {
    pool: AnyPool,
    kind: Kind,
    /// The file or the server, without a password.
    place: String,
    /// SQLite has one writer. Tasks of this process wait here in order.
    writer: Mutex<()>,
}

/// The kind of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(feature = "sqlite")]
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

impl Kind {
    fn is_sqlite(self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => true,
            #[cfg(feature = "postgres")]
            Self::Postgres => false,
        }
    }
}

/// A transaction that writes. Dropping it rolls it back.
struct Write<'s> {
    tx: Transaction<'static, Any>,
    is_sqlite: bool,
    _turn: Option<MutexGuard<'s, ()>>,
}

/// Implements [`sqlx::FromRow`] for a struct whose fields are named like the columns.
macro_rules! from_row {
    ($row:ident { $($column:ident),* $(,)? }) => {
        impl<'r> sqlx::FromRow<'r, sqlx::any::AnyRow> for $row {
            fn from_row(row: &'r sqlx::any::AnyRow) -> Result<Self, sqlx::Error> {
                use sqlx::Row as _;
                Ok(Self { $($column: row.try_get(stringify!($column))?),* })
            }
        }
    };
}
use from_row;

/// The row of a session.
struct SessionRow {
    pk: i64,
    id: String,
    title: Option<String>,
    head: i64,
    last_event: i64,
    event_bytes: i64,
    created_at: i64,
    updated_at: i64,
}

from_row!(SessionRow { pk, id, title, head, last_event, event_bytes, created_at, updated_at });

impl From<SessionRow> for Session {
    fn from(row: SessionRow) -> Self {
        Self {
            id: row.id,
            title: row.title,
            entries: unsigned(row.head),
            last_event: unsigned(row.last_event),
            created_at: Timestamp::from_unix_millis(row.created_at),
            updated_at: Timestamp::from_unix_millis(row.updated_at),
        }
    }
}

impl SqlStore {
    /// Begins a transaction that writes.
    async fn write(&self) -> Result<Write<'_>, StoreError> {
        let is_sqlite = self.kind.is_sqlite();
        let turn = if is_sqlite { Some(self.writer.lock().await) } else { None };
        // A transaction that begins with a read and writes later could fail as busy.
        // With PostgreSQL, each statement reads what was committed before it waited for a lock.
        let begin =
            if is_sqlite { "BEGIN IMMEDIATE" } else { "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" };
        let tx = self.pool.begin_with(begin).await.map_err(|error| self.error(error))?;
        Ok(Write { tx, is_sqlite, _turn: turn })
    }

    /// Begins a transaction whose statements read the same state.
    async fn read(&self) -> Result<Transaction<'static, Any>, StoreError> {
        let begin =
            if self.kind.is_sqlite() { "BEGIN" } else { "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" };
        self.pool.begin_with(begin).await.map_err(|error| self.error(error))
    }

    async fn commit(&self, write: Write<'_>) -> Result<(), StoreError> {
        write.tx.commit().await.map_err(|error| self.error(error))
    }

    /// Converts an error of the database.
    fn error(&self, error: sqlx::Error) -> StoreError {
        let code = error.as_database_error().and_then(|error| error.code().map(Cow::into_owned));
        match (code.as_deref(), &error) {
            // SQLITE_FULL and PostgreSQL's disk_full.
            (Some("13" | "53100"), _) => StoreError::Full(self.place.clone()),
            // PostgreSQL's too_many_connections, admin_shutdown, crash_shutdown, cannot_connect_now.
            (Some("53300" | "57P01" | "57P02" | "57P03"), _)
            | (_, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed) => {
                StoreError::Unavailable { place: self.place.clone(), source: error.into() }
            }
            _ => StoreError::Database(error.into()),
        }
    }
}

impl Write<'_> {
    /// Returns the time, from the clock that all processes share.
    async fn now(&mut self) -> Result<Timestamp, sqlx::Error> {
        if self.is_sqlite {
            return Ok(Timestamp::now());
        }
        let sql = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
        Ok(Timestamp::from_unix_millis(sqlx::query_scalar(sql).fetch_one(&mut *self.tx).await?))
    }
}

/// Returns the lowercase words of `text`, separated by spaces, for the search of PostgreSQL. Its
/// parser would make one word of a path or a host name, rejects U+0000, and depends on the locale.
fn normalized(text: &str) -> String {
    text.to_lowercase().replace(|character: char| !character.is_alphanumeric(), " ")
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_unix_millis(time.unix_millis().saturating_add(millis(by)))
}

fn unreadable(what: &'static str) -> impl FnOnce(serde_json::Error) -> StoreError {
    move |error| StoreError::Unreadable { what, source: BoxError::from(error) }
}

impl fmt::Debug for SqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStore").field("place", &self.place).finish_non_exhaustive()
    }
}

#[async_trait]
impl SessionStore for SqlStore {
    async fn create(&self, key: &SessionKey, title: Option<&str>) -> Result<Session, StoreError> {
        self.create_session(key, title).await
    }

    async fn create_with(
        &self,
        key: &SessionKey,
        title: Option<&str>,
        entries: Vec<EntryBody>,
    ) -> Result<Session, StoreError> {
        self.create_filled(key, title, &entries).await
    }

    async fn session(&self, key: &SessionKey) -> Result<Session, StoreError> {
        Ok(self.find_session(key).await?.into())
    }

    async fn sessions(
        &self,
        tenant: &str,
        after: Option<(Timestamp, &str)>,
        limit: u32,
    ) -> Result<Vec<Session>, StoreError> {
        self.list_sessions(tenant, after, limit).await
    }

    async fn delete(&self, key: &SessionKey) -> Result<(), StoreError> {
        self.delete_session(key).await
    }

    async fn append(&self, key: &SessionKey, append: Append) -> Result<u64, StoreError> {
        self.append_entries(key, append).await
    }

    async fn entries(&self, key: &SessionKey, after: u64, limit: u32) -> Result<Vec<Entry>, StoreError> {
        self.read_entries(key, after, limit).await
    }

    async fn start_run(&self, key: &SessionKey, run: NewRun, lease: Duration) -> Result<Lease, StoreError> {
        self.insert_run(key, run, lease).await
    }

    async fn run(&self, tenant: &str, run: &str) -> Result<StoredRun, StoreError> {
        self.read_run(tenant, run).await
    }

    async fn runs(&self, key: &SessionKey, limit: u32) -> Result<Vec<RunSummary>, StoreError> {
        self.list_runs(key, limit).await
    }

    async fn run_summary(&self, tenant: &str, run: &str) -> Result<RunSummary, StoreError> {
        self.read_summary(tenant, run).await
    }

    async fn run_entries(&self, tenant: &str, run: &str) -> Result<Vec<Entry>, StoreError> {
        self.read_run_entries(tenant, run).await
    }

    async fn handled_by(&self, tenant: &str, request: &RequestKey) -> Result<Option<String>, StoreError> {
        self.find_request(tenant, request).await
    }

    async fn active_run(&self, key: &SessionKey) -> Result<Option<String>, StoreError> {
        self.find_active_run(key).await
    }

    async fn abandoned_runs(&self, limit: u32) -> Result<Vec<(String, String)>, StoreError> {
        self.list_abandoned_runs(limit).await
    }

    async fn acquire(&self, tenant: &str, run: &str, lease: Duration) -> Result<Lease, StoreError> {
        self.acquire_run(tenant, run, lease).await
    }

    async fn renew(&self, lease: &Lease, time: Duration) -> Result<Lease, StoreError> {
        self.renew_lease(lease, time).await
    }

    async fn save(&self, lease: &Lease, update: RunUpdate) -> Result<u64, StoreError> {
        self.save_run(lease, update).await
    }

    async fn decide(
        &self,
        tenant: &str,
        run: &str,
        call: &str,
        decision: &Decision,
    ) -> Result<(), StoreError> {
        self.insert_decision(tenant, run, call, decision).await
    }

    async fn decisions(&self, tenant: &str, run: &str) -> Result<Decisions, StoreError> {
        self.read_decisions(tenant, run).await
    }

    async fn append_events(
        &self,
        key: &SessionKey,
        run: &str,
        events: Vec<Value>,
    ) -> Result<u64, StoreError> {
        self.insert_events(key, run, events).await
    }

    async fn events(
        &self,
        key: &SessionKey,
        run: Option<&str>,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        self.read_events(key, run, after, limit).await
    }

    async fn search(&self, tenant: &str, query: &str, limit: u32) -> Result<Vec<SearchHit>, StoreError> {
        self.search_words(tenant, query, limit).await
    }

    async fn tool_stats(&self, tenant: &str) -> Result<Vec<ToolStats>, StoreError> {
        self.count_calls(tenant).await
    }

    async fn prune(&self, retention: &Retention) -> Result<u64, StoreError> {
        self.delete_old(retention).await
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}
