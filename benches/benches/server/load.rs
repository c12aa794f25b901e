//! Requests per second, beside a bare axum server.

use std::{fs, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Failure,
    client::{Connection, question},
    process::Process,
    serve::Mode,
};

/// The number of measurements of each server. The servers alternate, so that a disturbance of the
/// machine affects all of them. The medians are reported.
const ROUNDS: usize = 5;

/// The duration of a measurement, and of the requests before the first one, in seconds.
const SECONDS: u32 = 4;
const WARM_UP_SECONDS: u32 = 1;

/// The number of connections, each with one request at a time.
const CONNECTIONS: usize = 32;

/// The goal of the ratio of the requests per second to those of the bare server, without a store.
const MIN_RATIO: f64 = 0.8;

/// The end of each script of `wrk`: prints the result as JSON, with times in microseconds.
const PRINT_RESULT: &str = r#"
done = function(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        '\nresult: {"requests": %d, "micros": %d, "p50": %d, "p99": %d, "errors": %d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"#;

/// Ten questions in each of 64 conversations, then the next 64. A session has one request at a time,
/// because fewer than 64 are in progress.
const IN_SESSIONS: &str = r#"
local sent = 0
request = function()
    local session = string.format("BATCH-%d-%d", math.floor(sent / 640), sent % 64)
    sent = sent + 1
    return wrk.format(nil, nil, nil, (wrk.body:gsub("SESSION", session)))
end
"#;

/// The result of a measurement.
struct Round {
    /// The number of requests per second.
    rate: f64,
    /// The median and the 99th percentile of the time of a request, in milliseconds.
    p50: f64,
    p99: f64,
    /// The processor time of the server per request, in microseconds.
    processor: f64,
}

/// A server with its results.
struct Entry {
    mode: Mode,
    server: Process,
    _folder: TempDir,
    rounds: Vec<Round>,
}

pub(crate) async fn measure() -> Result<(), Failure> {
    if Command::new("wrk").arg("--version").output().is_err() {
        return Err("the load comes from `wrk`: `apt-get install wrk`".into());
    }
    println!("{CONNECTIONS} connections, medians of {ROUNDS} rounds of {SECONDS} s");
    let call = json!({"arguments": {"x": 17, "y": 25}});
    measure_route("/tools/add/call", &[Mode::Bare, Mode::NoStore], &call).await?;
    let modes = [Mode::Bare, Mode::NoStore, Mode::Sqlite, Mode::Postgres];
    measure_route("/chat", &modes, &question(None)).await
}

async fn measure_route(path: &str, modes: &[Mode], body: &Value) -> Result<(), Failure> {
    let mut entries = Vec::new();
    for &mode in modes {
        let folder = tempfile::tempdir()?;
        match Process::try_start(mode, folder.path(), Duration::ZERO)? {
            Some(server) => entries.push(Entry { mode, server, _folder: folder, rounds: Vec::new() }),
            None => println!("`{mode}` is missing: `cargo xtask setup --judges` installs it"),
        }
    }
    let mut bodies = Vec::new();
    for entry in entries.iter().take(2) {
        bodies.push(Connection::open(&entry.server.address).await?.post(path, body).await?);
    }
    if bodies.iter().any(|body| body != &bodies[0]) {
        return Err(format!("the servers give different answers: {bodies:?}").into());
    }
    for round in 0..=ROUNDS {
        for entry in &mut entries {
            let is_warm_up = round == 0;
            let result = send(entry, path, body, round, if is_warm_up { WARM_UP_SECONDS } else { SECONDS })?;
            if !is_warm_up {
                entry.rounds.push(result);
            }
        }
    }
    print(path, &entries)
}

/// Sends requests for some seconds.
fn send(entry: &Entry, path: &str, body: &Value, batch: usize, seconds: u32) -> Result<Round, Failure> {
    let Entry { mode, server, .. } = entry;
    let mut script = "wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n".to_owned();
    if matches!(mode, Mode::Sqlite | Mode::Postgres) {
        script += &format!("wrk.body = '{}'\n", question(Some("SESSION")));
        script += &IN_SESSIONS.replace("BATCH", &batch.to_string());
    } else {
        script += &format!("wrk.body = '{body}'\n");
    }
    script += PRINT_RESULT;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("requests.lua");
    fs::write(&file, script)?;
    let begun = server.processor_time()?;
    let result = run_wrk(&file, &format!("http://{}{path}", server.address), seconds)?;
    let processor = server.processor_time()? - begun;
    let number = |name: &str| result[name].as_f64().unwrap_or_default();
    if number("errors") > 0.0 {
        return Err(format!("{} requests to `{mode}` failed", number("errors")).into());
    }
    Ok(Round {
        rate: number("requests") / (number("micros") / 1e6),
        p50: number("p50") / 1e3,
        p99: number("p99") / 1e3,
        processor: processor.as_secs_f64() * 1e6 / number("requests"),
    })
}

fn run_wrk(script: &Path, url: &str, seconds: u32) -> Result<Value, Failure> {
    let mut command = Command::new("wrk");
    command.args(["--threads=1", &format!("--connections={CONNECTIONS}"), &format!("--duration={seconds}s")]);
    let output = command.arg("--script").arg(script).arg(url).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let result = text.lines().find_map(|line| line.strip_prefix("result: "));
    let result = result.ok_or_else(|| format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(serde_json::from_str(result)?)
}

fn print(path: &str, entries: &[Entry]) -> Result<(), Failure> {
    let heads = ["requests/s", "ratio", "CPU/request", "p50", "p99", "memory"];
    let [rate, ratio, processor, p50, p99, memory] = heads;
    println!();
    println!(
        "{:18} {rate:>10} {ratio:>6} {processor:>12} {p50:>9} {p99:>9} {memory:>10}",
        format!("POST {path}").as_str()
    );
    for entry in entries {
        let middle = |value: fn(&Round) -> f64| median(entry.rounds.iter().map(value).collect());
        let bare = entries.first().map_or(&[][..], |bare| bare.rounds.as_slice());
        let ratios = entry.rounds.iter().zip(bare).map(|(round, bare)| round.rate / bare.rate);
        println!(
            "{:22} {:>10.0} {:>6.2} {:>9.0} µs {:>6.2} ms {:>6.2} ms {:>6.1} MiB",
            entry.mode,
            middle(|round| round.rate),
            median(ratios.collect()),
            middle(|round| round.processor),
            middle(|round| round.p50),
            middle(|round| round.p99),
            entry.server.peak_memory()?,
        );
    }
    println!("the goal without a store is a ratio of {MIN_RATIO}");
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
