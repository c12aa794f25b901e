//! Checks for implementations of [`SessionStore`].
//!
//! # Examples
//!
//! ```
//! use haft_session::{SqlStore, conformance::check};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("haft.db");
//! let store = SqlStore::open_file(path).await?;
//! assert_eq!(check(&store).await, []);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{sync::Arc, time::Duration};

use haft_core::{
    Message, ToolCall, ToolError, ToolOutput, ToolResult, Transcript,
    call::{BoxError, Decision},
    content::Content,
    message::AssistantMessage,
    usage::Usage,
};
use serde_json::json;

use crate::{
    Append, Conversation, EntryBody, NewRun, RequestKey, Retention, RunStatus, RunUpdate, SessionKey,
    SessionStore, StoreError,
};

type Outcome = Result<(), BoxError>;

const MINUTE: Duration = Duration::from_secs(60);

/// Runs all checks on `store`, each with a tenant of its own. Returns the failed checks: the name
/// and the problem.
pub async fn check(store: &dyn SessionStore) -> Vec<(&'static str, String)> {
    let checks = [
        ("messages_are_read_back", messages_are_read_back(store).await),
        ("stale_write_is_a_conflict", stale_write_is_a_conflict(store).await),
        ("rewind_keeps_the_log", rewind_keeps_the_log(store).await),
        ("fork_is_independent", fork_is_independent(store).await),
        ("export_is_imported", export_is_imported(store).await),
        ("tenants_are_separate", tenants_are_separate(store).await),
        ("run_has_one_owner", run_has_one_owner(store).await),
        ("run_has_its_own_conversation", run_has_its_own_conversation(store).await),
        ("session_has_one_active_run", session_has_one_active_run(store).await),
        ("decision_is_never_replaced", decision_is_never_replaced(store).await),
        ("decided_run_is_continued", decided_run_is_continued(store).await),
        ("request_is_handled_once", request_is_handled_once(store).await),
        ("events_are_numbered", events_are_numbered(store).await),
        ("events_are_bounded", events_are_bounded(store).await),
        ("sessions_are_paged", sessions_are_paged(store).await),
        ("messages_are_found", messages_are_found(store).await),
        ("calls_are_counted", calls_are_counted(store).await),
        ("old_sessions_are_deleted", old_sessions_are_deleted(store).await),
    ];
    let failed = checks.into_iter().filter_map(|(name, outcome)| Some((name, outcome.err()?.to_string())));
    failed.collect()
}

fn key(tenant: &str) -> Result<SessionKey, BoxError> {
    Ok(SessionKey::of_tenant(format!("conformance/{tenant}"), "talk")?)
}

fn ensure(is_met: bool, problem: impl FnOnce() -> String) -> Outcome {
    if is_met { Ok(()) } else { Err(problem().into()) }
}

