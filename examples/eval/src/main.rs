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
mod development;
mod model;
mod plain;
mod score;
mod server;
mod speed;
mod table;
mod tools;

use std::{error::Error, path::PathBuf, process::ExitCode, sync::Arc, time::Instant};

use clap::{Parser, ValueEnum};
use haft_core::{ChatModel, model::ChatSettings, text::ErrorChain};
use haft_local::{KnownModel, LocalModel};
use haft_react::{
    AutoDialect, JsonReact, LimitAction, NativeCalls, ReactAgent, ReactAgentBuilder, TextReact,
};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::{
    case::{CASES, Case},
    compare::Comparison,
    development::CaseSelection,
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
    /// Run the development set only.
    #[arg(long, conflicts_with = "comparison")]
    development: bool,
    /// Measure the speed only, and compare it with the llama.cpp server.
    #[arg(long, conflicts_with_all = ["all", "case", "cases", "comparison", "development", "dialect", "group", "model", "part"])]
    speed: bool,
    /// The models of the catalogue for `--speed`.
    #[arg(long, value_name = "NAME", default_values = ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])]
    speed_models: Vec<String>,
    #[command(flatten)]
    cases: CaseSelection,
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
    // `HAFT_LOG=haft_local=debug` shows the decisions of the local model.
    let filter =
        EnvFilter::builder().with_env_var("HAFT_LOG").with_default_directive(LevelFilter::OFF.into());
    tracing_subscriber::fmt().with_env_filter(filter.from_env_lossy()).with_writer(std::io::stderr).init();
    run(Options::parse()).await.unwrap_or_else(|error| {
        eprintln!("error: {}", ErrorChain(&*error));
        ExitCode::FAILURE
    })
}

async fn run(options: Options) -> Result<ExitCode, Box<dyn Error>> {
    if options.speed {
        println!("{}\n", speed::ABOUT);
        speed::run(options.python.as_deref(), &options.speed_models).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_default = options.dialect.is_none() && options.model.is_default();
    let runs_one_part = options.comparison || options.development;
    let passes = runs_one_part || passes_questions(&options).await?;
    if options.comparison || is_default && !options.development {
        println!("\n{}\n", compare::ABOUT);
        let comparison = Comparison { all: options.all, python: options.python.clone() };
        comparison.run().await?;
    }
    if options.development || is_default && !options.comparison {
        println!("\n{}\n\n{}", development::ABOUT, development::head());
        run_development(&options).await?;
    }
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the models of the catalogue with a tuned profile. The others need much more memory and
/// time.
fn tuned_models() -> impl Iterator<Item = &'static KnownModel> {
    KnownModel::all().iter().filter(|known| known.name.starts_with("qwen2.5-coder"))
}

/// Runs the development set with the selected model, or with each tuned model.
async fn run_development(options: &Options) -> Result<(), Box<dyn Error>> {
    let dialect = options.dialect.unwrap_or(Dialect::Auto);
    if !options.model.is_default() {
        let model = options.model.open().await?;
        return development::run(&model.profile().name, &model, dialect, &options.cases).await;
    }
    for known in tuned_models() {
        let model = LocalModel::builder().progress_bar().download(known.name).await?;
        let model: Arc<dyn ChatModel> = Arc::new(model);
        development::run(known.name, &model, dialect, &options.cases).await?;
    }
    Ok(())
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
    Ok(builder(model, dialect).tools(tools::all()).limit_action(LimitAction::Answer).build()?)
}

/// Returns a builder of an agent with `model` and `dialect`, at temperature 0.
fn builder(model: Arc<dyn ChatModel>, dialect: Dialect) -> ReactAgentBuilder {
    let settings =
        ChatSettings { temperature: Some(0.0), max_tokens: Some(MAX_TOKENS), ..ChatSettings::default() };
    let auto = AutoDialect::for_profile(model.profile());
    let builder = ReactAgent::builder(model).settings(settings);
    match dialect {
        Dialect::Auto => builder.dialect(auto),
        Dialect::Native => builder.dialect(NativeCalls),
        Dialect::Json => builder.dialect(JsonReact::new()),
        Dialect::Text => builder.dialect(TextReact),
    }
}

/// Runs the agent with the question in `case`. Returns the score of the run.
async fn ask(agent: &ReactAgent, case: &Case) -> Score {
    let started = Instant::now();
    let ended = agent.run(case.prompt).await;
    Score::of(case, ended.into(), started.elapsed())
}
