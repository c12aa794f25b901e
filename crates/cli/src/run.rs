//! `haft run`: a question, a model, tools, and the answer.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser, value_parser};
use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Toolset,
    agent::{AgentError, AgentErrorKind, RunLimits},
    model::ModelError,
    tool::RunContext,
    usage::Prices,
};
use haft_react::{AtLimit, JsonReact, NativeCalls, ReactAgent, TextReact};

use crate::{
    failure::Failure,
    interrupt,
    language_model::ModelOptions,
    terminal,
    toolbox::{ToolOptions, Toolbox},
    trace::Trace,
};

/// Ask a model, with tools.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The question or task.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    prompt: String,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    tools: ToolOptions,
    /// Offer these tools only.
    #[arg(id = "names", long = "tools", value_name = "A,B", value_delimiter = ',')]
    names: Option<Vec<String>>,
    /// How the model is spoken to: by function calls, by JSON of a schema, or by lines of plain text.
    #[arg(long, value_enum, default_value_t = DialectName::Auto)]
    dialect: DialectName,
    /// The most rounds of thinking and calling; then the model must answer with what it has.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    max_iters: Option<u32>,
    /// Say what the run cost, by the prices in this file: `{"MODEL": {"input": 0.25, "output": 2}}`, for a million tokens.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Write one JSON event a line; the last is the answer or the error.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DialectName {
    /// What fits the model.
    Auto,
    /// Function calls.
    Native,
    /// JSON of a schema.
    Json,
    /// Lines of plain text.
    Text,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let agent = interrupt::cancels(arguments.agent()).await?;
    let trace = (!arguments.json).then(|| Trace::new(arguments.prices.is_some()));
    let output = watch(&agent, arguments.prompt, trace).await?;
    match output {
        RunOutput::Answer(_) => Ok(ExitCode::SUCCESS),
        RunOutput::Parked(_) if arguments.json => Ok(ExitCode::FAILURE),
        RunOutput::Parked(_) => Err(Failure::new("the run waits for an answer, which cannot be given here")),
    }
}

impl Arguments {
    /// Starts the servers, loads the model, and puts them together.
    async fn agent(&self) -> Result<ReactAgent, Failure> {
        let prices = self.prices.as_deref().map(prices).transpose()?;
        let toolbox = self.tools.open().await?;
        toolbox.check()?;
        let tools = self.offered(&toolbox).await?;
        let model = self.model.open().await?;
        let limits =
            RunLimits { requests: self.max_iters.or(RunLimits::default().requests), ..RunLimits::default() };
        let builder = ReactAgent::builder(model).tools(tools).limits(limits).at_limit(AtLimit::Answer);
        let builder = match prices {
            Some(prices) => builder.prices(prices),
            None => builder,
        };
        let builder = match self.dialect {
            DialectName::Auto => builder,
            DialectName::Native => builder.dialect(NativeCalls),
            DialectName::Json => builder.dialect(JsonReact::new()),
            DialectName::Text => builder.dialect(TextReact),
        };
        builder.build().map_err(|error| Failure::of(&error))
    }

    async fn offered(&self, toolbox: &Toolbox) -> Result<Toolset, Failure> {
        toolbox.list().await;
        match &self.names {
            None => Ok(toolbox.tools.clone()),
            Some(names) => {
                let names = names.iter().map(|name| name.trim());
                toolbox.tools.subset(names).await.map_err(|error| Failure::usage(error.to_string()))
            }
        }
    }
}

fn prices(path: &Path) -> Result<Prices, Failure> {
    let named = |problem: String| Failure::new(format!("the prices in {}: {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| named(error.to_string()))
}

/// Runs to the end, and tells what happens. An interrupt cancels the run.
async fn watch(agent: &ReactAgent, prompt: String, mut trace: Option<Trace>) -> Result<RunOutput, Failure> {
    let context = RunContext::default();
    let cancellation = context.cancellation.clone();
    let interrupts = tokio::spawn(async move {
        interrupt::next().await;
        cancellation.cancel();
    });
    let mut events = agent.stream(RunInput::new(prompt).with_context(context));
    let mut last = None;
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| failed(&error))?;
        match &mut trace {
            Some(trace) => trace.tell(&event)?,
            None => terminal::write_json(&json(&event)?)?,
        }
        if let RunEvent::Done { output } = event {
            last = Some(output);
        }
    }
    interrupts.abort();
    last.ok_or_else(|| failed(&AgentErrorKind::Incomplete.into()))
}

/// The end is the answer itself, so that the last line is `{"type":"answer",…}`.
fn json(event: &RunEvent) -> Result<String, Failure> {
    let json = match event {
        RunEvent::Done { output } => serde_json::to_string(output),
        event => serde_json::to_string(event),
    };
    json.map_err(|error| Failure::of(&error))
}

fn failed(error: &AgentError) -> Failure {
    let advice = match &*error.kind {
        AgentErrorKind::Model(ModelError::Unauthorized(_)) => Some("set the right key in OPENAI_API_KEY"),
        AgentErrorKind::Model(ModelError::Rejected { status: 404, .. }) => {
            Some("check the name in --model, and the path of --base-url (it mostly ends in /v1)")
        }
        AgentErrorKind::Model(ModelError::Unreachable { .. }) => {
            Some("start the server, or say by --base-url where it is")
        }
        AgentErrorKind::Model(ModelError::ContextTooLong(_)) => {
            Some("offer fewer tools by --tools, or choose another model by --model")
        }
        _ => None,
    };
    Failure::new(terminal::plain(&error.to_string())).with_advice(advice)
}
