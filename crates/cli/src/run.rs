//! The command `haft run`: runs an agent and writes its trace and answer.

use std::{process::ExitCode, sync::Arc};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser, value_parser};
use futures::StreamExt as _;
use haft_core::{
    RunEvent, RunInput, RunOutput, Toolset, Transcript,
    agent::{AgentError, AgentErrorKind, RunLimits},
    model::ModelError,
    tool::RunContext,
};
use haft_react::{AutoDialect, JsonReact, LimitAction, NativeCalls, ReactAgent, Run, TextReact};
use haft_session::{Append, SessionKey, SessionStore, StoreError};

use crate::{
    error::CliError,
    interrupt,
    model_options::ModelOptions,
    prices::{PriceOptions, PriceSource, RunPrices},
    spinner::Spinner,
    store::{StoreOptions, session_key, store_error},
    terminal,
    toolbox::{StartWait, ToolOptions, Toolbox},
    trace::Trace,
};

/// Answer a question with a model and tools.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The question or task.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    prompt: String,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    tools: ToolOptions,
    /// Offer only these tools.
    #[arg(id = "names", long = "tools", value_name = "A,B", value_delimiter = ',')]
    names: Option<Vec<String>>,
    /// The format of requests and replies.
    #[arg(long, value_enum, default_value_t = DialectName::Auto)]
    dialect: DialectName,
    /// Maximum number of model requests. After them, the model must answer.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    max_iters: Option<u32>,
    #[command(flatten)]
    prices: PriceOptions,
    /// Continue the stored conversation with this name, or begin one. The question, the answer and
    /// the calls between them are stored.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    #[command(flatten)]
    store: StoreOptions,
    /// Write one JSON event per line. The last line is the answer, the suspended run or the error.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum DialectName {
    /// The dialect that fits the model. Native tool calls, if the model supports them, and JSON
    /// after the model has written a call as text or the server has rejected tools.
    Auto,
    /// Native tool calls.
    Native,
    /// JSON that follows a schema.
    Json,
    /// Lines of plain text.
    Text,
}

pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, CliError> {
    let session = arguments.open_session().await?;
    let prices = arguments.prices.load(&arguments.model)?;
    let price_source = prices.as_ref().map(|prices| prices.source);
    let spinner = Spinner::new();
    let agent = interrupt::cancel_on_interrupt(arguments.build_agent(&spinner, prices)).await?;
    let writer = match arguments.json {
        true => EventWriter::Json { price_source, _progress: spinner },
        false => EventWriter::Text(Trace::new(spinner, price_source)),
    };
    let output = run_agent(&agent, arguments.prompt, session, writer).await?;
    match output {
        RunOutput::Answer(_) => Ok(ExitCode::SUCCESS),
        RunOutput::Suspended(_) if arguments.json => Ok(ExitCode::FAILURE),
        RunOutput::Suspended(_) => {
            Err(CliError::new("the run needs a decision, which `haft run` does not support"))
        }
    }
}

/// The stored conversation that a run continues.
struct StoredConversation {
    store: Arc<dyn SessionStore>,
    key: SessionKey,
    history: Transcript,
    /// The number of entries of the log.
    entries: u64,
}

impl StoredConversation {
    /// Stores the messages of `transcript` after the earlier conversation. Fails if another program
    /// has continued the conversation in the meantime.
    async fn store(&self, transcript: &Transcript) -> Result<(), CliError> {
        let new = transcript.messages().get(self.history.len()..).unwrap_or_default();
        let new = Append::messages(new.iter().cloned()).after(self.entries);
        match self.store.append(&self.key, new).await {
            Err(StoreError::Conflict { .. }) => Err(CliError::new(format!(
                "another program has continued the conversation {:?}: this question is not stored; ask it again",
                self.key.id()
            ))),
            stored => stored.map(drop).map_err(|error| store_error(&error)),
        }
    }
}

impl Arguments {
    /// Opens the conversation of `--session`.
    async fn open_session(&self) -> Result<Option<StoredConversation>, CliError> {
        let Some(name) = &self.session else { return Ok(None) };
        let (key, store) = (session_key("", name)?, self.store.open().await?);
        store.create(&key, None).await.map_err(|error| store_error(&error))?;
        let conversation = store.conversation(&key).await.map_err(|error| store_error(&error))?;
        let (history, entries) = (conversation.transcript, conversation.session.entries);
        Ok(Some(StoredConversation { store, key, history, entries }))
    }

    /// Starts the MCP servers, opens the model and builds the agent. Shows the progress in
    /// `spinner`.
    async fn build_agent(
        &self,
        spinner: &Spinner,
        prices: Option<RunPrices>,
    ) -> Result<ReactAgent, CliError> {
        let tools = self.open_tools(spinner);
        let model = self.model.open(spinner);
        let (tools, model) = match self.model.needs_download() {
            // A mistake in the options is reported before the download.
            true => (tools.await?, model.await?),
            // The model loads while the servers start.
            false => tokio::try_join!(tools, model)?,
        };
        let limits =
            RunLimits { requests: self.max_iters.or(RunLimits::default().requests), ..RunLimits::default() };
        let profile = model.profile().clone();
        let builder =
            ReactAgent::builder(model).tools(tools).limits(limits).limit_action(LimitAction::Answer);
        // Another program can write to a stored conversation between a call and its result.
        let builder = if self.session.is_some() { builder.repair_history() } else { builder };
        let builder = match prices {
            Some(prices) => builder.prices(prices.table),
            None => builder,
        };
        let builder = match self.dialect {
            DialectName::Auto if profile.supports_native_tools => {
                builder.dialect(AutoDialect::for_profile(&profile))
            }
            DialectName::Auto => builder,
            DialectName::Native => builder.dialect(NativeCalls),
            DialectName::Json => builder.dialect(JsonReact::new()),
            DialectName::Text => builder.dialect(TextReact),
        };
        builder.build().map_err(|error| CliError::from_error(&error))
    }

