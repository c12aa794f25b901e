//! Compares an agent of langchain-rust with the same agent of haft: lines of source, time and
//! instructions of a step, and peak memory. Also measures the two agents that have parts of both.
//!
//! A run has ten steps: nine calls of `add`, and an answer.

use std::{
    env,
    error::Error,
    hint::black_box,
    process::{Command, ExitCode},
};

use haft_benches::{Case, ModelServer, REPLIES_PER_RUN, Work, asynchronous, peak_memory, run};
use haft_react::ReactAgent;
use langchain::agents::{haft_agent, haft_model, haft_only, langchain_only};

const QUESTION: &str = "What is the sum?";

/// The number of runs for which the peak memory is measured.
const MEMORY_RUNS: u32 = 20;

/// The command line argument that makes this program execute [`MEMORY_RUNS`] runs of an agent and
/// print its peak memory in MiB. The name of the agent and the base URL of the model follow.
const MEMORY_FLAG: &str = "--memory";

/// An agent to measure.
struct Variant {
    name: &'static str,
    /// The source of the agent.
    source: &'static str,
    /// The number of runs in which the instructions are counted. The runs of an agent with the
    /// client of langchain-rust take minutes under callgrind.
    counted_runs: u32,
    /// Builds the agent for a model at a base URL, and returns its runs.
    work: fn(&str) -> Work,
}

const VARIANTS: [Variant; 4] = [
    Variant {
        name: "langchain-rust",
        source: include_str!("../src/agents/langchain_only.rs"),
        counted_runs: 2,
        work: |base_url| langchain_runs(langchain_only::build(base_url).expect("an agent")),
    },
    Variant {
        name: "langchain-rust, haft's model",
        source: include_str!("../src/agents/haft_model.rs"),
        counted_runs: 10,
        work: |base_url| langchain_runs(haft_model::build(base_url).expect("an agent")),
    },
    Variant {
        name: "haft, LangChain's model and tools",
        source: include_str!("../src/agents/haft_agent.rs"),
        counted_runs: 2,
        work: |base_url| haft_runs(haft_agent::build(base_url).expect("an agent")),
    },
    Variant {
        name: "haft",
        source: include_str!("../src/agents/haft_only.rs"),
        counted_runs: 10,
        work: |base_url| haft_runs(haft_only::build(base_url).expect("an agent")),
    },
];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [MEMORY_FLAG, name, base_url] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return measure_memory(name, base_url);
    }
    let is_whole = arguments.iter().all(|argument| argument == "--bench");
    let cases = VARIANTS.map(|variant| {
        let case = Case::new(variant.name, move || (variant.work)(&start_server()));
        let case = case.with_parts_per_round(REPLIES_PER_RUN).with_rounds(variant.counted_runs);
        if variant.name == VARIANTS[0].name { case } else { case.with_baseline(VARIANTS[0].name) }
    });
    let exit_code = run("a step", &cases);
    if is_whole && let Err(error) = print_lines_and_memory() {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    exit_code
}

fn start_server() -> String {
    ModelServer::start().expect("a port to listen on").base_url()
}

fn langchain_runs(agent: langchain_only::Agent) -> Work {
    asynchronous(async move |rounds| {
        for _ in 0..rounds {
            check(langchain_only::answer(&agent, QUESTION).await.expect("an answer"));
        }
    })
}

fn haft_runs(agent: ReactAgent) -> Work {
    asynchronous(async move |rounds| {
        for _ in 0..rounds {
            check(haft_only::answer(&agent, QUESTION).await.expect("an answer"));
        }
    })
}

fn check(answer: String) {
    assert_eq!(black_box(answer), "It is 45.");
}

/// Prints the number of lines of each agent's source, and its peak memory. The model server is in
/// this process and each agent is in a process of its own, so the memory of the server is not
/// included.
fn print_lines_and_memory() -> Result<(), Box<dyn Error>> {
    let steps = MEMORY_RUNS * REPLIES_PER_RUN;
    println!("\n{:33}  {:>5}  memory of {steps} steps", "an agent", "lines");
    for Variant { name, source, .. } in VARIANTS {
        let base_url = start_server();
        let child = Command::new(env::current_exe()?).args([MEMORY_FLAG, name, &base_url]).output()?;
        let memory = String::from_utf8(child.stdout)?;
        if !child.status.success() {
            return Err(String::from_utf8(child.stderr)?.into());
        }
        println!("{name:33}  {:>5}  {} MiB", count_lines(source), memory.trim());
    }
    Ok(())
}

/// Returns the number of lines that contain code.
fn count_lines(source: &str) -> usize {
    let lines = source.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//!")).count()
}

fn measure_memory(name: &str, base_url: &str) -> ExitCode {
    let Some(variant) = VARIANTS.into_iter().find(|variant| variant.name == name) else {
        eprintln!("error: there is no agent {name:?}");
        return ExitCode::FAILURE;
    };
    (variant.work)(base_url)(MEMORY_RUNS);
    match peak_memory() {
        Some(memory) => println!("{memory:.1}"),
        None => println!("unknown"),
    }
    ExitCode::SUCCESS
}