/// Returns messages of each kind, with a large text and a large image.
fn messages() -> Vec<Message> {
    let call = ToolCall::new("call_1", "search", r#"{"query":"Rome"}"#);
    let reply = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
    let mut output = ToolOutput::from("found ".repeat(2000));
    output.content.push(Content::from_bytes(vec![7; 20_000], "image/png"));
    vec![
        Message::system("Be brief."),
        Message::user("Where is Rome?"),
        Message::assistant(reply),
        Message::tool(ToolResult::done("call_1", "search", output)),
        Message::tool(ToolResult::failed("call_2", "search", &ToolError::failed("no network"))),
        Message::assistant("In Italy."),
    ]
}

fn texts(transcript: &Transcript) -> Vec<String> {
    transcript.messages().iter().map(|message| message.text()).collect()
}

async fn messages_are_read_back(store: &dyn SessionStore) -> Outcome {
    let key = key("messages")?;
    let session = store.create(&key, Some("Rome")).await?;
    ensure(store.create(&key, None).await? == session, || "a session is created twice".to_owned())?;
    let written = Transcript::from_iter(messages());
    let head = store.append(&key, Append::messages(written.messages().to_vec())).await?;
    ensure(head == 6, || format!("the log has {head} entries"))?;
    let conversation = store.conversation(&key).await?;
    ensure(conversation.transcript == written, || format!("{:?}", texts(&conversation.transcript)))?;
    let title = conversation.session.title;
    ensure(title.as_deref() == Some("Rome"), || format!("the title is {title:?}"))?;
    let page = store.entries(&key, 2, 2).await?;
    let positions: Vec<_> = page.iter().map(|entry| (entry.position, entry.is_tool_traffic())).collect();
    ensure(positions == [(3, true), (4, true)], || format!("{positions:?}"))
}

async fn stale_write_is_a_conflict(store: &dyn SessionStore) -> Outcome {
    let key = key("conflict")?;
    store.create(&key, None).await?;
    // Both of two first writers succeed.
    let first = || Append::messages([Message::user("Hello.")]);
    let (one, other) = (store.append(&key, first()).await?, store.append(&key, first()).await?);
    ensure((one, other) == (1, 2), || format!("the writers get {one} and {other}"))?;
    match store.append(&key, first().after(1)).await {
        Err(StoreError::Conflict { expected: 1, found: 2 }) => {}
        other => return Err(format!("a stale write returns {other:?}").into()),
    }
    let head = store.append(&key, first().after(2)).await?;
    ensure(head == 3, || format!("the log has {head} entries"))
}

async fn rewind_keeps_the_log(store: &dyn SessionStore) -> Outcome {
    let key = key("rewind")?;
    store.create(&key, None).await?;
    store.append(&key, Append::messages(["a", "b", "c"].map(Message::user))).await?;
    let rewind = Append { expected: Some(3), entries: vec![EntryBody::RewindTo(1)] };
    store.append(&key, rewind).await?;
    store.append(&key, Append::messages([Message::user("d")])).await?;
    let texts = texts(&store.conversation(&key).await?.transcript);
    ensure(texts == ["a", "d"], || format!("{texts:?}"))?;
    let entries = store.entries(&key, 0, 100).await?.len();
    ensure(entries == 5, || format!("the log has {entries} entries"))
}

async fn fork_is_independent(store: &dyn SessionStore) -> Outcome {
    let key = key("fork")?;
    let copy = SessionKey::of_tenant(key.tenant(), "copy")?;
    store.create(&key, None).await?;
    let written = Transcript::from_iter(messages());
    store.append(&key, Append::messages(written.messages().to_vec())).await?;
    store.fork(&key, 4, &copy).await?;
    store.delete(&key).await?;
    let transcript = store.conversation(&copy).await?.transcript;
    ensure(transcript.messages() == &written.messages()[..4], || format!("{:?}", texts(&transcript)))?;
    match store.fork(&copy, 1, &copy).await {
        Err(StoreError::SessionExists(_)) => Ok(()),
        other => Err(format!("a fork to an existing session returns {other:?}").into()),
    }
}

async fn export_is_imported(store: &dyn SessionStore) -> Outcome {
    let key = key("export")?;
    let copy = SessionKey::of_tenant(key.tenant(), "copy")?;
    store.create(&key, Some("Rome")).await?;
    store.append(&key, Append::messages(messages())).await?;
    let exported = Conversation::export(store, &key).await?;
    Conversation::import(store, &copy, &exported).await?;
    let (one, other) = (store.conversation(&key).await?, store.conversation(&copy).await?);
    let is_equal = one.transcript == other.transcript && one.session.title == other.session.title;
    ensure(is_equal, || format!("{:?}", texts(&other.transcript)))
}

async fn tenants_are_separate(store: &dyn SessionStore) -> Outcome {
    let (key, other) = (key("tenant-a")?, key("tenant-b")?);
    store.create(&key, None).await?;
    store.append(&key, Append::messages([Message::user("a secret")])).await?;
    match store.conversation(&other).await {
        Err(StoreError::SessionNotFound(_)) => {}
        result => return Err(format!("another tenant reads {result:?}").into()),
    }
    let hits = store.search(other.tenant(), "secret", 10).await?;
    let sessions = store.sessions(other.tenant(), None, 10).await?;
    ensure(hits.is_empty() && sessions.is_empty(), || format!("{hits:?} {sessions:?}"))
}

async fn run_has_one_owner(store: &dyn SessionStore) -> Outcome {
    let key = key("owner")?;
    let tenant = key.tenant();
    store.create(&key, None).await?;
    let hello = vec![Arc::new(Message::user("Hello."))];
    let short = store.start_run(&key, NewRun::new("run", json!(1), hello), Duration::ZERO).await?;
    let abandoned = store.abandoned_runs(u32::MAX).await?;
    let id = (tenant.to_owned(), "run".to_owned());
    ensure(abandoned.contains(&id), || format!("an abandoned run is not in {abandoned:?}"))?;
    let lease = store.acquire(tenant, "run", MINUTE).await?;
    match store.acquire(tenant, "run", MINUTE).await {
        Err(StoreError::Owned { .. }) => {}
        other => return Err(format!("a second owner gets {other:?}").into()),
    }
    let update = || RunUpdate::new(json!(2), vec![Arc::new(Message::assistant("Hi."))]);
    match store.save(&short, update()).await {
        Err(StoreError::LeaseLost(_)) => {}
        other => return Err(format!("the old owner writes: {other:?}").into()),
    }
    let lease = store.renew(&lease, 2 * MINUTE).await?;
    store.save(&lease, update().with_status(RunStatus::Finished)).await?;
    match store.acquire(tenant, "run", MINUTE).await {
        Err(StoreError::RunOver(_)) => {}
        other => return Err(format!("a run that is over has the owner {other:?}").into()),
    }
    let texts = texts(&store.conversation(&key).await?.transcript);
    ensure(texts == ["Hello.", "Hi."], || format!("{texts:?}"))
}

async fn run_has_its_own_conversation(store: &dyn SessionStore) -> Outcome {
    let key = key("conversation-of-a-run")?;
    store.create(&key, None).await?;
    store.append(&key, Append::messages([Message::user("before")])).await?;
    let question = vec![Arc::new(Message::user("question"))];
    let new = NewRun::new("run", json!({}), question).with_event(json!({"type": "started"}));
    let lease = store.start_run(&key, new, MINUTE).await?;
    store.append(&key, Append::messages([Message::user("from elsewhere")])).await?;
    let answer = vec![Arc::new(Message::assistant("answer"))];
    let usage = Usage::one_request(3, 4);
    let update = RunUpdate::new(json!({"step": 1}), answer).with_usage(usage);
    let update = update.with_status(RunStatus::Suspended).with_event(json!({"type": "suspended"}));
    store.save(&lease, update).await?;
    let events = store.events(&key, Some("run"), 0, 10).await?;
    let kinds: Vec<_> = events.iter().map(|event| event.event["type"].clone()).collect();
    ensure(kinds == ["started", "suspended"], || format!("{events:?}"))?;
    let run = store.run(key.tenant(), "run").await?;
    let own = texts(&run.transcript);
    ensure(own == ["before", "question", "answer"], || format!("{own:?}"))?;
    let saved = (run.state, run.usage, run.status, run.session);
    let expected = (json!({"step": 1}), usage, RunStatus::Suspended, "talk".to_owned());
    ensure(saved == expected, || format!("{saved:?}"))?;
    // A suspended run has no owner.
    store.acquire(key.tenant(), "run", MINUTE).await?;
    let all = texts(&store.conversation(&key).await?.transcript);
    ensure(all == ["before", "question", "from elsewhere", "answer"], || format!("{all:?}"))
}

async fn session_has_one_active_run(store: &dyn SessionStore) -> Outcome {
    let key = key("active-run")?;
    store.create(&key, None).await?;
    let run = |id: &str| NewRun::new(id, json!({}), vec![Arc::new(Message::user("Hello."))]);
    let lease = store.start_run(&key, run("one"), MINUTE).await?;
    match store.start_run(&key, run("two"), MINUTE).await {
        Err(StoreError::Busy(active)) if active == "one" => {}
        other => return Err(format!("a second run gets {other:?}").into()),
    }
    ensure(store.active_run(&key).await?.as_deref() == Some("one"), || "no run is active".to_owned())?;
    let head = store.session(&key).await?.entries;
    ensure(head == 1, || format!("the rejected run has written: {head} entries"))?;
    store.save(&lease, RunUpdate::default().with_status(RunStatus::Failed)).await?;
    store.start_run(&key, run("two"), MINUTE).await?;
    let runs = store.runs(&key, 10).await?;
    let runs: Vec<_> = runs.iter().map(|run| (run.id.as_str(), run.status)).collect();
    ensure(runs == [("two", RunStatus::Active), ("one", RunStatus::Failed)], || format!("{runs:?}"))
}

async fn decision_is_never_replaced(store: &dyn SessionStore) -> Outcome {
    let key = key("decision")?;
    let tenant = key.tenant();
    store.create(&key, None).await?;
    store.start_run(&key, NewRun::new("run", json!({}), Vec::new()), MINUTE).await?;
    store.decide(tenant, "run", "call_1", &Decision::approved()).await?;
    store.decide(tenant, "run", "call_1", &Decision::approved()).await?;
    match store.run(tenant, "no\0run").await {
        Err(StoreError::RunNotFound(_)) => {}
        other => return Err(format!("an unknown run is {other:?}").into()),
    }
    match store.decide(tenant, "run", "call_1", &Decision::denied("no")).await {
        Err(StoreError::OtherDecision { .. }) => {}
        other => return Err(format!("another decision returns {other:?}").into()),
    }
    let decisions = store.decisions(tenant, "run").await?;
    let expected = [("call_1".to_owned(), Decision::approved())].into();
    ensure(decisions == expected, || format!("{decisions:?}"))
}

/// A run that waits although there is a decision is found, until it has been continued.
async fn decided_run_is_continued(store: &dyn SessionStore) -> Outcome {
    let key = key("decided")?;
    let id = (key.tenant().to_owned(), "run".to_owned());
    store.create(&key, None).await?;
    let lease = store.start_run(&key, NewRun::new("run", json!({}), Vec::new()), MINUTE).await?;
    let suspended = || RunUpdate::default().with_status(RunStatus::Suspended);
    store.save(&lease, suspended()).await?;
    let waiting = store.abandoned_runs(u32::MAX).await?;
    ensure(!waiting.contains(&id), || "a run that waits is abandoned".to_owned())?;
    store.decide(key.tenant(), "run", "call_1", &Decision::approved()).await?;
    let decided = store.abandoned_runs(u32::MAX).await?;
    ensure(decided.contains(&id), || "a decided run is not found".to_owned())?;
    let lease = store.acquire(key.tenant(), "run", MINUTE).await?;
    tokio::time::sleep(Duration::from_millis(2)).await;
    store.save(&lease, suspended()).await?;
    let continued = store.abandoned_runs(u32::MAX).await?;
    ensure(!continued.contains(&id), || "a continued run is found again".to_owned())
}

async fn request_is_handled_once(store: &dyn SessionStore) -> Outcome {
    let key = key("request")?;
    let tenant = key.tenant();
    store.create(&key, None).await?;
    let request = |id: &str, content: &str| RequestKey { id: id.to_owned(), fingerprint: content.to_owned() };
    let run = |id: &str| {
        NewRun::new(id, json!({}), vec![Arc::new(Message::user("Hello."))]).of_request(request("1", "a"))
    };
    let lease = store.start_run(&key, run("one"), MINUTE).await?;
    // The repeated request does not see its own run as that of another request.
    match store.start_run(&key, run("two"), MINUTE).await {
        Err(StoreError::Repeated { run }) if run == "one" => {}
        other => return Err(format!("a repeated start returns {other:?}").into()),
    }
    let update = || {
        let messages = vec![Arc::new(Message::user("And?"))];
        RunUpdate::new(json!({}), messages).of_request(request("2", "b"))
    };
    store.save(&lease, update()).await?;
    match store.save(&lease, update()).await {
        Err(StoreError::Repeated { run }) if run == "one" => {}
        other => return Err(format!("a repeated message returns {other:?}").into()),
    }
    let head = store.session(&key).await?.entries;
    ensure(head == 2, || format!("the log has {head} entries"))?;
    let known = store.handled_by(tenant, &request("2", "b")).await?;
    let unknown = store.handled_by(tenant, &request("3", "b")).await?;
    ensure(known.as_deref() == Some("one") && unknown.is_none(), || format!("{known:?} {unknown:?}"))?;
    match store.handled_by(tenant, &request("2", "c")).await {
        Err(StoreError::OtherRequest(id)) if id == "2" => Ok(()),
        other => Err(format!("the id of another request returns {other:?}").into()),
    }
}

/// The store deletes the oldest events of a session, and reading them is an error.
async fn events_are_bounded(store: &dyn SessionStore) -> Outcome {
    let key = key("many-events")?;
    store.create(&key, None).await?;
    let lease = store.start_run(&key, NewRun::new("old", json!({}), Vec::new()), MINUTE).await?;
    let large = json!("x".repeat(500_000));
    for _ in 0..50 {
        store.append_events(&key, "old", vec![large.clone(), json!("small")]).await?;
    }
    store.save(&lease, RunUpdate::default().with_status(RunStatus::Finished)).await?;
    store.start_run(&key, NewRun::new("new", json!({}), Vec::new()), MINUTE).await?;
    let last = store.append_events(&key, "new", vec![json!("a")]).await?;
    ensure(last == 101, || format!("the last event has the number {last}"))?;
    let next = match store.events(&key, None, 0, 1000).await {
        Err(StoreError::EventsExpired { next }) => next,
        other => return Err(format!("{} events are kept", other?.len()).into()),
    };
    let kept = store.events(&key, None, next - 1, 1000).await?;
    let numbers: Vec<_> = kept.iter().map(|event| event.number).collect();
    ensure(numbers == (next..=last).collect::<Vec<_>>(), || format!("{numbers:?}"))?;
    match store.events(&key, Some("old"), 0, 1).await {
        Err(StoreError::EventsExpired { .. }) => {}
        other => return Err(format!("the events of the old run: {other:?}").into()),
    }
    // All events of the new run are there.
    let own = store.events(&key, Some("new"), 0, 10).await?.len();
    ensure(own == 1, || format!("the new run has {own} events"))?;
    let end = store.events(&key, None, last, 10).await?;
    ensure(end.is_empty(), || format!("{end:?}"))
}

async fn sessions_are_paged(store: &dyn SessionStore) -> Outcome {
    let tenant = key("pages")?.tenant().to_owned();
    for number in 0..7 {
        store.create(&SessionKey::of_tenant(tenant.as_str(), format!("talk-{number}"))?, None).await?;
    }
    let mut ids = Vec::new();
    let mut last: Option<(haft_core::Timestamp, String)> = None;
    loop {
        let after = last.as_ref().map(|(time, id)| (*time, id.as_str()));
        let page = store.sessions(&tenant, after, 3).await?;
        let Some(end) = page.last() else { break };
        last = Some((end.updated_at, end.id.clone()));
        ids.extend(page.into_iter().map(|session| session.id));
    }
    let latest = ids.first().cloned();
    ids.sort();
    let expected: Vec<_> = (0..7).map(|number| format!("talk-{number}")).collect();
    ensure(ids == expected, || format!("{ids:?}"))?;
    ensure(latest.as_deref() == Some("talk-6"), || format!("the latest is {latest:?}"))
}

async fn events_are_numbered(store: &dyn SessionStore) -> Outcome {
    let key = key("events")?;
    store.create(&key, None).await?;
    store.append_events(&key, "one", vec![json!("a"), json!("b")]).await?;
    let last = store.append_events(&key, "two", vec![json!("c")]).await?;
    let known = store.session(&key).await?.last_event;
    ensure((last, known) == (3, 3), || format!("the last event has the numbers {last} and {known}"))?;
    let tail = store.events(&key, None, 1, 10).await?;
    let tail: Vec<_> = tail.into_iter().map(|event| (event.number, event.event)).collect();
    ensure(tail == [(2, json!("b")), (3, json!("c"))], || format!("{tail:?}"))?;
    let own = store.events(&key, Some("two"), 0, 10).await?;
    ensure(own.len() == 1 && own[0].number == 3, || format!("{own:?}"))
}

async fn messages_are_found(store: &dyn SessionStore) -> Outcome {
    let key = key("search")?;
    store.create(&key, None).await?;
    store.append(&key, Append::messages(messages())).await?;
    for (query, expected) in [
        ("ROME where", vec![2]),
        ("italy", vec![6]),
        ("rome italy", vec![]),
        ("\"rome", vec![2]),
        ("rome\0", vec![2]),
        ("rome OR italy", vec![]),
        ("found", vec![4]),
        (" ", vec![]),
    ] {
        let hits = store.search(key.tenant(), query, 10).await?;
        let positions: Vec<_> = hits.iter().map(|hit| hit.entry.position).collect();
        ensure(positions == expected, || format!("{query:?} finds {positions:?}"))?;
    }
    store.delete(&key).await?;
    let hits = store.search(key.tenant(), "rome", 10).await?;
    ensure(hits.is_empty(), || format!("a deleted message is found: {hits:?}"))
}

async fn calls_are_counted(store: &dyn SessionStore) -> Outcome {
    let key = key("calls")?;
    store.create(&key, None).await?;
    store.append(&key, Append::messages(messages())).await?;
    let stats = store.tool_stats(key.tenant()).await?;
    let counts: Vec<_> = stats.iter().map(|it| (it.tool.as_str(), it.calls, it.failures)).collect();
    ensure(counts == [("search", 2, 1)], || format!("{counts:?}"))
}

async fn old_sessions_are_deleted(store: &dyn SessionStore) -> Outcome {
    let key = key("retention")?;
    let busy = SessionKey::of_tenant(key.tenant(), "busy")?;
    store.create(&key, None).await?;
    store.create(&busy, None).await?;
    store.append_events(&key, "run", vec![json!("a")]).await?;
    store.start_run(&busy, NewRun::new("run", json!({}), Vec::new()), MINUTE).await?;
    let keep = Retention::default().with_sessions(MINUTE).with_events(MINUTE);
    store.prune(&keep).await?;
    let events = store.events(&key, None, 0, 10).await?.len();
    ensure(events == 1, || "a new event is deleted".to_owned())?;
    Ok(())
}
