//! History processors: changes to the view of the conversation for a request.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    Message, ToolOutput, ToolResult,
    agent::AgentErrorKind,
    call::{BoxError, Failure, Outcome},
    message::{MessageBody, TranscriptView},
};

use super::{Extension, ExtensionSet, StepContext, hook::with_extension_name};
use crate::{host_panic::catch_panic, run::find_unpaired_call};

pub(super) type ProcessFn =
    Arc<dyn Fn(TranscriptView, &StepContext) -> Result<TranscriptView, BoxError> + Send + Sync>;

/// A named history processor.
#[derive(Clone)]
pub(super) struct HistoryProcessor {
    name: Arc<str>,
    process: ProcessFn,
}

/// A history processor that clears the text of old tool results.
///
/// The last results stay complete. In requests, the text of each older result is replaced by a
/// note, so the calls and their order stay visible to the model. The transcript is unchanged. If
/// the full result is in the result store, the note contains its handle, so that the model can read
/// the result again.
///
/// # Prompt cache
///
/// A cleared result changes the prefix of the request, and the provider must process the rest of
/// the request again. [`in_batches_of`](Self::in_batches_of) makes this rare.
///
/// # Examples
///
/// ```
/// use haft_core::{tool, Toolset};
/// use haft_react::{ReactAgent, extension::ClearToolResults};
/// use haft_testing::ScriptedModel;
///
/// /// Reads a page.
/// #[tool]
/// fn read(page: u32) -> String {
///     format!("page {page}: {}", "a long text ".repeat(10))
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new()
///     .reply_calls([("a", "read", r#"{"page":1}"#)])
///     .reply_calls([("b", "read", r#"{"page":2}"#)])
///     .reply_text("Done.");
/// let agent = ReactAgent::builder(model.clone())
///     .tools(Toolset::new().with_tool(Read))
///     .clear_tool_results(ClearToolResults::keep_last(1))
///     .build()?;
/// agent.run("Read both pages.").await?;
/// let last: Vec<_> = model.requests()[2].messages.iter().map(|message| message.text()).collect();
/// assert_eq!(last[2], "[the result was removed to save space]");
/// assert!(last[4].starts_with("page 2: a long text"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClearToolResults {
    keep: usize,
    min_bytes: usize,
    batch: usize,
    except: BTreeSet<String>,
}

impl ClearToolResults {
    /// Clears all tool results except the last `results`. Defaults: results of every tool and of
    /// any size, one by one.
    pub fn keep_last(results: usize) -> Self {
        Self { keep: results, min_bytes: 0, batch: 1, except: BTreeSet::new() }
    }

    /// Clears only results whose text has at least `bytes` bytes. Smaller results still count
    /// towards the results that stay complete. Default: 0.
    pub fn min_bytes(mut self, bytes: usize) -> Self {
        self.min_bytes = bytes;
        self
    }

    /// Clears results only in groups of `results`, so that most requests have the same prefix as
    /// the previous request. 0 has the same effect as 1. Default: 1.
    pub fn in_batches_of(mut self, results: usize) -> Self {
        self.batch = results.max(1);
        self
    }

    /// Never clears results of the tools with these names. They do not count towards the results
    /// that stay complete. Default: none.
    pub fn except<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.except.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Returns `view` with cleared results. Returns `view` unchanged if no result is cleared.
    pub fn clear(&self, view: TranscriptView) -> TranscriptView {
        let counts = |message: &Arc<Message>| match message.body() {
            MessageBody::Tool(result) => !self.except.contains(&result.name),
            _ => false,
        };
        let old = view.iter().filter(|message| counts(message)).count().saturating_sub(self.keep);
        let mut old = old - old % self.batch;
        if old == 0 {
            return view;
        }
        let messages = view.iter().map(|message| {
            if old == 0 || !counts(message) {
                return Arc::clone(message);
            }
            old -= 1;
            self.cleared(message)
        });
        messages.collect()
    }

    fn cleared(&self, message: &Arc<Message>) -> Arc<Message> {
        let MessageBody::Tool(result) = message.body() else { return Arc::clone(message) };
        let note = note(result);
        let bytes = result.model_text().len();
        if bytes < self.min_bytes || bytes <= note.len() {
            return Arc::clone(message);
        }
        // The new message is cached in the old one, so its rendered text is computed once.
        let cleared = message.memoize(|message| {
            let outcome = match &result.outcome {
                Outcome::Done(output) => Outcome::Done(ToolOutput {
                    result_handle: output.result_handle.clone(),
                    ..ToolOutput::from(note)
                }),
                Outcome::Failed(failure) => Outcome::Failed(Failure::new(failure.kind, note)),
            };
            let result = ToolResult { outcome, warnings: Vec::new(), ..ToolResult::clone(result) };
            ClearedMessage(Arc::new(Message::tool(result).with_metadata(message.metadata().clone())))
        });
        Arc::clone(&cleared.0)
    }
}

