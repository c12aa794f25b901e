//! Extensions. An extension bundles tools, instructions, hooks, limits and saved entries for an
//! agent.

mod call_hook;
mod entries;
mod guardrail;
mod guardrail_set;
mod history;
mod hook;
mod set;
mod step_context;
mod step_inputs;
mod step_request;

use std::{fmt, future::Future, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use haft_core::{
    ChatModel, ToolError, Toolset,
    agent::{AgentStep, RunLimits},
    call::{BoxError, ToolResponse},
};
use serde_json::Value;

use crate::{Output, OutputError, dialect::Reply, run::CallReview};
use call_hook::{AroundCalls, CallHook};
use history::HistoryProcessor;

pub use call_hook::Next;
pub use entries::{Entries, SavedEntries};
pub use guardrail::{GuardedCall, Guardrail, GuardrailFailure, Ruling};
pub use history::ClearToolResults;
pub use set::ExtensionSet;
pub use step_context::StepContext;
pub use step_inputs::StepInputs;
pub use step_request::StepRequest;

type Hook<In, Out, E> = Arc<dyn Fn(In, StepContext) -> BoxFuture<'static, Result<Out, E>> + Send + Sync>;
type InstructionsHook =
    Arc<dyn Fn(StepContext) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync>;
type ToolsAdaptor = Arc<dyn Fn(Toolset) -> Toolset + Send + Sync>;
type ModelAdaptor = Arc<dyn Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync>;

/// A bundle that adds a capability to an agent: tools, instructions, limits, hooks around model
/// requests and tool calls, and [entries](Entries) that are saved with the run.
///
/// [`ReactAgentBuilder::extension`](crate::ReactAgentBuilder::extension) adds an extension to an
/// agent. To use a type of your own, such as `Budget`, as an extension, implement
/// `From<Budget> for Extension`. A program that drives a [`Run`](crate::Run) without a `ReactAgent`
/// applies extensions with an [`ExtensionSet`].
///
/// # Order
///
/// The hooks of the builder come first, followed by the extensions in the order in which they were
/// added.
///
/// - From first to last: [`instructions`](Self::instructions),
///   [`dynamic_instructions`](Self::dynamic_instructions), then [`prepare`](Self::prepare). Each
///   `prepare` hook receives the request that the previous hook returned.
/// - From the outermost to the innermost: [`adapt_model`](Self::adapt_model),
///   [`adapt_tools`](Self::adapt_tools), [`around_calls`](Self::around_calls).
/// - From last to first: [`after_reply`](Self::after_reply).
/// - From first to last: [`review_calls`](Self::review_calls), up to the first hook that ends the
///   run.
/// - From first to last: [`output_validator`](Self::output_validator). Each validator receives the
///   output that the previous validator returned.
/// - From first to last: [`guardrail`](Self::guardrail), for each place, and
///   [`history_processor`](Self::history_processor).
/// - Independent of the order: [`limits`](Self::limits). The lowest limit of each kind applies.
///
/// The same order applies to several hooks of one kind within an extension.
///
/// # Examples
///
/// An extension with a to-do list for the model. The list is saved with the run:
///
/// ```
/// use haft_core::{Toolset, tool, tool::HostState, call::ToolError};
/// use haft_react::{Extension, ReactAgent, extension::Entries};
/// use haft_testing::ScriptedModel;
///
/// /// Adds a task to the list.
/// #[tool]
/// fn plan(task: String, #[tool(state)] entries: Entries) -> Result<(), ToolError> {
///     let todo = entries.for_extension("todo");
///     todo.update("tasks", |tasks: &mut Vec<String>| tasks.push(task)).map_err(ToolError::failed)
/// }
///
/// fn todo() -> Extension {
///     Extension::new("todo")
///         .tools(Toolset::new().with_tool(Plan))
///         .instructions("Plan before you act.")
///         .dynamic_instructions(|cx| async move {
///             let tasks: Vec<String> = cx.entries.get("tasks")?.unwrap_or_default();
///             Ok(tasks.iter().map(|task| format!("- [ ] {task}\n")).collect())
///         })
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new().reply_calls([("a", "plan", r#"{"task":"book a flight"}"#)]).reply_text("Planned.");
/// let agent = ReactAgent::builder(model.clone()).extension(todo()).build()?;
/// agent.run("To Rome!").await?;
/// let instructions = model.requests()[1].instructions.as_ref().unwrap().text();
/// assert_eq!(instructions, "Plan before you act.\n\n- [ ] book a flight\n");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Extension {
    name: String,
    tools: Vec<Toolset>,
    tool_adaptors: Vec<ToolsAdaptor>,
    model_adaptors: Vec<ModelAdaptor>,
    paragraphs: Vec<String>,
    instruction_hooks: Vec<InstructionsHook>,
    prepare: Vec<Hook<StepRequest, StepRequest, BoxError>>,
    reply_hooks: Vec<Hook<Reply, Reply, BoxError>>,
    reviews: Vec<Hook<Arc<[AgentStep]>, CallReview, BoxError>>,
    validators: Vec<Hook<Output, Output, OutputError>>,
    guardrails: Vec<Guardrail>,
    history_processors: Vec<HistoryProcessor>,
    limits: RunLimits,
}

impl Extension {
    /// Creates an empty extension. `name` is the key of its [entries](Entries) in the saved run. It
    /// must not be empty, and must be unique in the agent.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tools: Vec::new(),
            tool_adaptors: Vec::new(),
            model_adaptors: Vec::new(),
            paragraphs: Vec::new(),
            instruction_hooks: Vec::new(),
            prepare: Vec::new(),
            reply_hooks: Vec::new(),
            reviews: Vec::new(),
            validators: Vec::new(),
            guardrails: Vec::new(),
            history_processors: Vec::new(),
            limits: RunLimits::NONE,
        }
    }

    /// Adds the tools of a toolset to the agent. Calls to these tools still run through the
    /// pipeline of their toolset.
    pub fn tools(mut self, tools: Toolset) -> Self {
        self.tools.push(tools);
        self
    }

    /// Adds an adaptor for tools, for example a filter, an approval or a layer.
    ///
    /// `adapt` receives the tools of this extension, of the extensions after it, and of the agent.
    /// Hand-off tools are not adapted.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_react::Extension;
    ///
    /// let careful = Extension::new("careful").adapt_tools(|tools| {
    ///     tools.approval_required(|tool| tool.annotations().destructive == Some(true))
    /// });
    /// ```
    pub fn adapt_tools(mut self, adapt: impl Fn(Toolset) -> Toolset + Send + Sync + 'static) -> Self {
        self.tool_adaptors.push(Arc::new(adapt));
        self
    }

    /// Adds a hook around each call to the tools that [`adapt_tools`](Self::adapt_tools) adapts.
    ///
    /// The hook receives validated arguments. If it changes the arguments, they are not validated
    /// again. The hook runs within the timeout of the tool, and its panics are handled like panics
    /// of the tool. If the tool suspends its call, the hook runs again when the call is
    /// resumed. If a decision provides the result of the call, the hook does not run.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::ToolError;
    /// use haft_react::{Extension, extension::Entries};
    ///
    /// let budget = Extension::new("budget").around_calls(|arguments, next| async move {
    ///     let entries = next.context().state::<Entries>()?.for_extension("budget");
    ///     let calls = entries.update("calls", |calls: &mut u32| { *calls += 1; *calls }).map_err(ToolError::failed)?;
    ///     if calls > 20 {
    ///         return Err(ToolError::Denied("the budget of calls is used up".to_owned()));
    ///     }
    ///     next.run(arguments).await
    /// });
    /// ```
    pub fn around_calls<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(Value, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolResponse, ToolError>> + Send + 'static,
    {
        let hook: Arc<CallHook> = Arc::new(move |arguments, next| hook(arguments, next).boxed());
        self.adapt_tools(move |tools| tools.adapted(AroundCalls(Arc::clone(&hook))))
    }

    /// Adds an adaptor for the model of the agent, for example a cache, a fallback or a layer. A
    /// model that a [`prepare`](Self::prepare) hook selects is not adapted.
    pub fn adapt_model(
        mut self,
        adapt: impl Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync + 'static,
    ) -> Self {
        self.model_adaptors.push(Arc::new(adapt));
        self
    }

    /// Appends a paragraph to the instructions of the agent.
    pub fn instructions(mut self, paragraph: impl Into<String>) -> Self {
        self.paragraphs.push(paragraph.into());
        self
    }

    /// Adds a hook that returns a paragraph of the instructions for each model request. See
    /// [`ReactAgentBuilder::dynamic_instructions`](crate::ReactAgentBuilder::dynamic_instructions).
    pub fn dynamic_instructions<F, Fut>(mut self, instructions: F) -> Self
    where
        F: Fn(StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        self.instruction_hooks.push(Arc::new(move |cx| instructions(cx).boxed()));
        self
    }

    /// Adds a hook that can change each model request before it is sent. See
    /// [`ReactAgentBuilder::prepare`](crate::ReactAgentBuilder::prepare).
    pub fn prepare<F, Fut>(mut self, prepare: F) -> Self
    where
        F: Fn(StepRequest, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<StepRequest, BoxError>> + Send + 'static,
    {
        self.prepare.push(Arc::new(move |request, cx| prepare(request, cx).boxed()));
        self
    }

    /// Adds a hook that can change each complete reply from the model, for example to redact text
    /// or to remove tool calls.
    ///
    /// The hook runs before the run processes the reply. Calls that the model wrote as text are
    /// tool calls, because the driver parses the reply with
    /// [`Run::parse_reply`](crate::Run::parse_reply). To reject the reply, set [`Reply::problem`]
    /// to an error message for the model. A reply that is empty after the hook removed its tool
    /// calls is also rejected. The hook cannot change the usage.
    ///
    /// Failed requests and interrupted streams do not reach the hook. A reply that reached the
    /// maximum number of tokens does, but the run then ends with an error. Streamed deltas, and
    /// tracing spans with content, contain the original reply. If the hook fails, panics or exceeds
    /// its [timeout](crate::ReactAgentBuilder::hook_timeout), the run ends with an error.
    pub fn after_reply<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Reply, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, BoxError>> + Send + 'static,
    {
        self.reply_hooks.push(Arc::new(move |reply, cx| hook(reply, cx).boxed()));
        self
    }

    /// Adds a hook that decides after the calls of a reply whether the run continues. See
    /// [`ReactAgentBuilder::review_calls`](crate::ReactAgentBuilder::review_calls).
    pub fn review_calls<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Arc<[AgentStep]>, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CallReview, BoxError>> + Send + 'static,
    {
        self.reviews.push(Arc::new(move |calls, cx| hook(calls, cx).boxed()));
        self
    }

    /// Adds a hook that validates the output of each run. See
    /// [`ReactAgentBuilder::output_validator`](crate::ReactAgentBuilder::output_validator).
    pub fn output_validator<F, Fut>(mut self, validator: F) -> Self
    where
        F: Fn(Output, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, OutputError>> + Send + 'static,
    {
        self.validators.push(Arc::new(move |output, cx| validator(output, cx).boxed()));
        self
    }

    /// Sets the limits of each run. By default, an extension sets no limits.
    ///
    /// For each kind of limit, the lowest value of the agent and its extensions applies. If the
    /// input of a run [sets limits](haft_core::RunInput::with_limits), only those apply: a limit
    /// that the input does not set is unlimited. After a hand-off, the limits of the first agent
    /// still apply.
    pub fn limits(mut self, limits: RunLimits) -> Self {
        self.limits = limits;
        self
    }
}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extension")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
