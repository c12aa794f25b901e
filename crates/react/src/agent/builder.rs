use std::sync::Arc;

use haft_core::{
    ChatModel, Message, Schema, Toolset,
    agent::RunLimits,
    content::Content,
    model::{ChatSettings, ToolChoice},
    tool::{State, StateType},
    usage::Prices,
};

use super::hook::Hooks;
use crate::{AtLimit, ContextConfig, Dialect, OutputsBy, RunConfig};

/// Makes a [`ReactAgent`](super::ReactAgent).
///
/// # Examples
///
/// ```
/// use haft_core::{agent::RunLimits, Toolset};
/// use haft_testing::ScriptedModel;
/// use haft_react::{AtLimit, JsonReact, ReactAgent};
///
/// let agent = ReactAgent::builder(ScriptedModel::new())
///     .tools(Toolset::new())
///     .instructions("Answer in one sentence.")
///     .limits(RunLimits { requests: Some(5), ..RunLimits::default() })
///     .at_limit(AtLimit::Answer)
///     .dialect(JsonReact::new())
///     .build()?;
/// # Ok::<(), haft_react::BuildError>(())
/// ```
#[must_use]
pub struct ReactAgentBuilder {
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) tools: Toolset,
    pub(super) dialect: Option<Arc<dyn Dialect>>,
    pub(super) instructions: Option<Arc<Message>>,
    pub(super) config: RunConfig,
    pub(super) state: State,
    pub(super) state_per_run: Vec<StateType>,
    pub(super) chain_of_thought: bool,
    pub(super) compactor: Option<Arc<dyn ChatModel>>,
    pub(super) hooks: Hooks,
    pub(super) prices: Option<Prices>,
    pub(super) traces_content: bool,
    pub(super) has_queue: bool,
}

impl ReactAgentBuilder {
    pub(super) fn new(model: Arc<dyn ChatModel>) -> Self {
        Self {
            model,
            tools: Toolset::new(),
            dialect: None,
            instructions: None,
            config: RunConfig::default(),
            state: State::new(),
            state_per_run: Vec::new(),
            chain_of_thought: false,
            compactor: None,
            hooks: Hooks::default(),
            prices: None,
            traces_content: false,
            has_queue: false,
        }
    }

    /// Sets the tools. Default: none.
    pub fn tools(mut self, tools: Toolset) -> Self {
        self.tools = tools;
        self
    }

