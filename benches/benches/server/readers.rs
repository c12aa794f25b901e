//! Concurrent readers of the events of a session.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Barrier,
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{
    Failure,
    client::{Connection, question_with_tools},
    process::Process,
    serve::Mode,
};

const READERS: usize = 1_000;

/// The number of runs that write events while all readers are connected. Each run has one call.
const RUNS: usize = 20;

/// The maximum peak memory of the server, in MiB. It is printed, but not checked.
const MAX_MEMORY_MIB: f64 = 100.0;

/// The time limit for all readers to connect, and to receive the last event.
const TIME_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn measure() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let server = Process::start(Mode::Sqlite, folder.path())?;
    let mut client = Connection::open(&server.address).await?;
    client.post("/chat", &question_with_tools("talk")).await?;
    let before = server.peak_memory()?;
    let connected = Arc::new(Barrier::new(READERS + 1));
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        readers.spawn(read_events(server.address.clone(), Arc::clone(&connected)));
    }
    timeout(TIME_LIMIT, connected.wait()).await.map_err(|_| "the readers do not connect")?;
    let begun = Instant::now();
    for _ in 0..RUNS {
        client.post("/chat", &question_with_tools("talk")).await?;
    }
    let ran = begun.elapsed();
    let complete = async {
        let mut complete = 0;
        let last = client.get("/sessions/talk").await?["last_event"].as_u64();
        while let Some(events) = readers.join_next().await {
            complete += usize::from(Some(events??) == last);
        }
        Ok::<_, Failure>((complete, last.unwrap_or_default()))
    };
    let (complete, events) = timeout(TIME_LIMIT, complete).await.map_err(|_| "the readers do not end")??;
    let (peak, all) = (server.peak_memory()?, begun.elapsed());
    println!("{READERS} readers of the events of a session, SQLite, {RUNS} runs with a call each");
    println!("  readers    {complete} received all {events} events in order");
    println!(
        "  time       {:.2} s for the runs, the readers end {:.2} s later",
        ran.as_secs_f64(),
        (all - ran).as_secs_f64()
    );
    println!("  memory     {peak:.0} MiB at most; the goal is {MAX_MEMORY_MIB:.0} MiB");
    println!(
        "  growth     {:.0} MiB, {:.0} KiB per reader",
        peak - before,
        (peak - before) * 1024.0 / READERS as f64
    );
    if complete < READERS { Err("readers have missed events".into()) } else { Ok(()) }
}

/// Reads the events from the start until the end of the last run. Returns the number of the last
/// event.
async fn read_events(address: String, connected: Arc<Barrier>) -> Result<u64, Failure> {
    let mut stream = Connection::open(&address).await?;
    let head = stream.send("GET", "/sessions/talk/events?after=0", "").await?;
    if head.status != 200 {
        return Err(format!("a reader got the status {}", head.status).into());
    }
    connected.wait().await;
    let (mut last, mut ended_runs) = (0, 0);
    // One run ended before.
    while ended_runs < RUNS + 1 {
        let line = stream.read_line().await?;
        if let Some(number) = line.strip_prefix("id: ") {
            last += 1;
            if number.trim().parse() != Ok(last) {
                return Err(format!("event {} follows event {}", number.trim(), last - 1).into());
            }
        }
        ended_runs += usize::from(line.starts_with("data: ") && line.contains(r#""type":"done""#));
    }
    Ok(last)
}
