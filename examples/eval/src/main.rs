//! How well a model picks tools, fills in their arguments, and ends with the right answer.
//!
//! Nine questions with three tools, two of which have canned results. Prints a table, and fails below the bar: the
//! right tool with the right arguments nine times of nine, the right answer eight times.

mod case;
mod model;
mod score;
mod table;
mod tools;

use std::{error::Error, process::ExitCode, sync::Arc, time::Instant};

use clap::{Parser, ValueEnum};
use haft_core::{Agent, ChatModel, ChatSettings, WithCauses};
use haft_react::{AtLimit, JsonReact, NativeCalls, ReactAgent};

use crate::{
    case::{CASES, Case},
    score::Score,
};

/// Measures how well a model picks and calls tools.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    model: model::ModelOptions,
    /// How the model is spoken to.
    #[arg(long, value_enum, default_value = "auto")]
    dialect: Dialect,
}

#[derive(Clone, Copy, ValueEnum)]
enum Dialect {
    Auto,
    Native,
    Json,
}

#[tokio::main]
async fn main() -> ExitCode {
    run(Options::parse()).await.unwrap_or_else(|error| {
        eprintln!("error: {}", WithCauses(&*error));
        ExitCode::FAILURE
    })
}

async fn run(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    let model = options.model.open().await?;
    println!("model: {}\n\n{}", model.profile().name, table::head());
    let agent = agent(model, options.dialect)?;
    let mut scores = Vec::new();
    for case in &CASES {
        let score = ask(&agent, case).await;
        println!("{}", table::row(case, &score));
        scores.push(score);
    }
    println!("\n{}", table::totals(&scores));
    Ok(if score::pass(&scores) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn agent(model: Arc<dyn ChatModel>, dialect: Dialect) -> Result<ReactAgent, Box<dyn Error>> {
    let settings = ChatSettings { temperature: Some(0.0), ..ChatSettings::default() };
    let builder = ReactAgent::builder(model).tools(tools::all()).settings(settings).at_limit(AtLimit::Answer);
    let builder = match dialect {
        Dialect::Auto => builder,
        Dialect::Native => builder.dialect(NativeCalls),
        Dialect::Json => builder.dialect(JsonReact::new()),
    };
    Ok(builder.build()?)
}

/// Asks one question, and judges how the run went.
async fn ask(agent: &ReactAgent, case: &Case) -> Score {
    let started = Instant::now();
    let ended = agent.run(case.prompt.into()).await;
    Score::of(case, ended, started.elapsed())
}
