//! The methods of [`ReactAgentBuilder`] for hooks and extensions.

use std::{future::Future, mem, sync::Arc, time::Duration};

use haft_core::{agent::AgentStep, call::BoxError, message::TranscriptView};

use super::ReactAgentBuilder;
use crate::{
    Extension, Guardrail, Hook,
    hook::{HookContext, HookResult, RequestDraft},
    output::Output,
};

/// Hooks and extensions.
impl ReactAgentBuilder {
    /// Adds `extension` after the hooks of the builder and all extensions added earlier. The
    /// documentation of [`Extension`] defines the order in which hooks run.
    pub fn extension(mut self, extension: impl Into<Extension>) -> Self {
        self.extensions.push(extension.into());
        self
    }

    /// Adds a hook. See [`Hook`] for an example.
    pub fn hook(self, hook: impl Hook + 'static) -> Self {
        self.change_own(|own| own.hook(hook))
    }

    /// Adds a guardrail: a named hook over the input, the answer, the calls or the results of each
    /// run. See [`Guardrail`] for an example.
    pub fn guardrail(self, guardrail: Guardrail) -> Self {
        self.change_own(|own| own.guardrail(guardrail))
    }

    /// Adds a hook that changes the messages of each request, and never the transcript. See
    /// [`Extension::history_processor`] for its rules and an example.
    pub fn history_processor(
        self,
        process: impl Fn(TranscriptView, &HookContext) -> Result<TranscriptView, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.change_own(|own| own.history_processor(process))
    }

    /// Applies `change` to the extension of the builder.
    fn change_own(mut self, change: impl FnOnce(Extension) -> Extension) -> Self {
        self.own = change(mem::replace(&mut self.own, Extension::new("")));
        self
    }

