//! Requests in progress at the shutdown of a server.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use tokio::{sync::watch, task::JoinSet, time::sleep};

use crate::{
    Failure,
    client::{Connection, question},
    process::Process,
    serve::Mode,
};

const CLIENTS: usize = 64;

/// The number of shutdowns of each server.
const ROUNDS: u32 = 10;

/// The latency of the model, so that most clients have a request in progress.
const LATENCY: Duration = Duration::from_millis(20);

/// The requests of the clients by their end.
#[derive(Default)]
struct Counts {
    /// The requests with a complete response.
    answered: u64,
    /// The requests that were sent after the start of the shutdown, and whose connection was
    /// refused or closed without a byte of a response.
    refused: u64,
    /// All other requests.
    lost: u64,
}

pub(crate) async fn measure() -> Result<(), Failure> {
    println!("{CLIENTS} clients during {ROUNDS} shutdowns");
    let mut is_lost = false;
    for mode in [Mode::NoStore, Mode::Sqlite] {
        let (mut all, mut longest, mut unanswered) = (Counts::default(), Duration::ZERO, 0);
        for round in 0..ROUNDS {
            // The moment of the shutdown is another one in each round.
            let (counts, accepted, took) =
                shut_down(mode, LATENCY * 10 + Duration::from_millis(3) * round).await?;
            unanswered += accepted.saturating_sub(counts.answered);
            longest = longest.max(took);
            all.answered += counts.answered;
            all.refused += counts.refused;
            all.lost += counts.lost;
        }
        let Counts { answered, refused, lost } = all;
        println!(
            "  {mode:16}  answered {answered}, refused {refused}, lost {lost}, accepted and not answered \
             {unanswered}; a shutdown takes up to {:.2} s",
            longest.as_secs_f64()
        );
        is_lost |= lost + unanswered > 0;
    }
    if is_lost { Err("requests are lost at the shutdown".into()) } else { Ok(()) }
}

/// Shuts a server down after the time `after`. Returns the counts of the clients, the number of
/// requests that reached the model, and the duration of the shutdown.
async fn shut_down(mode: Mode, after: Duration) -> Result<(Counts, u64, Duration), Failure> {
    let folder = tempfile::tempdir()?;
    let server = Process::try_start(mode, folder.path(), LATENCY)?;
    let mut server = server.ok_or("the store is not installed")?;
    let (begin, begun) = watch::channel(None);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let session = (mode == Mode::Sqlite).then(|| format!("client-{number}"));
        clients.spawn(run_client(server.address.clone(), session, begun.clone()));
    }
    sleep(after).await;
    let shutdown = Instant::now();
    begin.send_replace(Some(shutdown));
    server.begin_shutdown();
    let ended = tokio::task::spawn_blocking(move || server.stop()).await;
    let (accepted, took) = (ended??, shutdown.elapsed());
    let mut all = Counts::default();
    while let Some(counts) = clients.join_next().await {
        let Counts { answered, refused, lost } = counts?;
        all.answered += answered;
        all.refused += refused;
        all.lost += lost;
    }
    Ok((all, accepted, took))
}

/// Sends requests until a connection is refused.
async fn run_client(
    address: String,
    session: Option<String>,
    shutdown: watch::Receiver<Option<Instant>>,
) -> Counts {
    let mut counts = Counts::default();
    let body = question(session.as_deref()).to_string();
    loop {
        let begun = Instant::now();
        let has_begun = || shutdown.borrow().is_some_and(|shutdown| begun >= shutdown);
        let Ok(mut connection) = Connection::open(&address).await else {
            let is_refused = has_begun();
            counts.refused += u64::from(is_refused);
            counts.lost += u64::from(!is_refused);
            return counts;
        };
        loop {
            let begun = Instant::now();
            let has_begun = || shutdown.borrow().is_some_and(|shutdown| begun >= shutdown);
            let head = match connection.send("POST", "/chat", &body).await {
                Ok(head) => head,
                Err(error) if has_begun() && is_closed(error.kind()) => {
                    counts.refused += 1;
                    break;
                }
                Err(_) => {
                    counts.lost += 1;
                    break;
                }
            };
            match connection.read_body(&head).await {
                Ok(_) if head.status == 200 => counts.answered += 1,
                _ => counts.lost += 1,
            }
            if head.closes {
                break;
            }
        }
    }
}

fn is_closed(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
