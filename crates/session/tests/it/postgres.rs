//! Tests of the PostgreSQL server: who can open a database, and what it holds.

use haft_core::Message;
use haft_session::{Append, SessionKey, SessionStore, SqlStore, StoreError};
use sqlx::{AnyConnection, Connection as _, Executor as _};

use crate::{Database, server};

/// Executes `sql` in the database at `url`.
async fn execute(url: &str, sql: &'static str) {
    let mut connection = AnyConnection::connect(url).await.unwrap();
    connection.execute(sql).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns the error of the open at `url`. No part of it has one of the `secrets`.
async fn open_error(url: &str, secrets: &[&str]) -> StoreError {
    let error = SqlStore::open(url).await.unwrap_err();
    for secret in secrets {
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
    }
    error
}

#[tokio::test]
async fn missing_server_is_named_without_the_password() {
    let port = server::free_port();
    let error = open_error(&format!("postgres://me:hidden@127.0.0.1:{port}/haft"), &["hidden"]).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("postgres://127.0.0.1:{port}/haft cannot be used"));
    // Passwords that are not escaped, or in the query.
    for url in [
        format!("postgres://127.0.0.1:{port}/hidden@localhost/haft"),
        format!("postgres://me:#hidden@127.0.0.1:{port}/haft"),
        format!("postgres://127.0.0.1:{port}/haft?password=hidden"),
    ] {
        let error = open_error(&url, &["hidden"]).await;
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn wrong_password_is_unavailable() {
    let Some(Database::Postgres(url)) = Database::postgres().await else { return };
    let (_, place) = url.split_once('@').unwrap();
    let url = format!("postgres://haft:hidden@{place}");
    let error = open_error(&url, &["hidden", server::PASSWORD]).await;
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("postgres://{place} cannot be used"));
}

#[tokio::test]
async fn newer_format_is_refused() {
    let Some(database) = Database::postgres().await else { return };
    drop(database.open().await);
    let Database::Postgres(url) = database else { return };
    let sql = "INSERT INTO haft_migrations (version, description, success, checksum, execution_time) \
               VALUES (7, 'later', TRUE, '\\x00', 1)";
    execute(&url, sql).await;
    // The second failure is the same: the first one holds no lock.
    for _ in 0..2 {
        let error = open_error(&url, &[server::PASSWORD]).await;
        assert!(matches!(error, StoreError::Newer { found: 7, known: 2, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn tables_of_another_program_are_unchanged() {
    let Some(Database::Postgres(url)) = Database::postgres().await else { return };
    execute(&url, "CREATE TABLE sessions (id TEXT)").await;
    let error = open_error(&url, &[server::PASSWORD]).await;
    assert!(
        matches!(&error, StoreError::Foreign { reason, .. } if reason.contains("`sessions`")),
        "{error:?}"
    );
    let mut connection = AnyConnection::connect(&url).await.unwrap();
    let sql = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
    let tables: i64 = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
    assert_eq!(tables, 1);
    // A schema of its own.
    connection.execute("CREATE SCHEMA haft").await.unwrap();
    SqlStore::open(&format!("{url}?options=-csearch_path%3Dhaft")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn new_database_is_opened_by_many_processes_at_once() {
    let Some(database) = Database::postgres().await else { return };
    let key = SessionKey::new("talk").unwrap();
    let open = || async {
        let store = database.open().await;
        store.create(&key, None).await.unwrap();
        store.append(&key, Append::messages([Message::user("Hello.")])).await.unwrap();
        store
    };
    let (store, ..) = tokio::join!(open(), open(), open(), open());
    assert_eq!(store.session(&key).await.unwrap().entries, 4);
}
