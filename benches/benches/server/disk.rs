//! The bytes on disk and the time of a turn in a growing conversation.

use std::{fs, path::Path, time::Duration};

use haft_core::{Message, ToolCall, ToolOutput, ToolResult, message::AssistantMessage};
use haft_session::{Append, SessionKey, SessionStore as _, SqlStore};
use sqlx::{AnyConnection, Connection as _, Executor as _, any::install_default_drivers};
use tokio::time::Instant;

use crate::{
    Failure,
    client::{Connection, question_with_tools},
    process::Process,
    serve::{ANSWER, Mode, QUESTION, RECORD},
};

/// The lengths of the conversation, in turns, after which turns are measured.
const LENGTHS: [u64; 4] = [0, 100, 1_000, 10_000];

/// The number of turns that are measured at each length.
const MEASURED: u64 = 50;

const SESSION: &str = "talk";

/// Measures turns at several lengths of a conversation. The turns in between are real ones with
/// `is_real`, and otherwise only their messages are stored, because thousands of turns take long.
pub(crate) async fn measure(is_real: bool) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("haft.db");
    let server = Process::start(Mode::Sqlite, folder.path())?;
    let store = SqlStore::open_file(&file).await?;
    let mut client = Connection::open(&server.address).await?;
    println!("turns of a conversation, SQLite: question 100 B, call with result 200 B, answer 100 B");
    println!("{:>10} {:>12} {:>12} {:>12} {:>12}", "turns", "bytes/turn", "time/turn", "CPU/turn", "memory");
    let mut turns = 0;
    for length in LENGTHS {
        if is_real {
            take_turns(&mut client, length - turns).await?;
        } else {
            store_messages(&store, length - turns).await?;
        }
        let bytes = size(&file).await?;
        let processor = server.processor_time()?;
        let time = take_turns(&mut client, MEASURED).await?;
        let processor = server.processor_time()? - processor;
        let per_turn = |time: Duration| time.as_secs_f64() * 1_000.0 / MEASURED as f64;
        println!(
            "{length:>10} {:>12} {:>9.1} ms {:>9.1} ms {:>8.0} MiB",
            (size(&file).await? - bytes) / MEASURED,
            per_turn(time),
            per_turn(processor),
            server.peak_memory()?,
        );
        turns = length + MEASURED;
    }
    Ok(())
}

/// Asks questions, one after the other. Returns the duration.
async fn take_turns(client: &mut Connection, turns: u64) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for _ in 0..turns {
        client.post("/chat", &question_with_tools(SESSION)).await?;
    }
    Ok(begun.elapsed())
}

/// Appends the messages of turns to the conversation, without their runs and events.
async fn store_messages(store: &SqlStore, turns: u64) -> Result<(), Failure> {
    let key = SessionKey::new(SESSION)?;
    store.create(&key, None).await?;
    let messages = (0..turns).flat_map(|turn| {
        let id = format!("stored_{turn}");
        let call = ToolCall::new(id.as_str(), "look_up", r#"{"order": 17}"#);
        let call = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
        let result = ToolResult::done(id, "look_up", ToolOutput::from(RECORD));
        [Message::user(QUESTION), Message::assistant(call), Message::tool(result), Message::assistant(ANSWER)]
    });
    store.append(&key, Append::messages(messages)).await?;
    Ok(())
}

/// Returns the size of a database, with the content of its write-ahead log.
async fn size(file: &Path) -> Result<u64, Failure> {
    install_default_drivers();
    let mut connection = AnyConnection::connect(&format!("sqlite://{}", file.display())).await?;
    connection.execute("PRAGMA busy_timeout = 10000; PRAGMA wal_checkpoint(TRUNCATE)").await?;
    connection.close().await?;
    Ok(fs::metadata(file)?.len())
}
