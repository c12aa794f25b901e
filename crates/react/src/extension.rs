//! Extensions: tools, instructions, hooks, limits and saved entries of an agent, as one value.

mod calls;
mod context;
mod entries;
mod hook;
mod list;
mod request;

use std::{fmt, future::Future, sync::Arc};

use futures::{FutureExt as _, future::BoxFuture};
use haft_core::{
    ChatModel, ToolError, Toolset,
    agent::RunLimits,
    call::{BoxError, ToolResponse},
};
use serde_json::Value;

use crate::{Output, OutputError, dialect::Reply};
use calls::{AroundCalls, CallHook};

pub use calls::NextCall;
pub use context::StepContext;
pub use entries::{Entries, SavedEntries};
pub(crate) use list::Extensions;
pub use request::StepRequest;

type Hook<In, Out, E> = Arc<dyn Fn(In, StepContext) -> BoxFuture<'static, Result<Out, E>> + Send + Sync>;
type InstructionsHook =
    Arc<dyn Fn(StepContext) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync>;
type ToolsAdaptor = Arc<dyn Fn(Toolset) -> Toolset + Send + Sync>;
type ModelAdaptor = Arc<dyn Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync>;

/// A capability of an agent as one value: tools, instructions, hooks around requests and calls,
/// limits, and [entries](Entries) in the saved run.
///
/// [`ReactAgentBuilder::extension`](crate::ReactAgentBuilder::extension) adds it. A custom
/// type can be used through `impl From<Budget> for Extension`.
///
/// # Order
///
/// The hooks of the builder come first, then the extensions in the order in which they were added.
///
/// - First to last: [`instructions`](Self::instructions),
///   [`dynamic_instructions`](Self::dynamic_instructions), then [`prepare`](Self::prepare). Each
///   `prepare` hook receives the request of the previous hook.
/// - The first is the outermost: [`adapt_model`](Self::adapt_model),
///   [`adapt_tools`](Self::adapt_tools), [`around_calls`](Self::around_calls).
/// - Last to first: [`after_reply`](Self::after_reply).
/// - First to last: [`output_validator`](Self::output_validator). Each validator receives the
///   output of the previous validator.
/// - The lowest of each kind: [`limits`](Self::limits).
///
/// The same rules apply to several hooks of one kind within an extension.
///
/// # Examples
///
/// A to-do list of the model, saved with the run:
///
/// ```
/// use haft_core::{Toolset, tool, tool::State, call::ToolError};
/// use haft_react::{Extension, ReactAgent, extension::Entries};
/// use haft_testing::ScriptedModel;
///
/// /// Adds a task to the list.
/// #[tool]
/// fn plan(task: String, #[tool(state)] entries: Entries) -> Result<(), ToolError> {
///     let todo = entries.of("todo");
///     todo.update("tasks", |tasks: &mut Vec<String>| tasks.push(task)).map_err(ToolError::failed)
/// }
///
/// fn todo() -> Extension {
///     Extension::new("todo")
///         .tools(Toolset::new().with(Plan))
///         .instructions("Plan before you act.")
///         .dynamic_instructions(|cx| async move {
///             let tasks: Vec<String> = cx.entries.get("tasks")?.unwrap_or_default();
///             Ok(tasks.iter().map(|task| format!("- [ ] {task}\n")).collect())
///         })
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new().calls([("a", "plan", r#"{"task":"book a flight"}"#)]).text("Planned.");
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
    toolsets: Vec<Toolset>,
    tools: Vec<ToolsAdaptor>,
    models: Vec<ModelAdaptor>,
    paragraphs: Vec<String>,
    instructions: Vec<InstructionsHook>,
    prepare: Vec<Hook<StepRequest, StepRequest, BoxError>>,
    replies: Vec<Hook<Reply, Reply, BoxError>>,
    validators: Vec<Hook<Output, Output, OutputError>>,
    limits: RunLimits,
}

impl Extension {
    /// Creates an empty extension. The name is the key of its [entries](Entries). It must be unique
    /// in the agent, and not empty.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            toolsets: Vec::new(),
            tools: Vec::new(),
            models: Vec::new(),
            paragraphs: Vec::new(),
            instructions: Vec::new(),
            prepare: Vec::new(),
            replies: Vec::new(),
            validators: Vec::new(),
            limits: RunLimits::NONE,
        }
    }

    /// Adds tools. They keep the pipeline of their toolset.
    pub fn tools(mut self, tools: Toolset) -> Self {
        self.toolsets.push(tools);
        self
    }

    /// Adapts the tools of this extension, of the extensions after it, and of the agent, for
    /// example with filters, approvals or layers. Tools that hand off a run are not adapted.
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
        self.tools.push(Arc::new(adapt));
        self
    }

    /// Adds a hook around each call of a tool that [`adapt_tools`](Self::adapt_tools) adapts. It
    /// runs again when a call continues that the tool itself suspended, and not for a result that a
    /// decision provides. It receives valid arguments; arguments that it changes are not validated
    /// again. A panic of the hook is handled like a panic of the tool, and the hook runs within the
    /// timeout of the tool.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::ToolError;
    /// use haft_react::{Extension, extension::Entries};
    ///
    /// let budget = Extension::new("budget").around_calls(|arguments, next| async move {
    ///     let entries = next.context().state::<Entries>()?.of("budget");
    ///     let calls = entries.update("calls", |calls: &mut u32| { *calls += 1; *calls }).map_err(ToolError::failed)?;
    ///     if calls > 20 {
    ///         return Err(ToolError::Denied("the budget of calls is used up".to_owned()));
    ///     }
    ///     next.run(arguments).await
    /// });
    /// ```
    pub fn around_calls<F, Fut>(self, hook: F) -> Self
    where
        F: Fn(Value, NextCall) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ToolResponse, ToolError>> + Send + 'static,
    {
        let hook: Arc<CallHook> = Arc::new(move |arguments, next| hook(arguments, next).boxed());
        self.adapt_tools(move |tools| tools.adapted(AroundCalls(Arc::clone(&hook))))
    }

    /// Adapts the model of the agent, for example with a cache, a fallback or a layer. Models that
    /// a [`prepare`](Self::prepare) hook chooses are not adapted.
    pub fn adapt_model(
        mut self,
        adapt: impl Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync + 'static,
    ) -> Self {
        self.models.push(Arc::new(adapt));
        self
    }

    /// Adds a paragraph after the instructions of the agent.
    pub fn instructions(mut self, paragraph: impl Into<String>) -> Self {
        self.paragraphs.push(paragraph.into());
        self
    }

    /// Adds a paragraph that depends on the run, see
    /// [`ReactAgentBuilder::dynamic_instructions`](crate::ReactAgentBuilder::dynamic_instructions).
    pub fn dynamic_instructions<F, Fut>(mut self, instructions: F) -> Self
    where
        F: Fn(StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        self.instructions.push(Arc::new(move |cx| instructions(cx).boxed()));
        self
    }

    /// Adds a hook that changes each request, see
    /// [`ReactAgentBuilder::prepare`](crate::ReactAgentBuilder::prepare).
    pub fn prepare<F, Fut>(mut self, prepare: F) -> Self
    where
        F: Fn(StepRequest, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<StepRequest, BoxError>> + Send + 'static,
    {
        self.prepare.push(Arc::new(move |request, cx| prepare(request, cx).boxed()));
        self
    }

    /// Adds a hook that receives each whole reply of the model before the run does, to change it,
    /// for example to redact text or to remove calls. Set [`Reply::problem`] to reject a reply with
    /// a text for the model; a reply that is empty after its calls were removed is rejected. Its
    /// usage is kept.
    ///
    /// Failed and truncated replies do not reach the hook. Emitted deltas, and spans with content,
    /// show the original. An error, a panic or a
    /// [timeout](crate::ReactAgentBuilder::hook_timeout) ends the run.
    pub fn after_reply<F, Fut>(mut self, hook: F) -> Self
    where
        F: Fn(Reply, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, BoxError>> + Send + 'static,
    {
        self.replies.push(Arc::new(move |reply, cx| hook(reply, cx).boxed()));
        self
    }

    /// Adds an output validator, see
    /// [`ReactAgentBuilder::output_validator`](crate::ReactAgentBuilder::output_validator).
    pub fn output_validator<F, Fut>(mut self, validator: F) -> Self
    where
        F: Fn(Output, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, OutputError>> + Send + 'static,
    {
        self.validators.push(Arc::new(move |output, cx| validator(output, cx).boxed()));
        self
    }

    /// Sets limits of runs. For each kind, the lowest limit of the agent and its extensions
    /// applies. Limits in the input of a run replace all of them, also of kinds that the input
    /// leaves unlimited. After a hand-off, the limits of the first agent stay. Default: none.
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
