//! Extensions. An extension bundles tools, instructions, hooks, limits and saved entries for an
//! agent.

use std::{fmt, future::Future, sync::Arc};

use futures::FutureExt as _;
use haft_core::{
    ChatModel, Toolset,
    agent::{AgentStep, RunLimits},
    call::BoxError,
    message::TranscriptView,
};

use crate::{
    Guardrail, Hook, Verdict,
    dialect::Reply,
    hook::{Closure, HookContext, HookResult, NamedHook, RequestDraft},
    output::Output,
};

type ToolsAdaptor = Arc<dyn Fn(Toolset) -> Toolset + Send + Sync>;
type ModelAdaptor = Arc<dyn Fn(Arc<dyn ChatModel>) -> Arc<dyn ChatModel> + Send + Sync>;

/// A bundle that adds a capability to an agent: tools, instructions, [hooks](Hook), limits, and
/// [entries](crate::entries::Entries) that are saved with the run.
///
/// [`ReactAgentBuilder::extension`](crate::ReactAgentBuilder::extension) adds an extension to an
/// agent. To use a type of your own, such as `Budget`, as an extension, implement
/// `From<Budget> for Extension`.
///
/// # Order
///
/// The parts of the builder come first, followed by the extensions in the order in which they were
/// added. At each event, the hooks run in this order. Of several adaptors, the first is the
/// outermost. The lowest limit of each kind applies.
///
/// # Examples
///
/// An extension with a to-do list for the model. The list is saved with the run:
///
/// ```
/// use haft_core::{Toolset, tool, call::ToolError};
/// use haft_react::{Extension, ReactAgent, entries::Entries};
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
    pub(crate) name: String,
    pub(crate) tools: Vec<Toolset>,
    pub(crate) tool_adaptors: Vec<ToolsAdaptor>,
    pub(crate) model_adaptors: Vec<ModelAdaptor>,
    pub(crate) paragraphs: Vec<String>,
    pub(crate) hooks: Vec<NamedHook>,
    pub(crate) limits: RunLimits,
}