/// A tool message with a note in place of the result, cached in the original message.
struct ClearedMessage(Arc<Message>);

fn note(result: &ToolResult) -> String {
    let handle = result.output().and_then(|output| output.result_handle.as_ref());
    match handle {
        Some(handle) => format!("[the result was removed to save space; it is stored as {handle:?}]"),
        None => "[the result was removed to save space]".to_owned(),
    }
}

impl Extension {
    /// Adds a history processor: a function that changes the messages of each request. It never
    /// changes the transcript. `name` identifies it in errors.
    ///
    /// The processor receives the view of the conversation: the transcript without the parts that
    /// [`ContextConfig`](crate::run::ContextConfig) omits or that a summary replaces. Processors run
    /// in the order of the [extensions](Extension#order) before each request, and the dialect
    /// formats the messages after them. A processor that returns its view unchanged costs nothing.
    ///
    /// A request must contain each call together with its result. If a processor removes a call
    /// without its result, or a result without its call, removes all messages, fails or panics, the
    /// run ends with [`AgentErrorKind::HookFailed`]. The processor runs on the task of the driver,
    /// so it must not block. Asynchronous work belongs into a [`prepare`](Self::prepare) hook.
    ///
    /// To send the latest turns and steps only, use
    /// [`ContextConfig::latest`](crate::run::ContextConfig::latest). To clear tool results, use
    /// [`clear_tool_results`](Self::clear_tool_results).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Message, RunInput, Transcript};
    /// use haft_react::{Extension, ReactAgent};
    /// use haft_testing::ScriptedModel;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let without_drafts = Extension::new("drafts").history_processor("drafts", |view, _| {
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
        mut self,
        name: impl Into<String>,
        process: impl Fn(TranscriptView, &StepContext) -> Result<TranscriptView, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.history_processors
            .push(HistoryProcessor { name: name.into().into(), process: Arc::new(process) });
        self
    }

    /// Adds a [history processor](Self::history_processor) that clears old tool results.
    pub fn clear_tool_results(self, clear: ClearToolResults) -> Self {
        self.history_processor("clear tool results", move |view, _| Ok(clear.clear(view)))
    }
}

impl ExtensionSet {
    /// Returns `true` if an extension has a history processor. A driver then sets
    /// [`Step::history`](crate::Step::history).
    pub fn has_history_processors(&self) -> bool {
        self.extensions.iter().any(|extension| !extension.history_processors.is_empty())
    }

    /// Runs the [history processors](Extension::history_processor) on `view`.
    ///
    /// # Errors
    ///
    /// Fails with [`AgentErrorKind::HookFailed`] if a processor fails, panics, removes all
    /// messages, or separates a call from its results.
    pub fn process_history(
        &self,
        mut view: TranscriptView,
        cx: &StepContext,
    ) -> Result<TranscriptView, AgentErrorKind> {
        for extension in &self.extensions {
            if extension.history_processors.is_empty() {
                continue;
            }
            let cx = cx.for_extension(&extension.name);
            for processor in &extension.history_processors {
                view = processor.run(view, &cx).map_err(|source| AgentErrorKind::HookFailed {
                    hook: "history processor",
                    source: with_extension_name(&extension.name, source),
                })?;
            }
        }
        Ok(view)
    }
}

impl HistoryProcessor {
    fn run(&self, view: TranscriptView, cx: &StepContext) -> Result<TranscriptView, BoxError> {
        let before = view.clone();
        let after = catch_panic("history processor", || (self.process)(view, cx));
        let after = after.map_err(|_panic| "it panicked".into()).and_then(|after| after);
        let after = after.and_then(|after| match find_problem(&before, &after) {
            Some(problem) => Err(problem.into()),
            None => Ok(after),
        });
        after.map_err(|source| HistoryError { processor: self.name.to_string(), source }.into())
    }
}

/// Returns the reason why `after` cannot be sent. Returns `None` if it is unchanged, or if `before`
/// already has an unpaired call and `after` is not empty.
fn find_problem(before: &TranscriptView, after: &TranscriptView) -> Option<String> {
    let is_same = || before.iter().map(Arc::as_ptr).eq(after.iter().map(Arc::as_ptr));
    if is_same() {
        return None;
    }
    if after.is_empty() {
        return Some("no message is left".to_owned());
    }
    find_unpaired_call(after).filter(|_| find_unpaired_call(before).is_none())
}

/// An error of a history processor, with its name.
#[derive(Debug, thiserror::Error)]
#[error("in the history processor {processor:?}")]
struct HistoryError {
    processor: String,
    source: BoxError,
}
