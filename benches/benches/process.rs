//! Measures the resources that a process needs: its peak memory with 512 concurrent runs, and the
//! time from its start to its first model request. Each run has ten steps with two calls. The
//! agent, the two hand-written loops and the model server each run in a separate process.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a benchmark program")]

#[path = "../src/by_hand.rs"]
mod by_hand;

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpListener,
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use haft_benches::{mock, peak_memory};
use haft_core::{Toolset, tool};
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;

use by_hand::{AsyncOpenAiLoop, ChatMessage, Failure, ReqwestLoop};

/// The number of concurrent runs in the memory measurement.
const RUNS: u64 = 512;

/// The maximum peak memory of the agent's process, in MiB. `--check` fails if it is exceeded.
const MAX_MEMORY_MIB: f64 = 96.0;

/// The goal for the time from the start of a process to its first model request. It is printed, but
/// not checked.
const FIRST_REQUEST_GOAL: Duration = Duration::from_millis(15);

/// The number of processes that are started to measure the time to the first model request. The
/// median is reported.
const PROCESS_STARTS: usize = 41;

/// The command line argument that makes this program serve the model. The bench starts itself with
/// this argument as a child process.
const SERVE: &str = "--serve";
const RUN: &str = "--run";

const LOOPS: [&str; 3] = ["haft", "reqwest by hand", "async-openai by hand"];

/// Adds two integers.
#[tool]
async fn add(x: i64, y: i64) -> i64 {
    x + y
}

/// Multiplies two integers, as the second tool of each step.
#[tool]
async fn multiply(x: i64, y: i64) -> i64 {
    x * y
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        [SERVE] => in_runtime(async { Ok(mock::serve().await?) }),
        [RUN, name, base_url, runs] => in_runtime(run(name, base_url, runs)),
        _ if words.contains(&"--check") => check(),
        _ => measure(),
    };
    done.map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn in_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn measure() -> Result<(), Failure> {
    println!("{RUNS} runs at a time, and the first request of a process");
    for name in LOOPS {
        let (memory, first) = (measure_memory(name)?, measure_first_request(name)?);
        println!("  {name:20}  {memory:5.1} MiB at most  {:5.1} ms", first.as_secs_f64() * 1_000.0);
    }
    println!(
        "  {:20}  {MAX_MEMORY_MIB:5.1} MiB          {:5.1} ms",
        "the goal",
        FIRST_REQUEST_GOAL.as_secs_f64() * 1_000.0
    );
    Ok(())
}

/// Returns an error if the peak memory of the agent exceeds [`MAX_MEMORY_MIB`].
fn check() -> Result<(), Failure> {
    let memory = measure_memory("haft")?;
    println!("process: {RUNS} runs at a time: {memory:.1} MiB, at most {MAX_MEMORY_MIB:.1} MiB");
    if memory > MAX_MEMORY_MIB { Err("the runs use too much memory".into()) } else { Ok(()) }
}

/// Measures the peak memory of a process that executes all runs with the loop `name`, an entry of
/// [`LOOPS`]. Returns the memory in MiB.
fn measure_memory(name: &str) -> Result<f64, Failure> {
    let mut server = spawn_self(&[SERVE])?;
    let base_url = format!("http://127.0.0.1:{}/v1", first_line(&mut server.0)?);
    let mut runs = spawn_self(&[RUN, name, &base_url, &RUNS.to_string()])?;
    Ok(first_line(&mut runs.0)?.parse()?)
}

/// Measures the time from the start of a process to its first model request, with the loop `name`,
/// an entry of [`LOOPS`]. Returns the median.
fn measure_first_request(name: &str) -> Result<Duration, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let base_url = format!("http://{}/v1", listener.local_addr()?);
    let mut times = Vec::with_capacity(PROCESS_STARTS);
    for _ in 0..PROCESS_STARTS {
        let begun = Instant::now();
        let _process = spawn_self(&[RUN, name, &base_url, "1"])?;
        let (mut stream, _) = listener.accept()?;
        stream.read_exact(&mut [0])?;
        times.push(begun.elapsed());
    }
    times.sort();
    times.get(PROCESS_STARTS / 2).copied().ok_or_else(|| "nothing was measured".into())
}

/// Executes the given number of runs concurrently, and prints the peak memory of this process in
/// MiB.
async fn run(name: &str, base_url: &str, runs: &str) -> Result<(), Failure> {
    let once = build_loop(name, base_url)?;
    let runs: FuturesUnordered<_> = (0..runs.parse::<u64>()?)
        .map(|run| {
            let ended = tokio::spawn(once(run));
            async move { (run, ended.await) }
        })
        .collect();
    let ended: Vec<_> = runs.collect().await;
    for (run, answer) in ended {
        if answer?? != format!("{run} is done.") {
            return Err(format!("run {run} has a wrong answer").into());
        }
    }
    println!("{}", peak_memory().ok_or("this system does not report the memory of a process")?);
    Ok(())
}

type Run = Box<dyn Fn(u64) -> BoxFuture<'static, Result<String, Failure>>>;

fn build_loop(name: &str, base_url: &str) -> Result<Run, Failure> {
    let tools = || ["add", "multiply"].map(str::to_owned);
    Ok(match name {
        "haft" => {
            let model = ChatCompletions::builder("mock").base_url(base_url).build()?;
            let agent = ReactAgent::new(model, Toolset::new().with_tool(Add).with_tool(Multiply))?;
            Box::new(move |run| {
                let agent = agent.clone();
                Box::pin(async move { Ok(agent.run(run.to_string()).await?.text()?.to_owned()) })
            })
        }
        "reqwest by hand" => {
            let by_hand = ReqwestLoop::new(base_url, tools());
            Box::new(move |run| {
                let by_hand = by_hand.clone();
                Box::pin(async move { by_hand.run(vec![ChatMessage::new("user", run.to_string())]).await })
            })
        }
        _ => {
            let by_hand = AsyncOpenAiLoop::new(base_url, tools());
            Box::new(move |run| {
                let by_hand = by_hand.clone();
                let question = AsyncOpenAiLoop::message("user", run.to_string());
                Box::pin(async move { by_hand.run(vec![question]).await })
            })
        }
    })
}

/// A child process that runs this program with other arguments. It is killed on drop.
struct Process(Child);

fn spawn_self(arguments: &[&str]) -> Result<Process, Failure> {
    Ok(Process(Command::new(env::current_exe()?).args(arguments).stdout(Stdio::piped()).spawn()?))
}

fn first_line(process: &mut Child) -> Result<String, Failure> {
    let mut line = String::new();
    BufReader::new(process.stdout.take().ok_or("the process has no standard output")?)
        .read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