impl Extension {
    /// Creates an empty extension. `name` is the key of its [entries](crate::entries::Entries) in
    /// the saved run. It must not be empty, and must be unique in the agent.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            tools: Vec::new(),
            tool_adaptors: Vec::new(),
            model_adaptors: Vec::new(),
            paragraphs: Vec::new(),
            hooks: Vec::new(),
            limits: RunLimits::NONE,
        }
    }

    /// Adds the tools of a toolset to the agent. Calls to these tools still run through the
    /// pipeline of their toolset.
    pub fn tools(mut self, tools: Toolset) -> Self {
        self.tools.push(tools);
        self
    }

    /// Adds an adaptor for tools, for example a filter, an approval or a layer around calls.
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

    /// Adds an adaptor for the model of the agent, for example a cache, a fallback or a layer. A
    /// model that a [hook](RequestDraft::use_model) selects is not adapted.
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

    /// Adds a hook.
    pub fn hook(self, hook: impl Hook + 'static) -> Self {
        self.with_hook(NamedHook::new(Arc::new(hook)))
    }

    /// Adds a guardrail: a named hook of one event.
    pub fn guardrail(self, guardrail: Guardrail) -> Self {
        self.with_hook(guardrail.into())
    }

    fn with_hook(mut self, hook: NamedHook) -> Self {
        self.hooks.push(hook.of_extension(&self.name));
        self
    }

    /// Adds a hook made of a closure. `kind` is the kind of the hook in errors.
    fn closure(self, kind: &'static str, closure: Closure) -> Self {
        self.with_hook(NamedHook::new(Arc::new(closure)).of_kind(kind))
    }

    fn prepare_as<F, Fut>(self, kind: &'static str, prepare: F) -> Self
    where
        F: Fn(RequestDraft, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<RequestDraft, BoxError>> + Send + 'static,
    {
        let closure = Closure::Request(Arc::new(move |request, cx| {
            let prepared = prepare(request, cx);
            async move { prepared.await.map(Verdict::Replace) }.boxed()
        }));
        self.closure(kind, closure)
    }

    /// Adds a hook that returns a paragraph of the instructions for each model request. See
    /// [`ReactAgentBuilder::dynamic_instructions`](crate::ReactAgentBuilder::dynamic_instructions).
    pub fn dynamic_instructions<F, Fut>(self, instructions: F) -> Self
    where
        F: Fn(HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        self.prepare_as("dynamic instructions hook", move |mut request, cx| {
            let text = instructions(cx);
            async move {
                request.instructions.push(text.await?);
                Ok(request)
            }
        })
    }

    /// Adds a hook that changes each model request before it is sent. See
    /// [`ReactAgentBuilder::prepare`](crate::ReactAgentBuilder::prepare).
    pub fn prepare<F, Fut>(self, prepare: F) -> Self
    where
        F: Fn(RequestDraft, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<RequestDraft, BoxError>> + Send + 'static,
    {
        self.prepare_as("prepare hook", prepare)
    }

    /// Adds a hook that changes the messages of each request, and never the transcript. See
    /// [`RequestDraft::messages`].
    ///
    /// To send the latest turns and steps only, use
    /// [`ContextConfig::latest`](crate::run::ContextConfig::latest). To clear tool results, use
    /// [`ClearToolResults`](crate::hook::ClearToolResults). `process` must not block.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Message, RunInput, Transcript};
    /// use haft_react::{Extension, ReactAgent};
    /// use haft_testing::ScriptedModel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let without_drafts = Extension::new("drafts").history_processor(|view, _| {
    ///     let is_draft = |message: &Message| message.text().starts_with("Draft:");
    ///     Ok(view.iter().filter(|message| !is_draft(message)).cloned().collect())
    /// });
    /// let model = ScriptedModel::new().reply_text("Done.");
    /// let agent = ReactAgent::builder(model.clone()).extension(without_drafts).build()?;
    /// let history: Transcript = [Message::user("Draft: a poem"), Message::assistant("Nice.")].into_iter().collect();
    /// let answer = agent.run(RunInput::new("Finish it.").with_history(&history)).await?.into_answer().unwrap();
    /// assert_eq!(model.requests()[0].messages.len(), 2);
    /// assert_eq!(answer.transcript.len(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn history_processor(
        self,
        process: impl Fn(TranscriptView, &HookContext) -> Result<TranscriptView, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let process = Arc::new(process);
        self.prepare_as("history processor", move |mut request, cx| {
            let process = Arc::clone(&process);
            async move {
                request.messages = process(request.messages, &cx)?;
                Ok(request)
            }
        })
    }

    /// Adds a hook that judges or changes each complete reply, see
    /// [`Hook::after_reply`].
    pub fn after_reply<F, Fut>(self, judge: F) -> Self
    where
        F: Fn(Reply, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Reply>> + Send + 'static,
    {
        self.closure("reply hook", Closure::Reply(Arc::new(move |reply, cx| judge(reply, cx).boxed())))
    }

    /// Adds a hook that judges the calls of a reply with their results. See
    /// [`ReactAgentBuilder::after_calls`](crate::ReactAgentBuilder::after_calls).
    pub fn after_calls<F, Fut>(self, judge: F) -> Self
    where
        F: Fn(Arc<[AgentStep]>, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Output>> + Send + 'static,
    {
        self.closure("results hook", Closure::Results(Arc::new(move |calls, cx| judge(calls, cx).boxed())))
    }

    /// Adds a hook that judges the answer of each run. See
    /// [`ReactAgentBuilder::output_validator`](crate::ReactAgentBuilder::output_validator).
    pub fn output_validator<F, Fut>(self, validator: F) -> Self
    where
        F: Fn(Output, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Output>> + Send + 'static,
    {
        self.closure(
            "output validator",
            Closure::Answer(Arc::new(move |output, cx| validator(output, cx).boxed())),
        )
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
