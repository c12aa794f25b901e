use std::{future::Future, sync::Arc, time::Duration};

use futures::FutureExt as _;
use haft_core::call::BoxError;

use super::{StepContext, StepRequest};
use crate::{Output, OutputError, ReactAgentBuilder};

/// Code of the host that runs wait for.
impl ReactAgentBuilder {
    /// Holds each answer against this before it is taken, besides what was given before: text and outputs alike, but no
    /// refusal. It may change the answer, tell the model what is wrong with it, which then answers again, or end the run.
    ///
    /// Several are asked in order, each with what the one before made of the answer. They run on tasks of their own: one that
    /// panics or takes [too long](Self::hook_timeout) ends the run with [`AgentErrorKind::Hook`](haft_core::agent::AgentErrorKind::Hook).
    /// A run that was interrupted meanwhile asks them again.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Agent;
    /// use haft_testing::ScriptedModel;
    /// use haft_react::{OutputError, ReactAgent};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let agent = ReactAgent::builder(ScriptedModel::new().text("Maybe.").text("Yes."))
    ///     .output_validator(|output, _cx| async move {
    ///         match output.text.as_str() {
    ///             "Yes." | "No." => Ok(output),
    ///             _ => Err(OutputError::retry("answer \"Yes.\" or \"No.\"")),
    ///         }
    ///     })
    ///     .build()?;
    /// assert_eq!(agent.run("Is 7 a prime?".into()).await?.text(), "Yes.");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output_validator<F, Fut>(mut self, validator: F) -> Self
    where
        F: Fn(Output, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Output, OutputError>> + Send + 'static,
    {
        self.config.check_outputs = true;
        self.hooks.validators.push(Arc::new(move |output, cx| validator(output, cx).boxed()));
        self
    }

    /// Sets how long each piece of code that the agent was given, such as an [output validator](Self::output_validator), may
    /// take. Default: [`HOOK_TIMEOUT`](haft_core::limits::HOOK_TIMEOUT).
    pub fn hook_timeout(mut self, timeout: Duration) -> Self {
        self.hooks.timeout = timeout;
        self
    }

    /// Says more to the model before the conversation, behind the [instructions](Self::instructions) and what was given before:
    /// what depends on the run, its state and its principal. Empty text says nothing.
    ///
    /// It is asked before each request, and is not part of the conversation. As long as it says the same, each request begins
    /// with the same: what changes at every step, such as the time, costs a provider's cache. An error, a panic or
    /// no end in [time](Self::hook_timeout) ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Agent, RunInput, tool::{Principal, RunContext}};
    /// use haft_testing::ScriptedModel;
    /// use haft_react::ReactAgent;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let model = ScriptedModel::new().text("Hello, Ada.");
    /// let agent = ReactAgent::builder(model.clone())
    ///     .instructions("Be brief.")
    ///     .dynamic_instructions(|cx| async move {
    ///         let user = cx.run.principal.as_ref().ok_or("nobody is logged in")?;
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
    pub fn dynamic_instructions<F, Fut>(mut self, instructions: F) -> Self
    where
        F: Fn(StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        self.hooks.instructions.push(Arc::new(move |cx| instructions(cx).boxed()));
        self
    }

    /// Changes each request before it is made, besides what was given before: hides or changes tools, what the model must call,
    /// how the reply is made, and what more it is told at this step.
    ///
    /// It is asked before each request, and once when a run is taken up, for the calls that are open then: a call is found among
    /// the tools that it left. An error, a panic or no end in [time](Self::hook_timeout) ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Agent, tool, Toolset};
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
    /// let model = ScriptedModel::new().calls([("a", "find", r#"{"to":"Rome"}"#)]).text("LH 42.");
    /// let agent = ReactAgent::builder(model.clone())
    ///     .tools(Toolset::new().with(Find).with(Book))
    ///     .prepare(|mut request, cx| async move {
    ///         if cx.step == 0 {
    ///             request.hide("book");
    ///         }
    ///         Ok(request)
    ///     })
    ///     .build()?;
    /// agent.run("To Rome!".into()).await?;
    /// let offered: Vec<_> = model.requests().iter().map(|request| request.tools.len()).collect();
    /// assert_eq!(offered, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare<F, Fut>(mut self, prepare: F) -> Self
    where
        F: Fn(StepRequest, StepContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<StepRequest, BoxError>> + Send + 'static,
    {
        self.hooks.prepare.push(Arc::new(move |request, cx| prepare(request, cx).boxed()));
        self
    }
}
