//! Measures how well a model selects tools and writes calls: 150 requests by several authors, in
//! five groups. The tools and the requests are in `cases.json`.
//!
//! With `--speed`, measures the speed of the local models beside a llama.cpp server instead.

mod cases;
mod evaluation;
mod matching;
mod model;
mod server;
mod speed;

use std::{error::Error, path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Parser, ValueEnum};
use haft_core::{ChatModel, model::ChatSettings, text::ErrorChain};
use haft_local::{KnownModel, LocalModel};
use haft_react::{AutoDialect, JsonReact, NativeCalls, ReactAgent, ReactAgentBuilder, TextReact};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::evaluation::CaseSelection;

/// The maximum number of tokens in a reply. Small models can repeat a call without end.
const MAX_TOKENS: u32 = 512;

/// Measures the tool calls of a model. Without `--model` and HAFT_MODEL, measures both tuned models
/// of the catalogue.
#[derive(Parser)]
struct Options {
    #[command(flatten)]
    model: model::ModelOptions,
    /// How calls are written. Default: as the model prefers.
    #[arg(long, value_enum, default_value = "auto", hide_default_value = true)]
    dialect: Dialect,
    #[command(flatten)]
    cases: CaseSelection,
    /// Measure the speed only, and compare it with the llama.cpp server.
    #[arg(long, conflicts_with_all = ["case", "cases", "dialect", "group", "model"])]
    speed: bool,
    /// The models of the catalogue for `--speed`.
    #[arg(long, value_name = "NAME", requires = "speed", default_values = ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])]
    speed_models: Vec<String>,
    /// A Python interpreter with xllamacpp for `--speed`.
    #[arg(long, value_name = "PATH", requires = "speed")]
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
    match run(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    if options.speed {
        println!("{}\n", speed::ABOUT);
        return speed::run(options.python.as_deref(), &options.speed_models).await;
    }
    let models = match options.model.open().await? {
        Some(model) => vec![model],
        None => tuned_models().await?,
    };
    println!("{}\n\n{}", evaluation::ABOUT, evaluation::head());
    for model in models {
        let name = model.profile().name.clone();
        evaluation::run(&name, &model, options.dialect, &options.cases).await?;
    }
    Ok(())
}

/// Opens the models of the catalogue with a tuned profile. The others need much more memory and
/// time.
async fn tuned_models() -> Result<Vec<Arc<dyn ChatModel>>, Box<dyn Error>> {
    let mut models: Vec<Arc<dyn ChatModel>> = Vec::new();
    for known in KnownModel::all().iter().filter(|known| known.name.starts_with("qwen2.5-coder")) {
        models.push(Arc::new(LocalModel::builder().progress_bar().download(known.name).await?));
    }
    Ok(models)
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
