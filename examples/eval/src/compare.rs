//! Each model in each dialect, beside a plain loop around a llama.cpp server with the same weights.

use std::{
    error::Error,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_core::{ChatModel, toolset::ListContext};
use haft_local::{KnownModel, LocalModel, ModelStore};

use crate::{
    Dialect, agent, ask,
    case::{CASES, Case, TWO_STEPS, few},
    plain::PlainLoop,
    score::Score,
    server::Server,
    table, tools,
};

/// What the table says, and how long it takes.
pub(crate) const ABOUT: &str = "Each model in each dialect, beside a plain loop around a llama.cpp server with the same weights, which runs what the
model writes as it is. How many were right, of how many; what was not is told on standard error. On a quiet machine with two
cores this takes about a quarter of an hour, with --all about three times that.";

/// What is compared.
pub(crate) struct Comparison {
    /// All questions, and not only some of each kind.
    pub(crate) all: bool,
    /// A Python that has `xllamacpp`; without one, the plain loop is left out.
    pub(crate) python: Option<PathBuf>,
}

/// How one model did in one way.
pub(crate) struct Row {
    pub(crate) model: &'static str,
    pub(crate) way: &'static str,
    pub(crate) one: Vec<Score>,
    pub(crate) two: Vec<Score>,
}

const WAYS: [(&str, Dialect); 3] =
    [("native", Dialect::Native), ("json", Dialect::Json), ("text", Dialect::Text)];

impl Comparison {
    pub(crate) async fn run(&self) -> Result<(), Box<dyn Error>> {
        println!("{}", table::comparison_head());
        for known in KnownModel::all() {
            {
                let model = LocalModel::builder().progress_bar().download(known.name).await?;
                let model: Arc<dyn ChatModel> = Arc::new(model);
                for (way, dialect) in WAYS {
                    let agent = agent(Arc::clone(&model), dialect)?;
                    self.measure(known.name, way, async |case: &Case| ask(&agent, case).await).await;
                }
            }
            if let Some(python) = &self.python {
                let server = Server::start(python, &ModelStore::new()?.path(known))?;
                let offered = tools::all().list(&ListContext::default()).await;
                let plain = PlainLoop::new(&server.base_url, &offered);
                let ask = async |case: &Case| {
                    let started = Instant::now();
                    let went = plain.run(case.prompt).await;
                    Score::of(case, went, started.elapsed())
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
        let chosen = |cases: &'static [Case]| if self.all { cases.iter().collect() } else { few(cases) };
        let mut row = Row { model, way, one: Vec::new(), two: Vec::new() };
        for case in chosen(&CASES) {
            row.one.push(Self::told(model, way, case, ask(case).await));
        }
        for case in chosen(&TWO_STEPS) {
            row.two.push(Self::told(model, way, case, ask(case).await));
        }
        println!("{}", table::comparison_row(&row));
    }

    /// Says how a run went that was not right.
    fn told(model: &str, way: &str, case: &Case, score: Score) -> Score {
        if !(score.tool && score.arguments && score.answer) {
            eprintln!("    {model}, {way}: {}\n        {}", case.prompt, score.went);
        }
        score
    }
}

impl Row {
    pub(crate) fn took(&self) -> Duration {
        self.one.iter().chain(&self.two).map(|score| score.took).sum()
    }
}
