//! Opens a database, and brings it to the current format.

#[cfg(feature = "sqlite")]
use std::path::Path;
use std::time::Duration;

#[cfg(feature = "sqlite")]
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
#[cfg(feature = "sqlite")]
use sqlx::Executor as _;
#[cfg(feature = "postgres")]
use sqlx::any::AnyConnectOptions;
#[cfg(feature = "sqlite")]
use sqlx::query_as;
#[cfg(feature = "postgres")]
use sqlx::query_scalar;
use sqlx::{
    AnyPool, Connection as _, SqlSafeStr as _,
    any::{AnyPoolOptions, install_default_drivers},
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};
use tokio::sync::Mutex;
#[cfg(feature = "sqlite")]
use tokio::time::sleep;

use super::{Kind, SqlStore};
use crate::StoreError;

/// `haft` in ASCII, in the header of an SQLite file.
#[cfg(feature = "sqlite")]
const APPLICATION_ID: i64 = 0x6861_6674;

/// The characters of a path that need no escape in a URL.
#[cfg(feature = "sqlite")]
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// The number of attempts to open a file that another process creates, and the pause between them.
#[cfg(feature = "sqlite")]
const MAX_ATTEMPTS: u32 = 20;
#[cfg(feature = "sqlite")]
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The number of connections. SQLite reads in parallel and writes one by one.
const CONNECTIONS: u32 = 8;

/// The time limit of the first connection to a server.
#[cfg(feature = "postgres")]
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

impl SqlStore {
    /// Opens the database at `url`: `sqlite:FILE` or `postgres://USER:PASSWORD@HOST/DATABASE`.
    ///
    /// # Errors
    ///
    /// Fails with [`StoreError::Unavailable`] if the database cannot be reached, with
    /// [`StoreError::Foreign`] if the file or the tables belong to another program, and with
    /// [`StoreError::Newer`] if a newer version of haft has written it.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        match url.split_once(':') {
            #[cfg(feature = "sqlite")]
            Some(("sqlite", file)) => Self::open_file(file.strip_prefix("//").unwrap_or(file)).await,
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", _)) => Self::open_postgres(url).await,
            scheme => {
                let scheme = scheme.map_or(url, |(scheme, _)| scheme).to_owned();
                let problem = "write `sqlite:FILE` or `postgres://USER:PASSWORD@HOST/DATABASE`";
                Err(StoreError::Unavailable { place: scheme, source: problem.into() })
            }
        }
    }

    /// Opens the SQLite file at `path`, and creates it if there is none.
    ///
    /// # Errors
    ///
    /// Fails in the same cases as [`open`](Self::open).
    #[cfg(feature = "sqlite")]
    pub async fn open_file(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let mut attempts = 1;
        loop {
            match Self::try_open_file(path).await {
                // Another process creates the tables at this moment.
                Err(StoreError::Database(_) | StoreError::Unavailable { .. })
                    if attempts < MAX_ATTEMPTS && path.is_file() =>
                {
                    attempts += 1;
                    sleep(RETRY_PAUSE).await;
                }
                opened => return opened,
            }
        }
    }

    #[cfg(feature = "sqlite")]
    async fn try_open_file(path: &Path) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        let unavailable = |source| StoreError::Unavailable { place: place.clone(), source };
        let text = path.to_str().ok_or_else(|| unavailable("the path is not UTF-8".into()))?;
        let is_new = std::fs::metadata(path).map_or(true, |file| file.len() == 0);
        let url = format!(
            "sqlite://{}?mode={}",
            utf8_percent_encode(text, PATH),
            if is_new { "rwc" } else { "rw" }
        );
        install_default_drivers();
        if is_new {
            create_private(path).map_err(|error| unavailable(error.into()))?;
        }
        // A process that was killed at the first start can leave a database without tables.
        let is_unmarked = is_new || check_file(&url, &place).await?;
        let options = AnyPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
        // A full disk ends a transaction without a rollback. Then `sqlx` waits for one, for ever.
        let options = options.before_acquire(|connection, _| {
            let is_usable = !connection.is_in_transaction();
            Box::pin(async move { Ok(is_usable) })
        });
        let options = options.after_connect(|connection, _| {
            Box::pin(async move {
                // A write is on the disk before it returns.
                let pragmas = "PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
                               PRAGMA foreign_keys = ON";
                connection.execute(pragmas).await.map(drop)
            })
        });
        let pool = options.connect(&url).await.map_err(|error| unavailable(error.into()))?;
        if is_unmarked {
            let mark =
                pool.execute(sqlx::AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION_ID}"))).await;
            mark.map_err(|error| unavailable(error.into()))?;
        }
        let migrations = [
            (1, "first", include_str!("../../migrations/0001.sqlite.sql")),
            (2, "requests and bounds of events", include_str!("../../migrations/0002.sqlite.sql")),
        ];
        Self::migrated(pool, Kind::Sqlite, place, &migrations).await
    }

    #[cfg(feature = "postgres")]
    async fn open_postgres(url: &str) -> Result<Self, StoreError> {
        let place = without_password(url);
        install_default_drivers();
        check_database(url, &place).await?;
        let pool = AnyPoolOptions::new().max_connections(CONNECTIONS).connect(url).await;
        let pool =
            pool.map_err(|error| StoreError::Unavailable { place: place.clone(), source: error.into() })?;
        let migrations = [
            (1, "first", include_str!("../../migrations/0001.postgres.sql")),
            (2, "requests and bounds of events", include_str!("../../migrations/0002.postgres.sql")),
        ];
        Self::migrated(pool, Kind::Postgres, place, &migrations).await
    }

    /// Applies the new `migrations`: pairs of a version, a name and statements.
    async fn migrated(
        pool: AnyPool,
        kind: Kind,
        place: String,
        migrations: &[(i64, &'static str, &'static str)],
    ) -> Result<Self, StoreError> {
        let known = migrations.last().map_or(0, |(version, ..)| *version);
        let migrations = migrations.iter().map(|&(version, name, sql)| {
            Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
        });
        let mut migrator = Migrator::with_migrations(migrations.collect());
        migrator.dangerous_set_table_name("haft_migrations");
        match migrator.run(&pool).await {
            Ok(()) => Ok(Self { pool, kind, place, writer: Mutex::new(()) }),
            Err(MigrateError::VersionMissing(found)) => Err(StoreError::Newer { place, found, known }),
            Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
                let store = Self { pool, kind, place, writer: Mutex::new(()) };
                Err(store.error(error))
            }
            Err(error) => Err(StoreError::Unavailable { place, source: error.into() }),
        }
    }
}

