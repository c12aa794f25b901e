//! Tests with several writers.

use std::{sync::Arc, time::Duration};

use haft_core::Message;
use haft_session::{Append, NewRun, Retention, SessionKey, SessionStore, StoreError, conformance::check};
use serde_json::json;

use crate::Database;

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_conforms() {
    let store = Database::new();
    assert_eq!(check(&store.open().await).await, []);
}

/// Writers in two processes: each append survives, and the positions have no gap.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_lose_nothing() {
    let database = Database::new();
    let key = SessionKey::new("talk").unwrap();
    let stores = [Arc::new(database.open().await), Arc::new(database.open().await)];
    let mut writers = Vec::new();
    for (number, store) in stores.iter().cycle().take(8).enumerate() {
        let (store, key) = (Arc::clone(store), key.clone());
        writers.push(tokio::spawn(async move {
            store.create(&key, None).await.unwrap();
            for turn in 0..10 {
                let message = Message::user(format!("{number}/{turn}"));
                store.append(&key, Append::messages([message])).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let entries = stores[0].entries(&key, 0, 1000).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.position).collect::<Vec<_>>(), (1..=80).collect::<Vec<_>>());
    let mut texts: Vec<_> = entries.iter().map(|entry| entry.message().unwrap().text()).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 80);
}

/// Of several writers that saw the same state, one writes.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_the_dependent_writers_wins() {
    let database = Database::new();
    let key = SessionKey::new("talk").unwrap();
    let store = Arc::new(database.open().await);
    store.create(&key, None).await.unwrap();
    let writers = (0..5).map(|number| {
        let (store, key) = (Arc::clone(&store), key.clone());
        tokio::spawn(async move {
            store.append(&key, Append::messages([Message::user(format!("{number}"))]).after(0)).await
        })
    });
    let mut won = 0;
    for writer in writers.collect::<Vec<_>>() {
        match writer.await.unwrap() {
            Ok(1) => won += 1,
            Err(StoreError::Conflict { expected: 0, found: 1 }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(store.session(&key).await.unwrap().entries, 1);
}

/// Of several processes that take over an abandoned run, one becomes its owner.
#[tokio::test(flavor = "multi_thread")]
async fn one_process_takes_over_a_run() {
    let database = Database::new();
    let key = SessionKey::new("talk").unwrap();
    let store = Arc::new(database.open().await);
    store.create(&key, None).await.unwrap();
    store.start_run(&key, NewRun::new("run", json!({}), Vec::new()), Duration::ZERO).await.unwrap();
    let owners = (0..5).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.acquire("", "run", Duration::from_secs(60)).await })
    });
    let mut acquired = 0;
    for owner in owners.collect::<Vec<_>>() {
        match owner.await.unwrap() {
            Ok(_) => acquired += 1,
            Err(StoreError::Owned { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(acquired, 1);
}

/// The retention deletes old sessions, and none with an active run.
#[tokio::test]
async fn retention_spares_sessions_with_a_run() {
    let store = Database::new();
    let store = store.open().await;
    let (old, busy) = (SessionKey::new("old").unwrap(), SessionKey::new("busy").unwrap());
    for key in [&old, &busy] {
        store.create(key, None).await.unwrap();
        store.append(key, Append::messages([Message::user("x".repeat(9000))])).await.unwrap();
    }
    store.start_run(&busy, NewRun::new("run", json!({}), Vec::new()), Duration::ZERO).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let deleted = store.prune(&Retention::default().with_sessions(Duration::ZERO)).await.unwrap();
    assert_eq!(deleted, 1);
    assert!(matches!(store.session(&old).await, Err(StoreError::SessionNotFound(_))));
    // The blob of both sessions is kept.
    assert_eq!(store.conversation(&busy).await.unwrap().transcript.messages()[0].text().len(), 9000);
}
