//! Tests of the database file: who can open it, what it holds, and its size.

use std::{error::Error as _, fs};

use haft_core::Message;
use haft_session::{Append, Conversation, ImportError, SessionKey, SessionStore, SqlStore, StoreError};

use crate::{Database, open};

#[tokio::test]
async fn conversation_is_read_by_another_process() {
    let database = Database::sqlite();
    let key = SessionKey::new("talk").unwrap();
    let store = database.open().await;
    store.create(&key, None).await.unwrap();
    store.append(&key, Append::messages([Message::user("Hello.")])).await.unwrap();
    // No orderly end: the store is still open.
    let other = database.open().await;
    assert_eq!(other.conversation(&key).await.unwrap().transcript.messages()[0].text(), "Hello.");
}

#[tokio::test]
async fn file_of_another_program_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "a text that is long enough to be no header of a database\n".repeat(20)).unwrap();
    let before = fs::read(&path).unwrap();
    let error = SqlStore::open_file(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), before);

    // An SQLite file without our mark.
    let path = folder.path().join("other.db");
    let pool = sqlx::AnyPool::connect(&format!("sqlite://{}?mode=rwc", path.display())).await.unwrap();
    sqlx::query("CREATE TABLE sessions (id TEXT)").execute(&pool).await.unwrap();
    pool.close().await;
    let before = fs::read(&path).unwrap();
    let error = SqlStore::open_file(&path).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Foreign { reason, .. } if reason.contains("another program")),
        "{error:?}"
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// A process was killed after the file was created, and before it had a mark or tables.
#[tokio::test]
async fn unfinished_file_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.db");
    sqlx::any::install_default_drivers();
    let pool = sqlx::AnyPool::connect(&format!("sqlite://{}?mode=rwc", path.display())).await.unwrap();
    sqlx::query("PRAGMA journal_mode = WAL").execute(&pool).await.unwrap();
    sqlx::query("PRAGMA user_version = 0").execute(&pool).await.unwrap();
    pool.close().await;
    for _ in 0..2 {
        open(&path).await.create(&SessionKey::new("talk").unwrap(), None).await.unwrap();
    }
}

/// Several processes open a new file at once.
#[tokio::test(flavor = "multi_thread")]
async fn new_file_is_opened_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haft.db");
    let opened = (0..4).map(|_| {
        let path = path.clone();
        tokio::spawn(async move { SqlStore::open_file(&path).await.map(drop) })
    });
    for opened in opened.collect::<Vec<_>>() {
        opened.await.unwrap().unwrap();
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.db");
    drop(open(&path).await);
    let pool = sqlx::AnyPool::connect(&format!("sqlite://{}?mode=rw", path.display())).await.unwrap();
    let sql = "INSERT INTO haft_migrations (version, description, success, checksum, execution_time) \
               VALUES (7, 'later', 1, x'00', 1)";
    sqlx::query(sql).execute(&pool).await.unwrap();
    pool.close().await;
    let error = SqlStore::open_file(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 7, known: 2, .. }), "{error:?}");
}

#[tokio::test]
async fn folder_that_is_missing_is_named() {
    let error = SqlStore::open("sqlite:/nowhere/haft.db").await.unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/haft.db cannot be used");
    assert!(error.source().is_some());
    let error = SqlStore::open("mysql://localhost/haft").await.unwrap_err();
    assert!(error.source().unwrap().to_string().starts_with("write `sqlite:FILE`"), "{error:?}");
}

#[tokio::test]
async fn invalid_import_names_the_line() {
    let database = Database::sqlite();
    let store = database.open().await;
    let key = SessionKey::new("talk").unwrap();
    let session = r#"{"type":"session","format":1,"id":"a","entries":0,"created_at":0,"updated_at":0}"#;
    for (lines, expected) in [
        (String::new(), "line 1: there is no session"),
        ("{}\n".to_owned(), "line 1: missing field `type`"),
        (session.replace("\"format\":1", "\"format\":9"), "line 1: format 9 is not known here, only 1"),
        (format!("{session}\n{session}\n"), "line 2: the first line is the session"),
        (
            session.replace("\"entries\":0", "\"entries\":2"),
            "line 2: the session has 2 entries, and the text has 0",
        ),
    ] {
        let error = Conversation::import(&store, &key, &lines).await.unwrap_err();
        assert!(matches!(error, ImportError::InvalidLine { .. }), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(matches!(store.session(&key).await, Err(StoreError::SessionNotFound(_))));
    }
}
