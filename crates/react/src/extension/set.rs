//! The extensions of an agent, and the execution of their hooks.

use std::{collections::BTreeSet, fmt, future::Future, sync::Arc, time::Duration};

use haft_core::{
    ChatModel, Message, Toolset,
    agent::{AgentErrorKind, AgentStep, GuardrailStage, RunLimits},
    call::BoxError,
    limits,
    usage::Usage,
};

use super::{
    Extension, StepContext, StepInputs,
    hook::{HookError, run_hook, with_extension_name},
    step_inputs::join_instructions,
};
use crate::{AgentBuildError, Output, OutputError, Run, RunConfig, dialect::Reply, run::CallReview};

/// The extensions of an agent, in order, and the execution of their hooks.
///
/// [`ReactAgent`](crate::ReactAgent) has an `ExtensionSet`, and any other driver of a [`Run`] can
/// use one:
///
/// - at construction: [`adapt_tools`](Self::adapt_tools), [`adapt_model`](Self::adapt_model),
///   [`instructions`](Self::instructions) and [`configure`](Self::configure)
/// - for [`Effect::Prepare`](crate::Effect::Prepare): [`prepare`](Self::prepare)
/// - for [`Effect::CheckInput`](crate::Effect::CheckInput): [`check_input`](Self::check_input),
///   before [`Run::on_input_check`]
/// - for [`Effect::Chat`](crate::Effect::Chat): [`after_reply`](Self::after_reply), after
///   [`Run::parse_reply`] and before [`Run::on_chat`]
/// - for [`Effect::Call`](crate::Effect::Call): [`check_call`](Self::check_call) for each of the
///   [`unchecked_calls`](Self::unchecked_calls), before any call is executed, then
///   [`Run::on_call_check`]; and [`check_result`](Self::check_result), before
///   [`Run::on_result`]
/// - for [`Effect::Review`](crate::Effect::Review): [`review_calls`](Self::review_calls), before
///   [`Run::on_review`]
/// - for [`Effect::Check`](crate::Effect::Check): [`validate`](Self::validate), before
///   [`Run::on_check`]
///
/// The driver also creates [`Entries`](super::Entries) for the run and passes them to the tools as
/// state. It saves changed entries with [`Run::set_extension_entries`].
///
/// All hooks and guardrails except history processors run on their own tokio task, with a
/// [timeout](Self::with_hook_timeout). They need a tokio runtime with a timer.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use haft_core::{ChatModel, Timestamp, tool::RunContext, toolset::ToolList};
/// use haft_react::{
///     Effect, Extension, NativeCalls, Run, RunConfig,
///     extension::{Entries, ExtensionSet, StepContext, StepInputs},
/// };
/// use haft_testing::ScriptedModel;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let polite = Extension::new("polite")
///     .dynamic_instructions(|cx| async move { Ok(format!("Be polite. Step {}.", cx.step)) })
///     .after_reply(|mut reply, _| async move {
///         reply.message = format!("{} Thank you.", reply.message.text()).into();
///         Ok(reply)
///     });
/// let extensions = ExtensionSet::new([polite])?;
/// let config = extensions.configure(RunConfig::default());
/// let model = extensions.adapt_model(Arc::new(ScriptedModel::new().reply_text("Hello.")));
///
/// let mut run = Run::new(&config, "Hi".into())?;
/// let entries = Entries::new(run.extension_entries().clone());
/// let context = Arc::new(RunContext::default());
/// let mut inputs = StepInputs::new(ToolList::default(), model, Arc::new(NativeCalls));
/// let answer = loop {
///     match run.next(&inputs.as_step(Timestamp::now()))? {
///         Effect::Prepare => {
///             let cx = StepContext::new(&run, &context, &entries);
///             inputs = extensions.prepare(inputs, &run, &cx).await?;
///         }
///         Effect::Chat(request) => {
///             let reply = inputs.model.chat(&request).await?;
///             let reply = run.parse_reply(reply, &inputs.as_step(Timestamp::now()))?;
///             let cx = StepContext::new(&run, &context, &entries);
///             let reply = extensions.after_reply(reply, &mut run, &cx).await?;
///             run.on_chat(Ok(reply))?;
///         }
///         Effect::Done(answer) => break answer,
///         other => unreachable!("{other:?}"),
///     }
/// };
/// assert_eq!(answer.text, "Hello. Thank you.");
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ExtensionSet {
    pub(super) extensions: Vec<Extension>,
    /// The maximum duration of each call to a hook.
    pub(super) hook_timeout: Duration,
}