    /// Starts the MCP servers and returns the tools of the run.
    async fn open_tools(&self, spinner: &Spinner) -> Result<Toolset, CliError> {
        // The tools that are named must exist at the start.
        let wait = if self.names.is_some() { StartWait::All } else { StartWait::First };
        let toolbox = self.tools.open_interactive_toolbox(spinner, wait).await?;
        toolbox.require_any_server()?;
        self.select_tools(&toolbox).await
    }

    /// Returns the tools in `toolbox` that are listed in `--tools`, or all tools if the option is
    /// not given. Writes the warnings about the tools. An unknown name is a usage error.
    async fn select_tools(&self, toolbox: &Toolbox) -> Result<Toolset, CliError> {
        toolbox.list_and_warn().await;
        match &self.names {
            None => Ok(toolbox.tools.clone()),
            Some(names) => {
                let names = names.iter().map(|name| name.trim());
                toolbox.tools.subset(names).await.map_err(|error| CliError::usage(error.to_string()))
            }
        }
    }
}

/// The form in which the events of a run are written.
enum EventWriter {
    /// Blocks of text.
    Text(Trace),
    /// Lines of JSON on standard output. The progress line is removed at the end of the run.
    Json { price_source: Option<PriceSource>, _progress: Spinner },
}

/// Runs the agent and returns its output. Writes each event with `writer`. An interrupt (Ctrl-C)
/// cancels the run.
async fn run_agent(
    agent: &ReactAgent,
    prompt: String,
    session: Option<StoredConversation>,
    mut writer: EventWriter,
) -> Result<RunOutput, CliError> {
    let context = RunContext::default();
    let cancellation = context.cancellation.clone();
    let interrupts = tokio::spawn(async move {
        interrupt::wait_for_interrupt().await;
        cancellation.cancel();
    });
    let mut input = RunInput::new(prompt).with_context(context);
    if let Some(session) = &session {
        input = input.with_history(&session.history);
    }
    let mut events = agent.stream(input);
    let (mut final_output, mut stored) = (None, Ok(()));
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                // Each call of the conversation has a result, so that the next run can continue it.
                if let Some(session) = &session {
                    session.store(&error.transcript).await?;
                }
                return Err(run_error(&error));
            }
        };
        // An answer is stored before it is written, and a run that waits as if it were cancelled.
        if let (Some(session), RunEvent::Done { output }) = (&session, &event) {
            stored = match output {
                RunOutput::Answer(answer) => session.store(&answer.transcript).await,
                RunOutput::Suspended(suspended) => {
                    let run = Run::from_suspended(suspended.clone());
                    let run = run.map_err(|error| CliError::from_error(&error))?;
                    session.store(&run.closed_transcript()).await
                }
            };
        }
        match &mut writer {
            EventWriter::Text(trace) => trace.write(&event)?,
            EventWriter::Json { price_source, .. } => {
                terminal::write_json(&event_json(&event, *price_source)?)?;
            }
        }
        if let RunEvent::Done { output } = event {
            final_output = Some(output);
        }
    }
    interrupts.abort();
    // The answer is shown, even if it could not be stored.
    stored?;
    final_output.ok_or_else(|| run_error(&AgentErrorKind::Incomplete.into()))
}

/// Serializes `event` as JSON. [`RunEvent::Done`] is serialized as the output that it contains,
/// such as `{"type":"answer",…}`, with the source of the cost in `prices` if it is the catalogue.
fn event_json(event: &RunEvent, price_source: Option<PriceSource>) -> Result<String, CliError> {
    let json = match event {
        RunEvent::Done { output } => serde_json::to_string(output),
        event => serde_json::to_string(event),
    };
    let json = json.map_err(|error| CliError::from_error(&error))?;
    let source =
        price_source.filter(|_| matches!(event, RunEvent::Done { .. })).and_then(PriceSource::to_json);
    Ok(match (source, json.strip_suffix('}')) {
        (Some(source), Some(fields)) => format!(r#"{fields},"prices":{source}}}"#),
        _ => json,
    })
}

/// Converts the error of a run to the error of the command. Adds a remedy to common errors, such as
/// a wrong API key.
fn run_error(error: &AgentError) -> CliError {
    let remedy = match &*error.kind {
        AgentErrorKind::Model(ModelError::Unauthorized(_)) => Some("set the correct key in OPENAI_API_KEY"),
        AgentErrorKind::Model(ModelError::Rejected { status: 404, .. }) => {
            Some("check the name in --model, and the path of --base-url (usually /v1)")
        }
        AgentErrorKind::Model(ModelError::Unreachable { .. }) => {
            Some("start the server, or set its address with --base-url")
        }
        AgentErrorKind::Model(ModelError::ContextTooLong(_)) => {
            Some("offer fewer tools with --tools, or use another --model")
        }
        _ => None,
    };
    CliError::new(terminal::remove_control_chars(&error.to_string())).with_remedy(remedy)
}
