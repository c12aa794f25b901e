//! Compares haft's dialects with a plain agent loop that uses a llama.cpp server.

use std::{
    error::Error,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{ChatModel, toolset::ListContext};
use haft_local::{LocalModel, ModelStore};
use haft_openai::{ChatCompletions, Provider};

use crate::{
    Dialect, agent, ask,
    case::{CASES, Case, TWO_STEPS, sample},
    plain::PlainLoop,
    score::Score,
    server::Server,
    table, tools, tuned_models,
};

/// The explanation that is printed above the table.
pub(crate) const ABOUT: &str = "Correct results per model and dialect. The first three rows of a model use the built-in local model. The other rows
use a llama.cpp server with the same weights. The plain loop executes native tool calls unchecked. Wrong results are printed to standard error.
On an idle machine with two cores this takes about a quarter of an hour, with --all about three times that.";

/// The options for the comparison of the dialects with the plain loop.
pub(crate) struct Comparison {
    /// `true` to use all questions, `false` to use at most three questions from each list.
    pub(crate) all: bool,
    /// The path of a Python interpreter with the package `xllamacpp`. If it is `None`, the rows
    /// that use the server are omitted.
    pub(crate) python: Option<PathBuf>,
}

/// The scores of a model in one dialect, or in the plain loop.
pub(crate) struct Row {
    pub(crate) model: &'static str,
    pub(crate) way: &'static str,
    pub(crate) one: Vec<Score>,
    pub(crate) two: Vec<Score>,
}

/// The dialects that are measured with the local model.
const LOCAL_WAYS: [(&str, Dialect); 3] =
    [("native", Dialect::Native), ("json", Dialect::Json), ("text", Dialect::Text)];

/// The dialects that are measured with the llama.cpp server.
const SERVER_WAYS: [(&str, Dialect); 4] = [
    ("auto, server", Dialect::Auto),
    ("native, server", Dialect::Native),
    ("json, server", Dialect::Json),
    ("text, server", Dialect::Text),
];

impl Comparison {
    pub(crate) async fn run(&self) -> Result<(), Box<dyn Error>> {
        println!("{}", table::comparison_head());
        for known in tuned_models() {
            {
                let model = LocalModel::builder().progress_bar().download(known.name).await?;
                let model: Arc<dyn ChatModel> = Arc::new(model);
                for (way, dialect) in LOCAL_WAYS {
                    let agent = agent(Arc::clone(&model), dialect)?;
                    self.measure(known.name, way, async |case: &Case| ask(&agent, case).await).await;
                }
            }
            if let Some(python) = &self.python {
                let server = Server::start(python, &ModelStore::new()?.path(known))?;
                let offered = tools::all().list(&ListContext::default()).await;
                let model = ChatCompletions::builder(known.name)
                    .base_url(format!("{}/v1", server.base_url))
                    .provider(Provider::LlamaCpp)
                    .build()?;
                let model: Arc<dyn ChatModel> = Arc::new(model);
                for (way, dialect) in SERVER_WAYS {
                    let agent = agent(Arc::clone(&model), dialect)?;
                    self.measure(known.name, way, async |case: &Case| ask(&agent, case).await).await;
                }
                let plain = PlainLoop::new(&server.base_url, &offered);
                let ask = async |case: &Case| {
                    let started = Instant::now();
                    let record = plain.run(case.prompt).await;
                    Score::of(case, record, started.elapsed())
                };
                self.measure(known.name, "plain loop", ask).await;
            }
        }
        Ok(())
    }

    async fn measure(
        &self,
        model: &'static str,
        way: &'static str,
        mut ask: impl AsyncFnMut(&Case) -> Score,
    ) {
        let chosen = |cases: &'static [Case]| if self.all { cases.iter().collect() } else { sample(cases) };
        let mut row = Row { model, way, one: Vec::new(), two: Vec::new() };
        for case in chosen(&CASES) {
            row.one.push(Self::print_if_wrong(model, way, case, ask(case).await));
        }
        for case in chosen(&TWO_STEPS) {
            row.two.push(Self::print_if_wrong(model, way, case, ask(case).await));
        }
        println!("{}", table::comparison_row(&row));
    }

    /// Returns `score`. If the calls or the answer of the run are wrong, first prints them to
    /// standard error.
    fn print_if_wrong(model: &str, way: &str, case: &Case, score: Score) -> Score {
        if !(score.has_right_tool && score.has_right_arguments && score.has_right_answer) {
            eprintln!("    {model}, {way}: {}\n        {}", case.prompt, score.summary);
        }
        score
    }
}

impl Row {
    pub(crate) fn took(&self) -> Duration {
        self.one.iter().chain(&self.two).map(|score| score.took).sum()
    }
}