    /// Gives the tools the values that they ask for. A run whose [context](haft_core::RunInput::with_context) has a value
    /// of the same type uses that. Default: none.
    pub fn state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    /// Says that each run brings a value of this type, in its [context](haft_core::RunInput::with_context): in a run that
    /// does not, the tools that ask for it are not offered.
    pub fn state_per_run<T: 'static>(mut self) -> Self {
        self.state_per_run.push(StateType::of::<T>());
        self
    }

    /// Gives each run a [queue](crate::PendingQueue), whose [handle](crate::QueueHandle) its tools are given as state. Default: if a tool of
    /// the agent's own asks for the handle; what a source lists is not known here.
    pub fn pending_queue(mut self) -> Self {
        self.has_queue = true;
        self
    }

    /// Sets what the model is told before the conversation. Default: nothing.
    pub fn instructions(mut self, instructions: impl Into<Content>) -> Self {
        self.instructions = Some(Arc::new(Message::system(instructions)));
        self
    }

    /// Sets how the model is spoken to. Default: what [`dialect_for`](crate::dialect_for) says.
    pub fn dialect(mut self, dialect: impl Dialect + 'static) -> Self {
        self.dialect = Some(Arc::new(dialect));
        self
    }

    /// Sets how much a run may use, where its input does not say.
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Says what the tokens of its models cost, so that the [usage](haft_core::usage::Usage::cost) of a run tells its cost, which the
    /// [limits](RunLimits::cost) may bound. A model may have [prices of its own](haft_core::model::ChatModelExt::priced) as well.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Sets what happens when a limit is reached. Default: the run fails.
    pub fn at_limit(mut self, at_limit: AtLimit) -> Self {
        self.config.at_limit = at_limit;
        self
    }

    /// Takes the question as data: an object of this schema, which is [JSON content](Content::json) of the message that a run
    /// begins with. The model is told of the fields, and what does not fit begins no run.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Agent, content::Content, export::schemars::{self, JsonSchema}, RunInput, Schema};
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
    /// let model = ScriptedModel::new().calls([("a", "finish", r#"{"text":"Pferd"}"#)]);
    /// let agent = ReactAgent::builder(model)
    ///     .inputs(Schema::of::<Question>()?)
    ///     .outputs(Schema::of::<Translation>()?)
    ///     .build()?;
    /// let input = RunInput::new(Content::json(json!({"text": "horse", "language": "German"})));
    /// let answer = agent.run(input).await?.into_answer().unwrap();
    /// assert_eq!(answer.outputs["text"], "Pferd");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inputs(mut self, schema: Schema) -> Self {
        self.config.inputs = Some(schema);
        self
    }

    /// Asks for the answer as data: an object of this schema.
    pub fn outputs(mut self, schema: Schema) -> Self {
        self.config.outputs = Some(schema);
        self
    }

    /// Sets when the outputs are asked for. Default: [`OutputsBy::Finish`].
    pub fn outputs_by(mut self, outputs_by: OutputsBy) -> Self {
        self.config.outputs_by = outputs_by;
        self
    }

    /// Asks for a `reasoning` before the other outputs, or before an `answer` where none are declared: a chain of thought, for
    /// a model that does not think by itself.
    pub fn chain_of_thought(mut self) -> Self {
        self.chain_of_thought = true;
        self
    }

    /// Sets whether the model may, must or must not call, where the input of a run does not say. A call that it must make, it
    /// must make once in a run: when it has called, it decides by itself. A tool that is named and not on offer is an error
    /// of the run. Default: it decides.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.config.tool_choice = choice;
        self
    }

    /// Ends a run when one of these tools was done, where the input of the run does not say: its result is the answer, with
    /// [`StopReason::Tool`](haft_core::agent::StopReason::Tool). Calls beside it are made too; one that fails ends nothing. Default: none.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Agent, agent::StopReason, tool, Toolset};
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
    /// let model = ScriptedModel::new().calls([("a", "draw", r#"{"what":"a cat"}"#)]);
    /// let agent = ReactAgent::builder(model).tools(Toolset::new().with(Draw)).stop_on(["draw"]).build()?;
    /// let answer = agent.run("Draw a cat.".into()).await?.into_answer().unwrap();
    /// assert_eq!((answer.text.as_str(), answer.stop_reason), ("<svg>a cat</svg>", StopReason::Tool));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_on<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.config.stop_on = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether the spans of its runs hold what is said: instructions, messages, arguments and results, under OpenTelemetry's
    /// names. Default: no, since a trace is read by others than those whom it concerns.
    pub fn trace_content(mut self, traced: bool) -> Self {
        self.traces_content = traced;
        self
    }

    /// Sets how replies are made.
    pub fn settings(mut self, settings: ChatSettings) -> Self {
        self.config.settings = settings;
        self
    }

    /// Sets how much of the conversation the model is shown. Default: all; and when the model says that this is too much, the
    /// oldest step is left out, up to three times.
    pub fn context(mut self, context: ContextConfig) -> Self {
        self.config.context = context;
        self
    }

    /// Summarises by this model what there is [too much](ContextConfig::compaction) of, whatever [`context`](Self::context) says
    /// of that. Default: no summaries, or by the agent's own model where the context says that there are some.
    pub fn compactor(mut self, model: impl ChatModel + 'static) -> Self {
        self.compactor = Some(Arc::new(model));
        self
    }

    /// Sets how often in a row the same calls are tolerated; `None` is without end, for tools that are asked until
    /// something has happened. Default: [`IDENTICAL_CALLS`](haft_core::limits::IDENTICAL_CALLS).
    pub fn identical_calls(mut self, times: impl Into<Option<u32>>) -> Self {
        self.config.identical_calls = times.into();
        self
    }

    /// Sets how many replies in a row may be unusable before a run fails. Default: 2.
    pub fn unusable_replies(mut self, replies: u32) -> Self {
        self.config.unusable_replies = replies;
        self
    }
}
