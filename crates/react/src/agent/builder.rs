use std::{sync::Arc, time::Duration};

use haft_core::{
    ChatModel, Message, Schema, Toolset,
    agent::RunLimits,
    content::Content,
    export::schemars::JsonSchema,
    limits,
    model::{ChatSettings, HostedTool, ToolChoice},
    pipeline::Recorder,
    schema::SchemaError,
    tool::{HostState, StateType},
    usage::Prices,
};

use super::call_settings::CallSettings;
use crate::{
    Dialect, LimitAction, OutputStrategy, RunConfig,
    extension::Extension,
    run::{ContextConfig, EndStrategy},
};

/// A builder for [`ReactAgent`](super::ReactAgent).
///
/// # Examples
///
/// ```
/// use haft_core::{agent::RunLimits, Toolset};
/// use haft_testing::ScriptedModel;
/// use haft_react::{LimitAction, JsonReact, ReactAgent};
///
/// let agent = ReactAgent::builder(ScriptedModel::new())
///     .tools(Toolset::new())
///     .instructions("Answer in one sentence.")
///     .limits(RunLimits { requests: Some(5), ..RunLimits::default() })
///     .limit_action(LimitAction::Answer)
///     .dialect(JsonReact::new())
///     .build()?;
/// # Ok::<(), haft_react::AgentBuildError>(())
/// ```
#[must_use]
pub struct ReactAgentBuilder {
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) tools: Toolset,
    pub(super) hosted_tools: Vec<HostedTool>,
    pub(super) dialect: Option<Arc<dyn Dialect>>,
    pub(super) instructions: Option<Arc<Message>>,
    pub(super) config: RunConfig,
    pub(super) state: HostState,
    pub(super) state_per_run: Vec<StateType>,
    /// The error of the schema generation in [`output`](Self::output). `None` if the schema was
    /// generated, or if no output type was set.
    pub(super) output_error: Option<SchemaError>,
    pub(super) chain_of_thought: bool,
    pub(super) compactor: Option<Arc<dyn ChatModel>>,
    /// The hooks and adaptors added by methods of the builder.
    pub(super) own: Extension,
    pub(super) extensions: Vec<Extension>,
    pub(super) hook_timeout: Duration,
    pub(super) call_settings: CallSettings,
    pub(super) prices: Option<Prices>,
}

impl ReactAgentBuilder {
    pub(super) fn new(model: Arc<dyn ChatModel>) -> Self {
        Self {
            model,
            tools: Toolset::new(),
            hosted_tools: Vec::new(),
            dialect: None,
            instructions: None,
            config: RunConfig::default(),
            state: HostState::new(),
            state_per_run: Vec::new(),
            output_error: None,
            chain_of_thought: false,
            compactor: None,
            own: Extension::new(""),
            extensions: Vec::new(),
            hook_timeout: limits::HOOK_TIMEOUT,
            call_settings: CallSettings::default(),
            prices: None,
        }
    }

    /// Sets the tools that the model can call. Default: none.
    pub fn tools(mut self, tools: Toolset) -> Self {
        self.tools = tools;
        self
    }

    /// Adds a tool that the provider of the model executes, such as its web search. The calls of
    /// hosted tools do not pass the gates, limits and guardrails of tool calls; the stream of a run
    /// has [events](haft_core::RunEvent::HostedCallFinished) of them.
    ///
    /// A run fails with [`ModelError::Unsupported`](haft_core::model::ModelError::Unsupported) if its
    /// model does not have the tool.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::model::{HostedTool, HostedToolKind, ModelProfile, WebSearch};
    /// use haft_react::ReactAgent;
    /// use haft_testing::ScriptedModel;
    ///
    /// let profile =
    ///     ModelProfile { hosted_tools: vec![HostedToolKind::WebSearch], ..ModelProfile::new("searching") };
    /// let model = ScriptedModel::new().with_profile(profile);
    /// let agent = ReactAgent::builder(model).hosted_tool(HostedTool::WebSearch(WebSearch::default())).build()?;
    /// # Ok::<(), haft_react::AgentBuildError>(())
    /// ```
    pub fn hosted_tool(mut self, tool: HostedTool) -> Self {
        self.hosted_tools.push(tool);
        self
    }

