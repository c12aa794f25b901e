//! The dialect of a run: its requests and replies, and the move to another dialect.

use haft_core::{
    agent::AgentErrorKind,
    model::{ChatResponse, ModelError, ToolChoice},
};

use super::{Run, Step, state::SentRequest};
use crate::{
    Dialect,
    dialect::{self, Reply, ReplyContext, StreamParser},
    host_panic::catch_dialect_panic,
};

impl Run {
    /// Returns the dialect of the next request: the dialect of `step`, or its
    /// [fallback](Dialect::fallback) if the run [uses](Self::uses_fallback_dialect) it.
    pub fn dialect<'s>(&self, step: &Step<'s>) -> &'s dyn Dialect {
        let fallback = step.dialect.fallback().filter(|_| self.head.uses_fallback_dialect);
        fallback.unwrap_or(step.dialect)
    }

    /// Returns `true` if the run has moved from its dialect to the [fallback](Dialect::fallback) of
    /// this dialect, because the server did not return native calls.
    /// [`reconfigure`](Self::reconfigure) undoes the move.
    pub fn uses_fallback_dialect(&self) -> bool {
        self.head.uses_fallback_dialect
    }

    /// Parses `response`, the reply to the request in flight, in the [dialect](Self::dialect) of
    /// the run. `step` contains the inputs of the request. Calls in the text are converted to tool
    /// calls if the dialect [reads](Dialect::reads_written_calls) them.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if the dialect panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Timestamp, Toolset, model::ChatResponse, tool, toolset::ListContext};
    /// use haft_react::{Effect, NativeCalls, Run, RunConfig, Step};
    ///
    /// /// Adds two numbers.
    /// #[tool]
    /// fn add(x: i64, y: i64) -> i64 {
    ///     x + y
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let tools = Toolset::new().with_tool(Add).list(&ListContext::default()).await;
    /// let step = Step::new(&tools, &NativeCalls, Timestamp::default());
    /// let mut run = Run::new(&RunConfig::default(), "What is 17 plus 25?".into())?;
    /// assert!(matches!(run.next(&step)?, Effect::Prepare));
    /// assert!(matches!(run.next(&step)?, Effect::Chat(_)));
    ///
    /// let response = ChatResponse::new("<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 17, \"y\": 25}}</tool_call>");
    /// let reply = run.parse_reply(response, &step)?;
    /// assert_eq!(reply.message.tool_calls[0].name, "add");
    /// assert!(reply.has_written_calls);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse_reply(&self, response: ChatResponse, step: &Step<'_>) -> Result<Reply, AgentErrorKind> {
        let dialect = self.reading_dialect(step)?;
        let context = self.reply_context(self.head.state.sent_request(), step);
        catch_dialect_panic("Dialect::parse_reply", || dialect::read_reply(dialect, response, &context))
    }

    /// Reads the calls in the text that the model generated and its server could not use
    /// ([`ModelError::InvalidGeneration`]), the reply to the request in flight. `step` contains the
    /// inputs of the request. Returns `error` unchanged if the text does not consist of calls of
    /// offered tools, or if the dialect does not read written calls. A driver reports the result
    /// with [`on_chat`](Self::on_chat).
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if the dialect panics.
    pub fn read_failed_generation(
        &self,
        error: ModelError,
        step: &Step<'_>,
    ) -> Result<Result<Reply, ModelError>, AgentErrorKind> {
        if !matches!(error, ModelError::InvalidGeneration { .. }) {
            return Ok(Err(error));
        }
        let dialect = self.reading_dialect(step)?;
        let context = self.reply_context(self.head.state.sent_request(), step);
        catch_dialect_panic("Dialect::parse_reply", || {
            dialect::read_failed_generation(dialect, error, &context)
        })
    }

    /// Takes the calls in the text of `reply`, the reply to `request`.
    pub(super) fn read_written_calls(
        &self,
        reply: Reply,
        request: &SentRequest,
        step: &Step<'_>,
    ) -> Result<Reply, AgentErrorKind> {
        let dialect = self.reading_dialect(step)?;
        let context = self.reply_context(Some(request), step);
        catch_dialect_panic("Dialect::parse_reply", || dialect::read_written_calls(dialect, reply, &context))
    }

    /// Returns what the reply to `request` can contain. Without a request in flight, calls in the
    /// text of the reply are not taken.
    fn reply_context<'a>(&'a self, request: Option<&SentRequest>, step: &Step<'a>) -> ReplyContext<'a> {
        let output_property = self.head.config.output_property.as_deref();
        let Some(request) = request else {
            return ReplyContext { outputs: self.outputs(), output_property, ..ReplyContext::default() };
        };
        let is_final = request.purpose.must_answer() || request.tool_choice == ToolChoice::None;
        ReplyContext {
            tools: Some(step.tools).filter(|_| !is_final),
            outputs: self.outputs_in(request),
            output_property,
            may_finish: request.tool_choice != ToolChoice::Required,
        }
    }

    /// Returns the [dialect](Self::dialect) that reads a reply. Calls
    /// [`Dialect::reads_written_calls`], so that the error names this method if it panics.
    fn reading_dialect<'s>(&self, step: &Step<'s>) -> Result<&'s dyn Dialect, AgentErrorKind> {
        let dialect = self.try_dialect(step)?;
        catch_dialect_panic("Dialect::reads_written_calls", || dialect.reads_written_calls())?;
        Ok(dialect)
    }

    /// Returns the [dialect](Self::dialect) of the next request, or an error if its code panics.
    pub(super) fn try_dialect<'s>(&self, step: &Step<'s>) -> Result<&'s dyn Dialect, AgentErrorKind> {
        catch_dialect_panic("Dialect::fallback", || self.dialect(step))
    }

    /// Creates a parser for the streamed reply to the request in flight, in the
    /// [dialect](Self::dialect) of the run. `step` contains the inputs of the request. The start of
    /// a text is held back while it can become a call that [`parse_reply`](Self::parse_reply)
    /// takes.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if the dialect panics.
    pub fn stream_parser(&self, step: &Step<'_>) -> Result<Box<dyn StreamParser>, AgentErrorKind> {
        let dialect = self.reading_dialect(step)?;
        let context = self.reply_context(self.head.state.sent_request(), step);
        catch_dialect_panic("Dialect::stream_parser", || dialect::stream_parser(dialect, &context))
    }

    /// Moves the run to the fallback of its dialect if it has one, and if `error` means that the
    /// server rejects tools. Returns `true` if the request must be repeated.
    pub(super) fn moves_after_error(&mut self, error: &ModelError) -> bool {
        let has_fallback = self.head.state.sent_request().is_some_and(|request| request.has_fallback);
        if !has_fallback || !dialect::rejects_tools(error) {
            return false;
        }
        self.move_to_fallback("the server does not support tools");
        true
    }

    /// Moves the run to the fallback dialect if the dialect of `request` has a fallback.
    pub(super) fn move_after_written_calls(&mut self, request: &SentRequest) {
        if request.has_fallback {
            self.move_to_fallback("the model writes calls as text");
        }
    }

    fn move_to_fallback(&mut self, reason: &'static str) {
        tracing::info!(reason, "the run moves to the fallback of its dialect");
        self.head.uses_fallback_dialect = true;
    }
}
