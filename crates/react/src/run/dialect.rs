//! The dialect of a run: its requests and replies, and the move to another dialect.

use haft_core::{
    Schema,
    agent::AgentErrorKind,
    model::{ChatResponse, ModelError},
};

use super::{Run, Step, request::last_model_error, state::SentRequest};
use crate::{
    Dialect,
    dialect::{HeldTextParser, Reply, StreamParser},
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
        let reply = self.parse_in_dialect(response, step, self.outputs())?;
        match self.head.state.sent_request() {
            Some(request) => self.read_written_calls(reply, request, step),
            None => Ok(reply),
        }
    }

    /// Parses `response` in the dialect of `step` alone.
    pub(super) fn parse_in_dialect(
        &self,
        response: ChatResponse,
        step: &Step<'_>,
        outputs: Option<&Schema>,
    ) -> Result<Reply, AgentErrorKind> {
        let dialect = self.try_dialect(step)?;
        catch_dialect_panic("Dialect::parse_reply", || dialect.parse_reply(response, outputs))
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
    pub fn stream_parser<'a>(
        &'a self,
        step: &Step<'a>,
    ) -> Result<Box<dyn StreamParser + 'a>, AgentErrorKind> {
        let dialect = self.try_dialect(step)?;
        let parser = catch_dialect_panic("Dialect::stream_parser", || dialect.stream_parser(self.outputs()))?;
        let names = match self.head.state.sent_request() {
            Some(request) => self.callable_names(request, step)?,
            None => None,
        };
        Ok(match names {
            Some(names) => Box::new(HeldTextParser::new(parser, names)),
            None => parser,
        })
    }

    /// Moves the run to the fallback of its dialect if it has one, and if `error` means that the
    /// server rejects tools. Returns `true` if the request must be repeated.
    pub(super) fn moves_after_error(&mut self, error: &ModelError) -> bool {
        let has_fallback = self.head.state.sent_request().is_some_and(|request| request.has_fallback);
        if !has_fallback || !rejects_tools(error) {
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

/// The ways in which servers state that a feature is not supported.
const UNSUPPORTED: [&str; 8] = [
    "not support",
    "n't support",
    "unsupported",
    // llama.cpp
    "requires --jinja",
    // vLLM
    "--enable-auto-tool-choice",
    // OpenRouter: "No endpoints found that support tool use"
    "no endpoints found",
    "not enabled",
    "not available",
];

/// Parameters whose names contain `tool`. A server that rejects one of them can support tools.
const TOOL_PARAMETERS: [&str; 2] = ["parallel_tool_calls", "tool_choice"];

/// Returns `true` if `error` means that the model or its server does not support tools.
fn rejects_tools(error: &ModelError) -> bool {
    let text = match last_model_error(error) {
        ModelError::Unsupported(text) => text,
        ModelError::Rejected { body, .. } | ModelError::Server { body, .. } => body,
        _ => return false,
    };
    let text = TOOL_PARAMETERS.iter().fold(text.to_ascii_lowercase(), |text, name| text.replace(name, ""));
    let has_any = |words: &[&str]| words.iter().any(|words| text.contains(words));
    has_any(&["tool", "function call"]) && has_any(&UNSUPPORTED)
}
