//! Measures the time and the memory that a thousand concurrent runs need. Each run has ten steps
//! with two calls, and the model has a latency of 50 ms. All answers are checked. The model server
//! runs in a separate process, so its memory is not counted.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a benchmark program")]

use std::{
    env,
    error::Error,
    io::{BufRead as _, BufReader},
    process::{Child, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use haft_benches::{
    mock::{self, CALL_STEPS, LATENCY},
    peak_memory,
};
use haft_core::{
    RunOutput, Toolset,
    agent::{AgentError, StopReason},
    tool,
};
use haft_openai::ChatCompletions;
use haft_react::ReactAgent;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const RUNS: u64 = 1000;

/// The number of tool calls in each step.
const CALLS: u64 = 2;

/// The maximum peak memory of this process, in MiB. The bench fails if it is exceeded.
const MAX_MEMORY_MIB: f64 = 256.0;

/// The command line argument that makes this program serve the model.
const SERVE: &str = "--serve";

/// Adds two numbers.
#[tool]
fn add(x: u64, y: u64) -> u64 {
    x + y
}

/// Multiplies two numbers.
#[tool]
fn multiply(x: u64, y: u64) -> u64 {
    x * y
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let done = if has(SERVE) {
        mock::serve().await.map_err(Into::into)
    } else if has("--check") {
        // The number of instructions varies between executions, so it is not checked.
        Ok(())
    } else {
        measure().await
    };
    done.map_or_else(
        |error| {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

async fn measure() -> Result<(), Box<dyn Error>> {
    allow_connections();
    let server = Server::start()?;
    let model = ChatCompletions::builder("mock").base_url(&server.base_url).build()?;
    let agent = ReactAgent::new(model, Toolset::new().with_tool(Add).with_tool(Multiply))?;
    let begun = Instant::now();
    let runs: FuturesUnordered<_> = (0..RUNS)
        .map(|run| {
            let agent = agent.clone();
            tokio::spawn(async move { (run, agent.run(run.to_string()).await) })
        })
        .collect();
    // Keep all answers in memory until the end, so that the measured memory includes them.
    let ended: Vec<_> = runs.map(|joined| joined.map_err(|_| "a run panicked")).collect().await;
    let took = begun.elapsed();
    let memory = peak_memory();
    let ended = ended.into_iter().collect::<Result<Vec<_>, _>>()?;
    report(&ended, took, memory)
}

fn report(
    ended: &[(u64, Result<RunOutput, AgentError>)],
    took: Duration,
    memory: Option<f64>,
) -> Result<(), Box<dyn Error>> {
    let answers = ended.iter().filter(|(run, ended)| is_right(*run, ended)).count() as u64;
    let results = ended.iter().map(|(run, ended)| right_results(*run, ended)).sum::<u64>();
    let least = LATENCY * u32::try_from(CALL_STEPS + 1)?;
    println!(
        "{RUNS} runs at a time, each of {CALL_STEPS} steps with {CALLS} calls, {LATENCY:?} to each reply"
    );
    println!("  time      {:.2} s; {:.2} s for the model alone", took.as_secs_f64(), least.as_secs_f64());
    println!("  requests  {:.0} per second", (RUNS * (CALL_STEPS + 1)) as f64 / took.as_secs_f64());
    println!("  answers   {answers} of {RUNS} are right");
    println!("  results   {results} of {} are right", RUNS * CALL_STEPS * CALLS);
    match memory {
        Some(memory) => println!("  memory    {memory:.0} MiB at most; the goal is {MAX_MEMORY_MIB:.0} MiB"),
        None => println!("  memory    not reported by this system"),
    }
    for error in ended.iter().filter_map(|(_, ended)| ended.as_ref().err()).take(3) {
        println!("  error     {error}");
    }
    if answers < RUNS || results < RUNS * CALL_STEPS * CALLS {
        return Err("answers or results are missing".into());
    }
    if memory.is_some_and(|memory| memory > MAX_MEMORY_MIB) {
        return Err("the memory limit is exceeded".into());
    }
    Ok(())
}

fn is_right(run: u64, ended: &Result<RunOutput, AgentError>) -> bool {
    let Some(answer) = ended.as_ref().ok().and_then(RunOutput::answer) else { return false };
    // The number of messages in a transcript: the question, a reply and the results of its calls
    // for each step, and the answer.
    let messages = 1 + CALL_STEPS * (1 + CALLS) + 1;
    answer.text == format!("{run} is done.")
        && answer.stop_reason == StopReason::Finished
        && answer.steps.len() as u64 == CALL_STEPS * CALLS
        && answer.transcript.len() as u64 == messages
        && answer.usage.requests == CALL_STEPS + 1
}

/// Returns the number of calls in `run` that have the expected step, tool and result.
fn right_results(run: u64, ended: &Result<RunOutput, AgentError>) -> u64 {
    let steps = ended.as_ref().ok().and_then(RunOutput::answer).map_or(&[] as &[_], |answer| &answer.steps);
    let expected =
        (0..CALL_STEPS).flat_map(|step| [(step, "add", run + step), (step, "multiply", run * step)]);
    let right = steps.iter().zip(expected).filter(|(step, (number, tool, value))| {
        u64::from(step.step_number) == number + 1
            && step.tool_name == *tool
            && step.result.model_text() == value.to_string()
    });
    right.count() as u64
}

/// Raises the limit on open files of this process, because each concurrent run needs a connection.
fn allow_connections() {
    let limit = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, the runs that get no connection fail, and their errors are
    // reported.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The process of the model server, which is killed on drop.
struct Server {
    process: Child,
    base_url: String,
}

impl Server {
    fn start() -> Result<Self, Box<dyn Error>> {
        let mut process = Command::new(env::current_exe()?).arg(SERVE).stdout(Stdio::piped()).spawn()?;
        let mut port = String::new();
        let stdout = process.stdout.take().ok_or("the model server has no standard output")?;
        BufReader::new(stdout).read_line(&mut port)?;
        Ok(Self { process, base_url: format!("http://127.0.0.1:{}/v1", port.trim()) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