impl ExtensionSet {
    /// Creates a set of extensions. The documentation of [`Extension`] defines the order in which
    /// their hooks run. One extension can have the name `""`, for hooks that belong to the agent
    /// itself.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentBuildError::InvalidExtensionName`] if two extensions have the same name.
    pub fn new(extensions: impl IntoIterator<Item = Extension>) -> Result<Self, AgentBuildError> {
        let extensions: Vec<_> = extensions.into_iter().collect();
        let mut names = BTreeSet::new();
        if let Some(duplicate) = extensions.iter().find(|extension| !names.insert(extension.name.as_str())) {
            return Err(AgentBuildError::InvalidExtensionName(duplicate.name.clone()));
        }
        Ok(Self { extensions, hook_timeout: limits::HOOK_TIMEOUT })
    }

    /// Sets the maximum duration of each call to a hook. It must be positive: with zero, each hook
    /// that waits fails. Default: [`limits::HOOK_TIMEOUT`].
    #[must_use]
    pub fn with_hook_timeout(mut self, timeout: Duration) -> Self {
        self.hook_timeout = timeout;
        self
    }

    /// Returns `tools` with the [tools](Extension::tools) and the
    /// [adaptors](Extension::adapt_tools) of the extensions.
    #[must_use]
    pub fn adapt_tools(&self, tools: Toolset) -> Toolset {
        self.extensions.iter().rev().fold(tools, |tools, extension| {
            let tools = extension.tools.iter().cloned().fold(tools, Toolset::with_source);
            extension.tool_adaptors.iter().rev().fold(tools, |tools, adapt| adapt(tools))
        })
    }

    /// Returns `model` with the [adaptors](Extension::adapt_model) of the extensions.
    #[must_use]
    pub fn adapt_model(&self, model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        let adaptors =
            self.extensions.iter().rev().flat_map(|extension| extension.model_adaptors.iter().rev());
        adaptors.fold(model, |model, adapt| adapt(model))
    }

    /// Returns `base` with the fixed [instructions](Extension::instructions) of the extensions
    /// appended. Returns `None` if `base` is `None` and the extensions have no instructions.
    #[must_use]
    pub fn instructions(&self, base: Option<Arc<Message>>) -> Option<Arc<Message>> {
        let paragraphs = self.extensions.iter().flat_map(|extension| extension.paragraphs.iter());
        join_instructions(base, paragraphs)
    }

    /// Returns `config` with the [limits](Extension::limits) of the extensions. If an extension has
    /// an [output validator](Extension::output_validator), also sets
    /// [`RunConfig::check_outputs`], so that the run returns
    /// [`Effect::Check`](crate::Effect::Check). Answer guardrails also set
    /// [`RunConfig::check_outputs`]. Input guardrails set [`RunConfig::check_input`] or
    /// [`RunConfig::check_input_in_parallel`]. A [review](Extension::review_calls) sets
    /// [`RunConfig::review_calls`].
    #[must_use]
    pub fn configure(&self, config: RunConfig) -> RunConfig {
        let limits = self.extensions.iter().map(|extension| extension.limits);
        RunConfig {
            limits: limits.fold(config.limits, lowest_limits),
            check_outputs: config.check_outputs
                || self.has_guardrails(GuardrailStage::Answer)
                || self.extensions.iter().any(|it| !it.validators.is_empty()),
            review_calls: config.review_calls || self.extensions.iter().any(|it| !it.reviews.is_empty()),
            check_input: config.check_input || self.has_input_guardrails(false),
            check_input_in_parallel: config.check_input_in_parallel || self.has_input_guardrails(true),
            ..config
        }
    }