/// Creates an empty file that only its owner can read.
#[cfg(feature = "sqlite")]
fn create_private(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Checks that the existing file at `url` is a database of haft, without a change to the file.
/// Returns `true` for a database without a mark and without tables.
#[cfg(feature = "sqlite")]
async fn check_file(url: &str, place: &str) -> Result<bool, StoreError> {
    let foreign = |reason: String| StoreError::Foreign { place: place.to_owned(), reason };
    let unavailable =
        |error: sqlx::Error| StoreError::Unavailable { place: place.to_owned(), source: error.into() };
    let pool = AnyPoolOptions::new().max_connections(1).connect(url).await.map_err(unavailable)?;
    // One statement, because another process can create the tables at this moment.
    let sql = "SELECT application_id, (SELECT COUNT(*) FROM sqlite_schema) FROM pragma_application_id";
    let found: Result<(i64, i64), _> = query_as(sql).fetch_one(&pool).await;
    pool.close().await;
    let is_no_database = |error: &sqlx::Error| {
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "26")
    };
    match found {
        Ok((APPLICATION_ID, _)) => Ok(false),
        Ok((0, 0)) => Ok(true),
        Ok(_) => Err(foreign("it is an SQLite file of another program".to_owned())),
        Err(error) if is_no_database(&error) => Err(foreign("it is no SQLite file".to_owned())),
        Err(error) => Err(unavailable(error)),
    }
}

/// Checks that the database at `url` can be used, without a change to it. A pool would repeat a
/// refused connection until its timeout, and hide the cause.
#[cfg(feature = "postgres")]
async fn check_database(url: &str, place: &str) -> Result<(), StoreError> {
    let unavailable = |source| StoreError::Unavailable { place: place.to_owned(), source };
    let connection = tokio::time::timeout(CONNECT_TIMEOUT, sqlx::AnyConnection::connect(url)).await;
    let connection = connection.map_err(|_| unavailable("the server does not reply".into()))?;
    let mut connection = connection.map_err(|error| unavailable(error.into()))?;
    // One snapshot: a store that creates the tables at the same time is not another program.
    let sql = "SELECT MIN(CAST(tablename AS TEXT)) FROM pg_tables WHERE schemaname = current_schema() \
               AND tablename IN ('sessions', 'entries', 'blobs', 'blob_uses', 'calls', 'runs', 'decisions', \
               'events', 'words') AND NOT EXISTS (SELECT 1 FROM pg_tables \
               WHERE schemaname = current_schema() AND tablename = 'haft_migrations')";
    let table = query_scalar(sql).fetch_one(&mut connection).await;
    let table: Option<String> = table.map_err(|error| unavailable(error.into()))?;
    let _ = connection.close().await;
    match table {
        None => Ok(()),
        Some(table) => {
            let reason = format!("it has the table `{table}` of another program");
            Err(StoreError::Foreign { place: place.to_owned(), reason })
        }
    }
}

/// Returns `url` without its password.
#[cfg(feature = "postgres")]
fn without_password(url: &str) -> String {
    let url = url.parse::<AnyConnectOptions>().ok().map(|options| options.database_url);
    // With an unescaped `/` in the password, its end is parsed as the path.
    let Some(url) = url.filter(|url| !url.path().contains('@')) else { return "postgres".to_owned() };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}
