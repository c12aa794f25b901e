//! Measures how well a model selects tools, writes arguments and answers questions.
//!
//! In the first part, the model gets nine questions and three tools. Two of the tools return fixed
//! results. To pass, the model must make all nine calls with the right tool and arguments, and give
//! at least eight right answers.
//!
//! The second part compares both built-in models in each dialect, on questions that need one or two
//! calls. The models run in process, and on a llama.cpp server with the same weights. The baseline
//! is a plain loop that uses this server.

mod case;
mod compare;
mod model;
mod plain;
mod score;
mod server;
mod table;
mod tools;

use std::{error::Error, path::PathBuf, process::ExitCode, sync::Arc, time::Instant};

use clap::{Parser, ValueEnum};
use haft_core::{ChatModel, model::ChatSettings, text::ErrorChain};
use haft_react::{AutoDialect, JsonReact, LimitAction, NativeCalls, ReactAgent, TextReact};

use crate::{
    case::{CASES, Case},
    compare::Comparison,
    score::Score,
};

/// The maximum number of tokens in a reply. Small models can repeat a call without end.
const MAX_TOKENS: u32 = 512;

/// Measures tool selection, arguments and answers of a model.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    model: model::ModelOptions,
    /// The dialect of the nine questions. Disables the comparison.
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,
    /// Compare with all questions, which takes three times as long.
    #[arg(long)]
    all: bool,
    /// Run the comparison only.
    #[arg(long, conflicts_with = "dialect")]
    comparison: bool,
    /// A Python interpreter with xllamacpp for the plain loop. Without it, the plain loop is
    /// omitted.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dialect {
    Auto,
    Native,
    Json,
    Text,
}

#[tokio::main]
async fn main() -> ExitCode {
    // Install a TLS provider for `reqwest::Client::new()`. The call fails only if a provider is
    // already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    run(Options::parse()).await.unwrap_or_else(|error| {
        eprintln!("error: {}", ErrorChain(&*error));
        ExitCode::FAILURE
    })
}

async fn run(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    let compares = options.comparison || options.dialect.is_none() && options.model.is_default();
    let passes = options.comparison || passes_questions(&options).await?;
    if compares {
        println!("\n{}\n", compare::ABOUT);
        let comparison = Comparison { all: options.all, python: options.python };
        comparison.run().await?;
    }
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the agent with the nine questions and prints the scores. Returns `true` if the model
/// passes.
async fn passes_questions(options: &Options) -> Result<bool, Box<dyn Error>> {
    let model = options.model.open().await?;
    println!("model: {}\n\n{}", model.profile().name, table::head());
    let agent = agent(model, options.dialect.unwrap_or(Dialect::Auto))?;
    let mut scores = Vec::new();
    for case in &CASES {
        let score = ask(&agent, case).await;
        println!("{}", table::row(case, &score));
        scores.push(score);
    }
    println!("\n{}", table::totals(&scores));
    Ok(score::is_passed(&scores))
}

fn agent(model: Arc<dyn ChatModel>, dialect: Dialect) -> Result<ReactAgent, Box<dyn Error>> {
    let settings =
        ChatSettings { temperature: Some(0.0), max_tokens: Some(MAX_TOKENS), ..ChatSettings::default() };
    let auto = AutoDialect::for_profile(model.profile());
    let builder =
        ReactAgent::builder(model).tools(tools::all()).settings(settings).limit_action(LimitAction::Answer);
    let builder = match dialect {
        Dialect::Auto => builder.dialect(auto),
        Dialect::Native => builder.dialect(NativeCalls),
        Dialect::Json => builder.dialect(JsonReact::new()),
        Dialect::Text => builder.dialect(TextReact),
    };
    Ok(builder.build()?)
}

/// Runs the agent with the question in `case`. Returns the score of the run.
async fn ask(agent: &ReactAgent, case: &Case) -> Score {
    let started = Instant::now();
    let ended = agent.run(case.prompt).await;
    Score::of(case, ended.into(), started.elapsed())
}
