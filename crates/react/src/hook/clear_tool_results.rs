//! A hook that clears the text of old tool results in requests.

use std::{collections::BTreeSet, sync::Arc};

use haft_core::{
    Message, ToolOutput, ToolResult,
    call::{Failure, Outcome},
    export::async_trait,
    message::{MessageBody, TranscriptView},
};

use super::{Hook, HookContext, HookEvent, HookResult, RequestDraft, Verdict};

/// A [hook](Hook) that clears the text of old tool results in requests.
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
/// use haft_react::{ReactAgent, hook::ClearToolResults};
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
///     .hook(ClearToolResults::keep_last(1))
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

#[async_trait]
impl Hook for ClearToolResults {
    fn runs_at(&self, event: HookEvent) -> bool {
        event == HookEvent::Request
    }

    async fn before_request(&self, mut request: RequestDraft, _: &HookContext) -> HookResult<RequestDraft> {
        request.messages = self.clear(request.messages);
        Ok(Verdict::Replace(request))
    }
}
