//! How well a model picks tools, fills in their arguments, and ends with the right answer.
//!
//! Nine questions with three tools, two of which have canned results. Prints a table, and fails below the bar: the
//! right tool with the right arguments nine times of nine, the right answer eight times.
//!
//! Then it compares: both known models in each dialect, on questions that take one call and such that take two, beside a
//! plain loop around a llama.cpp server with the same weights.

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
use haft_react::{AtLimit, JsonReact, NativeCalls, ReactAgent, TextReact};

use crate::{
    case::{CASES, Case},
    compare::Comparison,
    score::Score,
};

/// Measures how well a model picks and calls tools.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    model: model::ModelOptions,
    /// How the model is spoken to. Nothing is compared then.
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,
    /// Compare with all questions: that takes three times as long.
    #[arg(long)]
    all: bool,
    /// Only compare.
    #[arg(long)]
    comparison: bool,
    /// A Python that has xllamacpp, for the plain loop; without it, that is left out.
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
    // TLS for `reqwest::Client::new()`. The only error is a provider that is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    run(Options::parse()).await.unwrap_or_else(|error| {
        eprintln!("error: {}", ErrorChain(&*error));
        ExitCode::FAILURE
    })
}

async fn run(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    let compares = options.comparison || options.dialect.is_none() && options.model.is_default();
    let passes = options.comparison || nine(&options).await?;
    if compares {
        println!("\n{}\n", compare::ABOUT);
        let comparison = Comparison { all: options.all, python: options.python };
        comparison.run().await?;
    }
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Asks the nine questions that must be right.
async fn nine(options: &Options) -> Result<bool, Box<dyn Error>> {
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
    Ok(score::pass(&scores))
}

fn agent(model: Arc<dyn ChatModel>, dialect: Dialect) -> Result<ReactAgent, Box<dyn Error>> {
    let settings = ChatSettings { temperature: Some(0.0), ..ChatSettings::default() };
    let builder = ReactAgent::builder(model).tools(tools::all()).settings(settings).at_limit(AtLimit::Answer);
    let builder = match dialect {
        Dialect::Auto => builder,
        Dialect::Native => builder.dialect(NativeCalls),
        Dialect::Json => builder.dialect(JsonReact::new()),
        Dialect::Text => builder.dialect(TextReact),
    };
    Ok(builder.build()?)
}

/// Asks one question, and judges how the run went.
async fn ask(agent: &ReactAgent, case: &Case) -> Score {
    let started = Instant::now();
    let ended = agent.run(case.prompt).await;
    Score::of(case, ended.into(), started.elapsed())
}
