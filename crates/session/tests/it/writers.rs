//! Tests with several writers.

use std::{sync::Arc, time::Duration};

use haft_core::{Message, ToolOutput, ToolResult};
use haft_session::{Append, NewRun, Retention, SessionKey, SessionStore, StoreError, conformance::check};
use serde_json::json;

use crate::{Database, on_each_database};

on_each_database! {
    conforms,
    concurrent_writers_lose_nothing,
    one_of_the_dependent_writers_wins,
    one_process_takes_over_a_run,
    retention_spares_sessions_with_a_run,
    blob_of_a_deleted_session_survives_a_new_use,
    writers_of_the_same_blobs_do_not_block,
    writers_and_deletions_do_not_block,
    odd_texts_are_stored_and_found,
}

async fn conforms(database: Database) {
    assert_eq!(check(&database.open().await).await, []);
}

/// Writers in two processes: each append survives, and the positions have no gap.
async fn concurrent_writers_lose_nothing(database: Database) {
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
async fn one_of_the_dependent_writers_wins(database: Database) {
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
async fn one_process_takes_over_a_run(database: Database) {
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
async fn retention_spares_sessions_with_a_run(database: Database) {
    let store = database.open().await;
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

/// A conversation starts to use a blob while the last other conversation with it is deleted.
async fn blob_of_a_deleted_session_survives_a_new_use(database: Database) {
    let stores = [database.open().await, database.open().await];
    for round in 0..20 {
        let (old, new) = (format!("old-{round}"), format!("new-{round}"));
        let (old, new) = (SessionKey::new(old).unwrap(), SessionKey::new(new).unwrap());
        let text = format!("{round} ").repeat(5000);
        let append = || Append::messages([Message::user(text.as_str())]);
        stores[0].create(&old, None).await.unwrap();
        stores[0].create(&new, None).await.unwrap();
        stores[0].append(&old, append()).await.unwrap();
        let (appended, deleted) = tokio::join!(stores[0].append(&new, append()), stores[1].delete(&old));
        appended.unwrap();
        deleted.unwrap();
        assert_eq!(stores[1].conversation(&new).await.unwrap().transcript.messages()[0].text(), text);
    }
}

/// Two writers store the same blobs in opposite order.
async fn writers_of_the_same_blobs_do_not_block(database: Database) {
    let stores = [database.open().await, database.open().await];
    let (one, other) = (SessionKey::new("one").unwrap(), SessionKey::new("other").unwrap());
    for store in &stores {
        store.create(&one, None).await.unwrap();
        store.create(&other, None).await.unwrap();
    }
    for round in 0..20 {
        let texts: Vec<_> = (0..6).map(|number| format!("{round}/{number} ").repeat(1000)).collect();
        let messages = |texts: Vec<String>| Append::messages(texts.into_iter().map(Message::user));
        let (forwards, backwards) = (messages(texts.clone()), messages(texts.into_iter().rev().collect()));
        let (one, other) =
            tokio::join!(stores[0].append(&one, forwards), stores[1].append(&other, backwards));
        one.unwrap();
        other.unwrap();
    }
}

/// Writers of the same blobs and events, deletions and the retention, all at once.
async fn writers_and_deletions_do_not_block(database: Database) {
    let stores = [Arc::new(database.open().await), Arc::new(database.open().await)];
    let tasks = (0..6).map(|number: usize| {
        let store = Arc::clone(&stores[number % 2]);
        tokio::spawn(async move {
            for round in 0..10 {
                let key = SessionKey::new(format!("talk-{}", (number + round) % 3)).unwrap();
                match turn(store.as_ref(), &key).await {
                    Ok(()) | Err(StoreError::SessionNotFound(_)) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn turn(store: &dyn SessionStore, key: &SessionKey) -> Result<(), StoreError> {
    store.create(key, None).await?;
    store.append_events(key, "run", vec![json!("a"), json!("b")]).await?;
    let texts = ["a", "b", "c"].map(|text| text.repeat(5000));
    store.append(key, Append::messages(texts.map(Message::user))).await?;
    let all = Retention::default().with_events(Duration::ZERO).with_sessions(Duration::ZERO);
    store.prune(&all).await?;
    store.create(key, None).await?;
    store.append_events(key, "run", vec![json!("a"), json!("b")]).await?;
    store.delete(key).await
}

/// A text with more words than an index of PostgreSQL can hold, a path, and U+0000.
async fn odd_texts_are_stored_and_found(database: Database) {
    let store = database.open().await;
    let key = SessionKey::new("talk").unwrap();
    store.create(&key, None).await.unwrap();
    let long: String = (0..400_000).map(|number| format!("{number:x}-")).collect();
    let texts = [format!("First {long}"), "See src/Main.rs.".to_owned(), "zero\0byte ÉTÉ".to_owned()];
    let result = ToolResult::done("call_1", "sea\0rch", ToolOutput::from("found"));
    let messages = texts.clone().map(Message::user).into_iter().chain([Message::tool(result)]);
    store.append(&key, Append::messages(messages)).await.unwrap();
    let transcript = store.conversation(&key).await.unwrap().transcript;
    let stored: Vec<_> = transcript.messages().iter().take(3).map(|message| message.text()).collect();
    assert!(stored == texts, "the texts have changed");
    for (query, position) in [("first", 1), ("main", 2), ("src/main.rs", 2), ("été", 3), ("zero byte", 3)] {
        let hits = store.search("", query, 10).await.unwrap();
        let positions: Vec<_> = hits.iter().map(|hit| hit.entry.position).collect();
        assert_eq!(positions, [position], "{query}");
    }
}
