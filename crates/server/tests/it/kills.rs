//! Kills a process that drives stored runs at random times, with each kind of store. No acknowledged
//! run and no acknowledged approval is lost, and no completed call runs twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use haft_core::{
    ChatModel, Message, ToolCall, Toolset,
    call::Decision,
    message::{AssistantMessage, MessageBody},
    model::{ChatRequest, ChatResponse, ModelError, ModelProfile},
    tool,
    tool::{HostState, RunContext},
};
use haft_react::ReactAgent;
use haft_server::{RunRequest, StoredAgent, StoredRunError};
use haft_session::{RunStatus, SessionKey, SqlStore, StoreError};

use crate::postgres;

/// The environment variables of the child: a folder for the effects, and the URL of the store.
const FOLDER: &str = "HAFT_TESTS_KILLS";
const STORE: &str = "HAFT_TESTS_KILLS_STORE";

/// The environment variable with the number of kills. Default: 12.
const KILLS: &str = "HAFT_KILLS";

/// The file with a line for each call of `note`, of all processes.
struct Effects(PathBuf);

/// Writes a line to the file of effects.
#[tool]
fn note(line: String, #[tool(state)] effects: Arc<Effects>) -> Result<(), std::io::Error> {
    let mut file = fs::File::options().create(true).append(true).open(&effects.0)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()
}

/// Writes a line to the file of effects, after an approval.
#[tool(requires_approval)]
fn order(line: String, #[tool(state)] effects: Arc<Effects>) -> Result<(), std::io::Error> {
    note(line, effects)
}

/// A model that calls `note` twice and `order` once for each question, and then answers.
struct Notes(ModelProfile);

#[async_trait]
impl ChatModel for Notes {
    fn profile(&self) -> &ModelProfile {
        &self.0
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let messages: Vec<_> = request.messages.iter().collect();
        let question = messages.iter().rposition(|it| matches!(it.body(), MessageBody::User { .. })).unwrap();
        let number = messages.iter().skip(question).filter(|it| it.tool_result().is_some()).count();
        let text = messages[question].text();
        if number == 3 {
            return Ok(ChatResponse::new(format!("{text} is noted")));
        }
        let arguments = format!(r#"{{"line": "{text}/{number}"}}"#);
        let tool = if number == 1 { "order" } else { "note" };
        let call = ToolCall::new(format!("{text}-{number}"), tool, arguments);
        Ok(ChatResponse::new(AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() }))
    }
}

async fn stored(folder: &Path, store: &str) -> StoredAgent {
    let effects = HostState::new().with_value(Arc::new(Effects(folder.join("effects"))));
    let tools = Toolset::new().with_tool(Note).with_tool(Order);
    let agent = ReactAgent::builder(Notes(ModelProfile::new("notes"))).tools(tools);
    let agent = agent.state(effects).build().unwrap();
    let store = SqlStore::open(store).await.unwrap();
    StoredAgent::with_lease(agent, Arc::new(store), Duration::from_secs(1))
}

/// Approves the call of a run that waits. Returns `true` if this is stored.
async fn approve(stored: &StoredAgent, run: &str) -> bool {
    let waiting = stored.store().run("", run).await.unwrap();
    let last = waiting.transcript.messages().last().cloned();
    let call = last.and_then(|message| Some(message.tool_calls().first()?.id.clone()));
    match call.filter(|_| waiting.status == RunStatus::Suspended) {
        Some(call) => {
            let context = RunContext::default();
            stored.decide("", run, &call, &Decision::approved(), context).await.is_ok()
        }
        None => false,
    }
}

/// The process that is killed: it drives runs, and writes the id of each one that has started, and of
/// each one whose call is approved.
#[tokio::test]
async fn child() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let stored = stored(Path::new(&folder), &env::var(STORE).unwrap()).await;
    let sweep = stored.keep_abandoned_running(|_| RunContext::default());
    let work = async {
        let key = SessionKey::new("talk").unwrap();
        for number in 0_u64.. {
            let id = format!("{}-{number}", std::process::id());
            let messages = vec![Message::user(id.as_str())];
            let mut request = RunRequest::default();
            request.messages = messages;
            match stored.start(&key, request).await {
                Ok(run) => println!("\nstarted {run}"),
                Err(StoredRunError::Store(StoreError::Busy(active))) => {
                    if approve(&stored, &active).await {
                        println!("\napproved {active}");
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::join!(sweep, work);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_loses_no_run_and_repeats_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("haft.db").display());
    kill_many_times(folder.path(), &store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_process_loses_no_run_and_repeats_no_call_with_postgres() {
    let Some(store) = postgres::create_database().await else { return };
    let folder = tempfile::tempdir().unwrap();
    kill_many_times(folder.path(), &store).await;
}

async fn kill_many_times(folder: &Path, store: &str) {
    let kills = env::var(KILLS).map_or(12, |kills| kills.parse::<u32>().unwrap());
    let (mut started, mut approved) = (Vec::new(), BTreeSet::new());
    for kill in 0..kills {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["kills::child", "--exact", "--nocapture"]).env(FOLDER, folder).env(STORE, store);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
        // Times from 50 ms to 1.4 s: the lease of the killed process ends in some of them.
        std::thread::sleep(Duration::from_millis(50 + u64::from(kill * 977 % 1350)));
        child.kill().unwrap();
        child.wait().unwrap();
        let lines = reader.join().unwrap();
        started.extend(lines.iter().filter_map(|line| line.strip_prefix("started ").map(str::to_owned)));
        approved.extend(lines.iter().filter_map(|line| line.strip_prefix("approved ").map(str::to_owned)));
    }
    assert!(!started.is_empty() && !approved.is_empty());
    let stored = stored(folder, store).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    for run in &started {
        loop {
            let _ = stored.continue_abandoned(|_| RunContext::default()).await.unwrap();
            // An approval that was acknowledged is not asked for again.
            if !approved.contains(run) {
                approve(&stored, run).await;
            }
            let run = stored.store().run("", run).await.unwrap();
            if run.status == RunStatus::Finished {
                assert!(run.transcript.messages().last().unwrap().text().ends_with("is noted"));
                break;
            }
            assert!(Instant::now() < deadline, "{run:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let effects = fs::read_to_string(folder.join("effects")).unwrap();
    let mut counts = BTreeMap::new();
    effects.lines().for_each(|line| *counts.entry(line).or_insert(0) += 1);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    // A kill interrupts at most one call, which is not repeated.
    let expected = (3 * started.len()).saturating_sub(kills as usize);
    assert!(counts.len() >= expected, "{} effects of {} runs", counts.len(), started.len());
    let kind = store.split(':').next().unwrap();
    println!(
        "{kind}, {kills} kills: {} runs and {} approvals, none lost; {} effects, none repeated",
        started.len(),
        approved.len(),
        counts.len()
    );
}