    /// Runs the hooks for dynamic instructions and the [`prepare`](Extension::prepare) hooks.
    /// `inputs` contains the inputs of the next model request before any hook has changed them.
    /// Returns the changed inputs.
    ///
    /// Call this method for each [`Effect::Prepare`](crate::Effect::Prepare), and before
    /// [`Run::recover`].
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] in these cases:
    ///
    /// - A hook fails, panics or exceeds the timeout.
    /// - A hook gives a tool a name that the dialect reserves, or selects a dialect that reserves
    ///   the name of a tool.
    /// - A hook renames a [hand-off tool](StepInputs::handoff_tools), or gives its name to another
    ///   tool.
    /// - A hook returns a request for another tool list.
    /// - The tokio runtime has no timer.
    pub async fn prepare(
        &self,
        inputs: StepInputs,
        run: &Run,
        cx: &StepContext,
    ) -> Result<StepInputs, AgentErrorKind> {
        if self.extensions.iter().all(|it| it.instruction_hooks.is_empty() && it.prepare.is_empty()) {
            return Ok(inputs);
        }
        let reserved = inputs.reserved_tool_name(run);
        let mut request = inputs.to_request(run);
        let mut paragraphs = self.dynamic_instructions(cx).await?;
        for extension in &self.extensions {
            let cx = cx.for_extension(&extension.name);
            for hook in &extension.prepare {
                let hook = Arc::clone(hook);
                let prepared = run_hook(self.hook_timeout, &cx, move |cx| hook(request, cx)).await;
                request = HookError::flatten(prepared, &extension.name, "prepare hook")?;
            }
        }
        paragraphs.append(&mut request.instructions);
        let inputs = inputs.changed_by(request, &paragraphs).and_then(|inputs| {
            // A tool of a source may have the name without a hook: the dialect handles this case.
            match inputs.reserved_tool_name(run).filter(|conflict| reserved != Some(*conflict)) {
                Some((dialect, name)) => Err(format!(
                    "no tool can be named {name:?} in this step: the dialect {dialect} ends a run by this name"
                )),
                None => Ok(inputs),
            }
        });
        inputs.map_err(|problem| AgentErrorKind::HookFailed { hook: "prepare hook", source: problem.into() })
    }

    /// Runs the hooks for dynamic instructions. Returns one paragraph per hook.
    async fn dynamic_instructions(&self, cx: &StepContext) -> Result<Vec<String>, AgentErrorKind> {
        let mut paragraphs = Vec::new();
        for extension in &self.extensions {
            let cx = cx.for_extension(&extension.name);
            for hook in &extension.instruction_hooks {
                let hook = Arc::clone(hook);
                let text = run_hook(self.hook_timeout, &cx, move |cx| hook(cx)).await;
                paragraphs.push(HookError::flatten(text, &extension.name, "dynamic instructions")?);
            }
        }
        Ok(paragraphs)
    }

    /// Runs the [`after_reply`](Extension::after_reply) hooks on `reply`, the reply to the current
    /// model request of `run`, as parsed by [`Run::parse_reply`]. Returns the changed reply, for
    /// [`Run::on_chat`].
    ///
    /// The hooks cannot change the usage of the reply. A reply without content is rejected if the
    /// hooks removed its calls.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if a hook fails, panics or exceeds the timeout.
    /// The reply is then [lost](Run::on_lost_reply): its usage is added to `run`, and `run` repeats
    /// the request.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, the reply is [lost](Run::on_lost_reply), as after an error.
    pub async fn after_reply(
        &self,
        reply: Reply,
        run: &mut Run,
        cx: &StepContext,
    ) -> Result<Reply, AgentErrorKind> {
        if self.extensions.iter().all(|extension| extension.reply_hooks.is_empty()) {
            return Ok(reply);
        }
        let had_calls = !reply.message.tool_calls.is_empty();
        let uncounted = UncountedUsage { run, usage: Some(reply.usage) };
        let mut reply = reply;
        for extension in self.extensions.iter().rev() {
            let cx = cx.for_extension(&extension.name);
            for hook in extension.reply_hooks.iter().rev() {
                let hook = Arc::clone(hook);
                let changed = run_hook(self.hook_timeout, &cx, move |cx| hook(reply, cx)).await;
                reply = HookError::flatten(changed, &extension.name, "reply hook")?;
            }
        }
        reply.usage = uncounted.take();
        if had_calls && reply.message.is_empty() {
            // This text is sent to the model.
            let problem = || "Your calls are not allowed. Do something else, or answer.".to_owned();
            reply.problem.get_or_insert_with(problem);
        }
        Ok(reply)
    }

    /// Runs `hook`, a function of the host program that belongs to no extension. Like the hooks of
    /// the extensions, it runs on its own tokio task, with the
    /// [timeout](Self::with_hook_timeout) of the set. `kind` is the kind of the hook in the error.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if the hook fails, panics or exceeds the timeout.
    /// Fails with [`AgentErrorKind::Cancelled`] if the run is cancelled.
    pub async fn run_hook<T, F>(
        &self,
        kind: &'static str,
        cx: &StepContext,
        hook: impl FnOnce(StepContext) -> F + Send + 'static,
    ) -> Result<T, AgentErrorKind>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, BoxError>> + Send,
    {
        HookError::flatten(run_hook(self.hook_timeout, cx, hook).await, "", kind)
    }

    /// Runs the [reviews](Extension::review_calls) of `calls`, the calls of one reply. Returns the
    /// first review that ends the run, for [`Run::on_review`].
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if a hook fails, panics or exceeds the timeout.
    /// The run remains valid, and returns the effect again.
    pub async fn review_calls(
        &self,
        calls: Vec<AgentStep>,
        cx: &StepContext,
    ) -> Result<CallReview, AgentErrorKind> {
        let calls: Arc<[AgentStep]> = calls.into();
        for extension in &self.extensions {
            let cx = cx.for_extension(&extension.name);
            for hook in &extension.reviews {
                let (hook, calls) = (Arc::clone(hook), Arc::clone(&calls));
                let review = run_hook(self.hook_timeout, &cx, move |cx| hook(calls, cx)).await;
                let review = HookError::flatten(review, &extension.name, "call review")?;
                if review != CallReview::Continue {
                    return Ok(review);
                }
            }
        }
        Ok(CallReview::Continue)
    }

    /// Runs the [output validators](Extension::output_validator) on `output`, then the answer
    /// [guardrails](Extension::guardrail). Returns the changed output, for [`Run::on_check`].
    ///
    /// # Errors
    ///
    /// Fails with [`OutputError::Blocked`] or [`OutputError::Ended`] if a guardrail blocks the
    /// output or ends the run.
    ///
    /// Fails with [`OutputError::Retry`] if a validator rejects the output. Fails with
    /// [`OutputError::Failed`] if a validator fails, panics or exceeds the timeout. All errors
    /// must also be passed to [`Run::on_check`].
    pub async fn validate(&self, mut output: Output, cx: &StepContext) -> Result<Output, OutputError> {
        for extension in &self.extensions {
            let cx = cx.for_extension(&extension.name);
            for validator in &extension.validators {
                let validator = Arc::clone(validator);
                let checked = run_hook(self.hook_timeout, &cx, move |cx| validator(output, cx)).await;
                let checked = checked.map_err(|error| OutputError::Failed(error.into())).and_then(|it| it);
                output = checked.map_err(|error| match error {
                    OutputError::Failed(source) => {
                        OutputError::Failed(with_extension_name(&extension.name, source))
                    }
                    other => other,
                })?;
            }
        }
        self.check_answer(output, cx).await
    }

    fn has_input_guardrails(&self, is_parallel: bool) -> bool {
        let guardrails = self.extensions.iter().flat_map(|extension| &extension.guardrails);
        guardrails.filter(|it| it.stage() == GuardrailStage::Input).any(|it| it.is_parallel == is_parallel)
    }
}

