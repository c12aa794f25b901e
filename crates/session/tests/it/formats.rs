//! Stores that earlier versions have written are read and continued. `formats` has one for each
//! format: `N.db`, `N.postgres.sql` (from `pg_dump --inserts`) and `N.jsonl` (from an export).

use std::{fs, time::Duration};

use haft_core::{Message, call::Decision, usage::Usage};
use haft_session::{
    Append, Conversation, RequestKey, RunStatus, RunUpdate, SessionKey, SessionStore, SqlStore,
};
use serde_json::json;
use sqlx::{AnyConnection, Connection as _, Executor as _};

use crate::{Database, open};

/// Checks the content of a store of format 1, and continues it.
async fn check_format_1(store: &SqlStore) {
    let key = SessionKey::new("travel").unwrap();
    let conversation = store.conversation(&key).await.unwrap();
    assert_eq!(conversation.session.title.as_deref(), Some("To Rome"));
    let found = "found ".repeat(800);
    let texts: Vec<_> = conversation.transcript.messages().iter().map(|message| message.text()).collect();
    let (first, rest) = texts.split_at(3);
    assert_eq!(first, ["Be brief.", "Where is Rome?", ""]);
    assert!(rest[0].starts_with(&found), "{}", rest[0]);
    assert_eq!(rest[1..], ["no network", "In Italy.", "Book a flight."]);
    assert_eq!(store.search("", "italy", 10).await.unwrap().len(), 1);
    assert_eq!(store.search("ann", "milk", 10).await.unwrap().len(), 1);
    let stats = store.tool_stats("").await.unwrap();
    assert_eq!((stats[0].calls, stats[0].failures), (2, 1));

    let run = store.run("", "run_1").await.unwrap();
    assert_eq!((run.status, run.state), (RunStatus::Suspended, json!({"state": 2})));
    assert_eq!(run.usage, Usage::one_request(3, 4));
    let decisions = store.decisions("", "run_1").await.unwrap();
    assert_eq!(decisions, [("call_3".to_owned(), Decision::approved())].into());
    let events = store.events(&key, Some("run_1"), 0, 10).await.unwrap();
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2, 3]);

    let lease = store.acquire("", "run_1", Duration::from_secs(60)).await.unwrap();
    let request = RequestKey { id: "1".to_owned(), fingerprint: String::new() };
    let update = RunUpdate::default().with_status(RunStatus::Finished).of_request(request);
    store.save(&lease, update.with_event(json!({"type": "done"}))).await.unwrap();
    store.append(&key, Append::messages([Message::user("Thanks.")])).await.unwrap();
    assert_eq!(store.session(&key).await.unwrap().last_event, 4);
    assert_eq!(store.prune(&haft_session::Retention::default()).await.unwrap(), 0);
}

#[tokio::test]
async fn file_of_format_1_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haft.db");
    fs::write(&path, include_bytes!("formats/1.db")).unwrap();
    check_format_1(&open(&path).await).await;
    // The format is the current one now.
    drop(open(&path).await);
}

#[tokio::test]
async fn database_of_format_1_is_continued() {
    let Some(Database::Postgres(url)) = Database::postgres().await else { return };
    let mut connection = AnyConnection::connect(&url).await.unwrap();
    connection.execute(include_str!("formats/1.postgres.sql")).await.unwrap();
    connection.close().await.unwrap();
    check_format_1(&SqlStore::open(&url).await.unwrap()).await;
}

#[tokio::test]
async fn export_of_format_1_is_imported() {
    let database = Database::sqlite();
    let (store, key) = (database.open().await, SessionKey::new("copy").unwrap());
    Conversation::import(&store, &key, include_str!("formats/1.jsonl")).await.unwrap();
    let conversation = store.conversation(&key).await.unwrap();
    assert_eq!(conversation.transcript.messages().last().unwrap().text(), "Book a flight.");
    assert_eq!(conversation.session.entries, 9);
}
