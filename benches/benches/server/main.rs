//! Measures `haft-server`: requests per second and memory beside a bare axum server, a thousand
//! readers of events, the requests in progress at a shutdown, and the bytes and the time of a turn
//! in a long conversation. Each server runs in a process of its own.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a benchmark program")]

mod bare;
mod client;
mod disk;
mod load;
#[path = "../../../crates/session/tests/it/server.rs"]
#[allow(clippy::unwrap_used, reason = "it is part of the tests of haft-session")]
mod postgres;
mod process;
mod readers;
mod serve;
mod shutdown;

use std::{env, error::Error, path::Path, process::ExitCode, time::Duration};

type Failure = Box<dyn Error + Send + Sync>;

/// The command line argument that makes this program a server.
const SERVE: &str = "--serve";

/// The parts of the bench. With the name of a part, only this part is measured. The last one fails
/// if a request is lost.
const PARTS: [&str; 4] = ["load", "readers", "disk", "shutdown"];

#[tokio::main]
async fn main() -> ExitCode {
    // Cargo passes `--bench` to every bench.
    let arguments: Vec<_> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [SERVE, mode, folder, latency] => serve(mode, folder, latency).await,
        // The results vary between executions, so nothing is checked in CI.
        _ if words.contains(&"--check") => Ok(()),
        [] => measure(&PARTS, false).await,
        ["disk", "real"] => measure(&["disk"], true).await,
        [part] if PARTS.contains(&part) => measure(&[part], false).await,
        _ => Err(format!("the parts are {}, `disk real`", PARTS.join(", ")).into()),
    };
    done.map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

async fn serve(mode: &str, folder: &str, latency: &str) -> Result<(), Failure> {
    serve::serve(mode.parse()?, Path::new(folder), Duration::from_millis(latency.parse()?)).await
}

async fn measure(parts: &[&str], is_real: bool) -> Result<(), Failure> {
    process::allow_many_files()?;
    for part in parts {
        match *part {
            "load" => load::measure().await?,
            "readers" => readers::measure().await?,
            "disk" => disk::measure(is_real).await?,
            _ => shutdown::measure().await?,
        }
        println!();
    }
    Ok(())
}