impl fmt::Debug for ExtensionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtensionSet")
            .field("extensions", &self.extensions)
            .field("hook_timeout", &self.hook_timeout)
            .finish_non_exhaustive()
    }
}

/// A guard for the usage of a reply. Dropping the guard adds the usage to the run, unless
/// [`take`](Self::take) has returned it.
struct UncountedUsage<'r> {
    run: &'r mut Run,
    usage: Option<Usage>,
}

impl UncountedUsage<'_> {
    /// Returns the usage without adding it to the run.
    fn take(mut self) -> Usage {
        self.usage.take().unwrap_or_default()
    }
}

impl Drop for UncountedUsage<'_> {
    fn drop(&mut self) {
        if let Some(usage) = self.usage.take() {
            self.run.on_lost_reply(usage);
        }
    }
}

fn lowest_limits(a: RunLimits, b: RunLimits) -> RunLimits {
    fn min_limit<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b < a { b } else { a }),
            (a, b) => a.or(b),
        }
    }
    RunLimits {
        requests: min_limit(a.requests, b.requests),
        tool_calls: min_limit(a.tool_calls, b.tool_calls),
        total_tokens: min_limit(a.total_tokens, b.total_tokens),
        input_tokens: min_limit(a.input_tokens, b.input_tokens),
        output_tokens: min_limit(a.output_tokens, b.output_tokens),
        request_input_tokens: min_limit(a.request_input_tokens, b.request_input_tokens),
        request_output_tokens: min_limit(a.request_output_tokens, b.request_output_tokens),
        cost: min_limit(a.cost, b.cost),
        time: min_limit(a.time, b.time),
    }
}