    /// Sets the default timeout of tool calls. The timeout of a
    /// [tool](haft_core::tool::ToolPolicy::timeout) or of its [toolset](Toolset::with_timeout)
    /// takes precedence. Default: [`CALL_TIMEOUT`](haft_core::limits::CALL_TIMEOUT).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use haft_react::ReactAgent;
    /// use haft_testing::TestModel;
    ///
    /// let builder = || ReactAgent::builder(TestModel::new());
    /// let agent = builder().tool_timeout(Duration::from_secs(10)).build()?;
    /// let error = builder().tool_timeout(Duration::ZERO).build().unwrap_err();
    /// assert!(error.to_string().starts_with("`tool_timeout` is zero"));
    /// # Ok::<(), haft_react::AgentBuildError>(())
    /// ```
    pub fn tool_timeout(mut self, timeout: Duration) -> Self {
        self.call_settings.timeout = Some(timeout);
        self
    }

    /// Sets the state that the host program provides to its tools. A value in the
    /// [context](haft_core::RunInput::with_context) of a run takes precedence over a value of the
    /// same type in `state`. Default: none.
    pub fn state(mut self, state: HostState) -> Self {
        self.state = state;
        self
    }

    /// Declares that the [context](haft_core::RunInput::with_context) of each run provides state of
    /// type `T`. [`build`](Self::build) then accepts tools that need this state. A run without this
    /// state withholds these tools from the model.
    pub fn state_per_run<T: 'static>(mut self) -> Self {
        self.state_per_run.push(StateType::of::<T>());
        self
    }

    /// Sets the instructions. Each request contains them as a system message before the
    /// conversation. Default: none.
    pub fn instructions(mut self, instructions: impl Into<Content>) -> Self {
        self.instructions = Some(Arc::new(Message::system(instructions)));
        self
    }

    /// Sets the dialect: the format of requests and replies. Default: chosen by
    /// [`dialect_for`](crate::dialect::dialect_for) from the profile of the model.
    pub fn dialect(mut self, dialect: impl Dialect + 'static) -> Self {
        self.dialect = Some(Arc::new(dialect));
        self
    }

    /// Sets the limits of each run. The input of a run can override them.
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Sets the prices of the agent's models. The [cost](haft_core::usage::Usage::cost) of a run is
    /// computed from these prices, and the [cost limit](RunLimits::cost) requires them. A model can
    /// also have [its own prices](haft_core::model::ChatModelExt::priced).
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Repairs calls and results of earlier conversations that are not paired, see
    /// [`RunConfig::repair_history`](crate::RunConfig::repair_history). By default, a run with such
    /// a conversation fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Message, RunInput, ToolOutput, ToolResult, Toolset, Transcript};
    /// use haft_react::ReactAgent;
    /// use haft_testing::ScriptedModel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_text("Good morning.");
    /// let agent = ReactAgent::builder(model.clone()).tools(Toolset::new()).repair_history().build()?;
    ///
    /// // The first messages were cut off, and with them the call.
    /// let result = ToolResult::done("call_1", "time", ToolOutput::from("08:00"));
    /// let history = Transcript::from_iter([Message::tool(result), Message::user("Thanks.")]);
    /// agent.run(RunInput::new("Hello.").with_history(&history)).await?;
    ///
    /// let texts: Vec<_> = model.requests()[0].messages.iter().map(|message| message.text()).collect();
    /// assert_eq!(texts, ["Thanks.", "Hello."]);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn repair_history(mut self) -> Self {
        self.config.repair_history = true;
        self
    }

    /// Sets the handling of a reply that gives the declared outputs beside other calls. Default:
    /// [`EndStrategy::Early`].
    pub fn end_strategy(mut self, strategy: EndStrategy) -> Self {
        self.config.end_strategy = strategy;
        self
    }

    /// Sets the grace period of tool calls after a cancellation or at the time limit of the run.
    /// Default: the period of the toolset's pipeline, see
    /// [`Pipeline::with_cancel_grace`](haft_core::Pipeline::with_cancel_grace).
    ///
    /// A cancelled run ends within a second if the period is at most the default,
    /// [`CANCEL_GRACE`](haft_core::limits::CANCEL_GRACE). A tool that listens to its
    /// [token](haft_core::ToolContext::cancellation) can end by itself in this period. All other
    /// tools are aborted at once. The error
    /// [`Cancelled`](haft_core::agent::AgentErrorKind::Cancelled) is returned after the futures of
    /// the tools, the hooks and the model are dropped.
    ///
    /// # Cancellation
    ///
    /// Dropping the future or the event stream of a run aborts its tools without a grace period.
    /// The runtime then drops their futures later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// let agent = ReactAgent::builder(ScriptedModel::new()).cancel_grace(Duration::from_secs(5)).build()?;
    /// # Ok::<(), haft_react::AgentBuildError>(())
    /// ```
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.call_settings.cancel_grace = Some(grace);
        self
    }

    /// Sets the action that a run takes when it reaches a limit. Default: [`LimitAction::Fail`].
    pub fn limit_action(mut self, limit_action: LimitAction) -> Self {
        self.config.limit_action = limit_action;
        self
    }

    /// Sets the schema of the structured input. The schema must describe a JSON object, and the
    /// last message of each input must contain [JSON content](Content::json) that is valid for this
    /// schema. A run with invalid input fails before it starts. The system message lists the fields
    /// of the input and of the declared output.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{content::Content, export::schemars::{self, JsonSchema}, RunInput, Schema};
    /// use serde_json::json;
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// #[derive(JsonSchema)]
    /// struct Question {
    ///     /// Words to translate.
    ///     text: String,
    ///     language: String,
    /// }
    ///
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Translation {
    ///     text: String,
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"text":"Pferd"}"#)]);
    /// let agent = ReactAgent::builder(model)
    ///     .inputs(Schema::from_type::<Question>()?)
    ///     .output::<Translation>()
    ///     .build()?;
    /// let input = RunInput::new(Content::json(json!({"text": "horse", "language": "German"})));
    /// let translation: Translation = agent.run(input).await?.into_answer()?.parse()?;
    /// assert_eq!(translation.text, "Pferd");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inputs(mut self, schema: Schema) -> Self {
        self.config.inputs = Some(schema);
        self
    }

    /// Sets the Rust type of the answer to `T`.
    /// [`RunAnswer::parse`](haft_core::agent::RunAnswer::parse) deserializes the answer. If `T` has
    /// no usable schema, [`build`](Self::build) fails.
    ///
    /// `T` can be any type with a schema, such as a struct, `i64`, `Vec<T>`, `Option<T>` or an
    /// enum. For a type that is not an object, the model writes the value as the member `response`
    /// of an object. With `String`, the answer is plain text: the model answers without a call.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::export::schemars::{self, JsonSchema};
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Person {
    ///     name: String,
    ///     age: u8,
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"name":"Ada","age":36}"#)]);
    /// let agent = ReactAgent::builder(model).output::<Person>().build()?;
    /// let person: Person = agent.run("Ada was 36.").await?.into_answer()?.parse()?;
    /// assert_eq!((person.name.as_str(), person.age), ("Ada", 36));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A list:
    ///
    /// ```
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_calls([("a", "finish", r#"{"response":[2,3,5]}"#)]);
    /// let agent = ReactAgent::builder(model).output::<Vec<u32>>().build()?;
    /// let answer = agent.run("Which primes are below 7?").await?.into_answer()?;
    /// assert_eq!(answer.parse::<Vec<u32>>()?, [2, 3, 5]);
    /// assert_eq!(answer.text, "[2,3,5]");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output<T: JsonSchema>(mut self) -> Self {
        match Schema::from_type::<T>() {
            Ok(schema) => return self.outputs(schema),
            Err(error) => self.output_error = Some(error),
        }
        self
    }

    /// Sets the schema of the answer, of any JSON type. For a Rust type, use
    /// [`output`](Self::output). If the schema does not describe an object,
    /// [`RunConfig::declare_output`] wraps it in one for the model.
    pub fn outputs(mut self, schema: Schema) -> Self {
        self.config.outputs = Some(schema);
        self.output_error = None;
        self
    }

    /// Selects the model request in which the model returns the structured outputs: the request of
    /// the last step, or a separate request. Default: [`OutputStrategy::Finish`].
    pub fn output_strategy(mut self, strategy: OutputStrategy) -> Self {
        self.config.output_strategy = strategy;
        self
    }

    /// Adds the field `reasoning` before the other output fields, so that the model writes a chain
    /// of thought before its answer. Without declared outputs, the only other field is `answer`.
    /// Intended for models without built-in reasoning.
    pub fn chain_of_thought(mut self) -> Self {
        self.chain_of_thought = true;
        self
    }

    /// Sets the tool choice of each run. The input of a run can override it.
    /// [`ToolChoice::Required`] and [`ToolChoice::Tool`] apply until the model has made the
    /// required call. Later requests use [`ToolChoice::Auto`]. The run fails if the chosen tool is
    /// not available, or if a call is required and no tool is available. Default:
    /// [`ToolChoice::Auto`].
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.config.tool_choice = choice;
        self
    }

    /// Sets the names of the stop tools. A successful call to a stop tool ends the run: its result
    /// is the answer, and the stop reason is
    /// [`StopReason::Tool`](haft_core::agent::StopReason::Tool). All other calls in the same reply
    /// are also executed. The input of a run can override these names. Default: none.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{agent::StopReason, tool, Toolset};
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// /// Draws a picture.
    /// #[tool]
    /// fn draw(what: String) -> String {
    ///     format!("<svg>{what}</svg>")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_calls([("a", "draw", r#"{"what":"a cat"}"#)]);
    /// let agent = ReactAgent::builder(model).tools(Toolset::new().with_tool(Draw)).stop_on(["draw"]).build()?;
    /// let answer = agent.run("Draw a cat.").await?.into_answer().unwrap();
    /// assert_eq!((answer.text.as_str(), answer.stop_reason), ("<svg>a cat</svg>", StopReason::Tool));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_on<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.config.stop_on = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Records the text of instructions, messages, arguments and results in tracing spans if
    /// `traced` is `true`. The text is recorded in OpenTelemetry's GenAI attributes. Default:
    /// `false`, because traces often have more readers than the conversation.
    pub fn trace_content(mut self, traced: bool) -> Self {
        self.call_settings.traces_content = traced;
        self
    }

    /// Adds a recorder of the calls to all tools of the agent, in addition to the recorders of
    /// their [pipelines](haft_core::Pipeline::with_recorder).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::pipeline::{CallRecord, Recorder};
    /// use haft_react::ReactAgent;
    /// use haft_testing::ScriptedModel;
    ///
    /// /// Writes the duration of each call.
    /// struct Durations;
    ///
    /// impl Recorder for Durations {
    ///     fn record(&self, record: &CallRecord<'_>) {
    ///         println!("{}: {:?}", record.call.name, record.duration);
    ///     }
    /// }
    ///
    /// let agent = ReactAgent::builder(ScriptedModel::new()).recorder(Durations).build()?;
    /// # Ok::<(), haft_react::AgentBuildError>(())
    /// ```
    pub fn recorder(mut self, recorder: impl Recorder + 'static) -> Self {
        self.call_settings.recorders.push(Arc::new(recorder));
        self
    }

    /// Sets the settings of model requests, such as the temperature.
    pub fn settings(mut self, settings: ChatSettings) -> Self {
        self.config.settings = settings;
        self
    }

    /// Configures the part of the conversation that each model request contains. By default, a
    /// request contains the whole conversation. If the model rejects this request as too long, the
    /// oldest turn or step is omitted and the request is repeated, up to three times in a row.
    pub fn context(mut self, context: ContextConfig) -> Self {
        self.config.context = context;
        self
    }

    /// Sets the model that [summarizes](ContextConfig::compaction) conversations that are too long,
    /// and enables compaction. By default, compaction is disabled. If [`context`](Self::context)
    /// enables compaction and no compactor is set, the agent's own model writes the summaries.
    pub fn compactor(mut self, model: impl ChatModel + 'static) -> Self {
        self.compactor = Some(Arc::new(model));
        self
    }

    /// Sets the maximum number of times that the model can make the same call, or the same cycle of
    /// calls, in a row with equal results. `None` disables the limit. To disable it for a tool, for
    /// example a tool that the model polls, make the tool
    /// [repeatable](haft_core::tool::ToolPolicy::repeatable).
    /// Default: [`REPEATED_CALLS`](haft_core::limits::REPEATED_CALLS).
    pub fn max_repeated_calls(mut self, calls: impl Into<Option<u32>>) -> Self {
        self.config.max_repeated_calls = calls.into();
        self
    }

    /// Sets the maximum number of consecutive rejected replies. One more rejected reply ends the
    /// run with an error. Default: 2.
    pub fn max_output_retries(mut self, retries: u32) -> Self {
        self.config.max_output_retries = retries;
        self
    }
}

impl std::fmt::Debug for ReactAgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReactAgentBuilder")
            .field("tools", &self.tools)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