    /// Adds an output validator: a hook that accepts, changes or rejects each answer. If an answer
    /// is rejected with [`Retry`](crate::Verdict::Retry), the model reads the reason and answers
    /// again. See [`Hook::on_answer`].
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_react::{ReactAgent, Verdict};
    /// use haft_testing::ScriptedModel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let agent = ReactAgent::builder(ScriptedModel::new().reply_text("Maybe.").reply_text("Yes."))
    ///     .output_validator(|output, _cx| async move {
    ///         Ok(match output.text.as_str() {
    ///             "Yes." | "No." => Verdict::Pass,
    ///             _ => Verdict::retry("answer \"Yes.\" or \"No.\""),
    ///         })
    ///     })
    ///     .build()?;
    /// assert_eq!(agent.run("Is 7 a prime?").await?.text()?, "Yes.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output_validator<F, Fut>(self, validator: F) -> Self
    where
        F: Fn(Output, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Output>> + Send + 'static,
    {
        self.change_own(|own| own.output_validator(validator))
    }

    /// Adds a hook that judges or changes each complete reply, see [`Hook::after_reply`].
    pub fn after_reply<F, Fut>(self, judge: F) -> Self
    where
        F: Fn(crate::dialect::Reply, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<crate::dialect::Reply>> + Send + 'static,
    {
        self.change_own(|own| own.after_reply(judge))
    }

    /// Adds a hook that judges the calls of each reply with their results, also the failed ones, in
    /// call order. With [`Pass`](crate::Verdict::Pass), the run continues. With
    /// [`Replace`](crate::Verdict::Replace), it ends with this answer. See [`Hook::after_calls`].
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{tool, Toolset};
    /// use haft_react::{Output, ReactAgent, Verdict};
    /// use haft_testing::ScriptedModel;
    ///
    /// /// Looks up a price.
    /// #[tool]
    /// fn price(item: String) -> usize {
    ///     item.len()
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_calls([("a", "price", r#"{"item":"pen"}"#)]);
    /// let agent = ReactAgent::builder(model)
    ///     .tools(Toolset::new().with_tool(Price))
    ///     .after_calls(|calls, _cx| async move {
    ///         Ok(match calls.iter().find(|call| call.tool_name == "price" && call.result.is_success()) {
    ///             Some(call) => Verdict::Replace(Output::new(format!("It costs {}.", call.result.model_text()))),
    ///             None => Verdict::Pass,
    ///         })
    ///     })
    ///     .build()?;
    /// assert_eq!(agent.run("What is the price of a pen?").await?.text()?, "It costs 3.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after_calls<F, Fut>(self, judge: F) -> Self
    where
        F: Fn(Arc<[AgentStep]>, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HookResult<Output>> + Send + 'static,
    {
        self.change_own(|own| own.after_calls(judge))
    }

    /// Sets the timeout of each hook, such as an [output validator](Self::output_validator).
    /// Default: [`HOOK_TIMEOUT`](haft_core::limits::HOOK_TIMEOUT). Zero is an error of
    /// [`build`](Self::build).
    pub fn hook_timeout(mut self, timeout: Duration) -> Self {
        self.hook_timeout = timeout;
        self
    }

    /// Adds a hook that returns instructions for a step, for example from the state or the
    /// principal of the run. The returned text is appended to the fixed
    /// [instructions](Self::instructions) of the agent. Empty text is ignored.
    ///
    /// The hook runs before each request. Its text is not recorded in the transcript. Text that
    /// changes at every step, such as the time, prevents hits in the prompt cache of a provider. An
    /// error, a panic or a [timeout](Self::hook_timeout) ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{RunInput, tool::{Principal, RunContext}};
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_text("Hello, Ada.");
    /// let agent = ReactAgent::builder(model.clone())
    ///     .instructions("Be brief.")
    ///     .dynamic_instructions(|cx| async move {
    ///         let user = cx.run.principal.as_ref().ok_or("no user is logged in")?;
    ///         Ok(format!("The user is {}.", user.id))
    ///     })
    ///     .build()?;
    /// let ada = Principal { id: "Ada".to_owned(), ..Principal::default() };
    /// let context = RunContext { principal: Some(ada), ..RunContext::default() };
    /// agent.run(RunInput::new("Hello!").with_context(context)).await?;
    /// assert_eq!(model.requests()[0].instructions.as_ref().unwrap().text(), "Be brief.\n\nThe user is Ada.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dynamic_instructions<F, Fut>(self, instructions: F) -> Self
    where
        F: Fn(HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        self.change_own(|own| own.dynamic_instructions(instructions))
    }

    /// Adds a hook that can change each request: its tools, tool choice, settings,
    /// [model](RequestDraft::use_model) and [dialect](RequestDraft::use_dialect). The hook can also
    /// add instructions for this step.
    ///
    /// The hook runs before each request. When a run is resumed, the hook also runs once before the
    /// open calls are executed. These calls are executed with the tools that the hook has kept. An
    /// error, a panic or a [timeout](Self::hook_timeout) ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{tool, Toolset};
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// /// Books the flight.
    /// #[tool]
    /// fn book(flight: String) -> String {
    ///     format!("{flight} is booked")
    /// }
    ///
    /// /// Finds flights.
    /// #[tool]
    /// fn find(to: String) -> String {
    ///     format!("LH 42 to {to}")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().reply_calls([("a", "find", r#"{"to":"Rome"}"#)]).reply_text("LH 42.");
    /// let agent = ReactAgent::builder(model.clone())
    ///     .tools(Toolset::new().with_tool(Find).with_tool(Book))
    ///     .prepare(|mut request, cx| async move {
    ///         if cx.step == 0 {
    ///             request.hide_tool("book");
    ///         }
    ///         Ok(request)
    ///     })
    ///     .build()?;
    /// agent.run("To Rome!").await?;
    /// let offered: Vec<_> = model.requests().iter().map(|request| request.tools.len()).collect();
    /// assert_eq!(offered, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare<F, Fut>(self, prepare: F) -> Self
    where
        F: Fn(RequestDraft, HookContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<RequestDraft, BoxError>> + Send + 'static,
    {
        self.change_own(|own| own.prepare(prepare))
    }
}
