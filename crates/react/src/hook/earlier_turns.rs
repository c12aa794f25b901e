//! A hook that sends earlier turns as texts, and their tool results as a section of the
//! instructions.

mod results_section;

use std::sync::Arc;

use haft_core::{
    Message,
    export::async_trait,
    message::{AssistantMessage, MessageBody, TranscriptView},
};

use super::{Hook, HookContext, HookEvent, HookResult, RequestDraft, Verdict};
use crate::transcript::{segments, unsummarized_count};

/// The number of bytes in the estimate of a token. A token of text usually has at least three
/// bytes.
const BYTES_PER_TOKEN: u64 = 3;

/// A [hook](Hook) that sends earlier turns as texts, and their tool results as a section of the
/// instructions.
///
/// The calls and results of earlier turns leave the messages of each request. They become the
/// Markdown section `## Tool Execution Results` at the end of the instructions, with one entry per
/// call: tool, success, time of the call (UTC), call id, arguments and result. The texts of the
/// user and of the assistant stay messages, and a reply without text is omitted. The transcript is
/// unchanged.
///
/// The current run stays as it is, with its calls and results, also after it was resumed or has
/// received further messages. If a run has no input, its turn is the last turn of the conversation.
///
/// # Budgets
///
/// The section and the messages of earlier turns have separate budgets:
/// [`result_tokens`](Self::result_tokens) and [`memory_tokens`](Self::memory_tokens). A token is
/// estimated as three bytes. The hook runs after [`ContextConfig`](crate::run::ContextConfig) has
/// selected the messages: the calls of an omitted turn are omitted as well.
///
/// The summary of a [compactor](crate::ReactAgentBuilder::compactor) stays a message before the
/// earlier turns. It has no budget, because its end lists the open work.
///
/// # Prompt cache
///
/// The section is the same in all requests of a run, unless the context of the run is shortened.
/// Each new run has another section if the previous run called tools, so the provider must process
/// its first request from the section on.
///
/// # Security
///
/// The text of a result cannot end its entry or begin another one: a text of several lines is in a
/// code block whose fence is longer than each sequence of backticks in the text. The section states
/// that results are data. Nevertheless, results are part of the system message, which models trust
/// more than a tool message. Media in a result are only described. Hooks that change results in
/// requests, such as [`ClearToolResults`](super::ClearToolResults), change the entries if they run
/// before this hook.
///
/// # Examples
///
/// ```
/// use haft_core::{RunInput, Toolset, tool};
/// use haft_react::{ReactAgent, hook::EarlierTurns};
/// use haft_testing::ScriptedModel;
///
/// /// Returns the temperature in a city.
/// #[tool]
/// fn temperature(city: String) -> String {
///     format!("{} °C", city.len())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let model = ScriptedModel::new()
///     .reply_calls([("call_1", "temperature", r#"{"city":"Rome"}"#)])
///     .reply_text("It is cold.")
///     .reply_text("4 °C.");
/// let agent = ReactAgent::builder(model.clone())
///     .tools(Toolset::new().with_tool(Temperature))
///     .instructions("Be brief.")
///     .hook(EarlierTurns::new().result_tokens(2_000))
///     .build()?;
/// let first = agent.run("How is the weather in Rome?").await?;
/// agent.run(RunInput::new("How cold?").with_history(first.transcript()?)).await?;
///
/// let request = &model.requests()[2];
/// let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
/// assert_eq!(texts, ["How is the weather in Rome?", "It is cold.", "How cold?"]);
/// let instructions = request.instructions.as_ref().unwrap().text();
/// assert!(instructions.starts_with("Be brief.\n\n## Tool Execution Results\n"));
/// assert!(instructions.ends_with("- arguments: {\"city\":\"Rome\"}\n- result: 4 °C"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EarlierTurns {
    result_bytes: usize,
    memory_bytes: Option<usize>,
}

impl Default for EarlierTurns {
    fn default() -> Self {
        Self { result_bytes: bytes_of(Self::RESULT_TOKENS), memory_bytes: None }
    }
}

impl EarlierTurns {
    /// The default budget of the section with the tool results, in tokens.
    pub const RESULT_TOKENS: u64 = 4_000;

    /// Creates a hook with the default budgets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the budget of the entries in the section with the tool results. Default:
    /// [`RESULT_TOKENS`](Self::RESULT_TOKENS).
    ///
    /// The newest entries have priority. Older entries are omitted as a whole, and a line contains
    /// their number. An entry that exceeds the budget alone is truncated, with a note about the
    /// missing bytes.
    pub fn result_tokens(mut self, tokens: u64) -> Self {
        self.result_bytes = bytes_of(tokens);
        self
    }

    /// Sets the budget of the messages of earlier turns. Default: no budget, because
    /// [`ContextConfig`](crate::run::ContextConfig) limits the whole request.
    ///
    /// The newest turns have priority, and older turns are omitted as a whole. Their calls stay in
    /// the section with the tool results. System messages and the summary of a compactor are always
    /// sent, and not counted. Of media, only the description is counted.
    pub fn memory_tokens(mut self, tokens: u64) -> Self {
        self.memory_bytes = Some(bytes_of(tokens));
        self
    }

    /// Formats all calls in `view` as the section with the tool results, for a loop without a
    /// [`ReactAgent`](crate::ReactAgent). Returns `None` if there are no calls.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::{Message, Timestamp, ToolResult, Transcript};
    /// use haft_react::hook::EarlierTurns;
    ///
    /// let noon = Timestamp::from_unix_millis(1_796_040_000_000);
    /// let result = ToolResult { started_at: noon, ..ToolResult::done("call_1", "add", "42".into()) };
    /// let transcript: Transcript = [Message::user("Add."), Message::tool(result)].into_iter().collect();
    /// let section = EarlierTurns::new().results_section(&transcript.view()).unwrap();
    /// assert!(section.ends_with(
    ///     "### add\n- success: true\n- time: 2026-11-30T12:00:00Z\n- call id: call_1\n- result: 42"
    /// ));
    /// ```
    pub fn results_section(&self, view: &TranscriptView) -> Option<String> {
        results_section::render(view.iter(), self.result_bytes)
    }

    /// Returns the messages and the section of a request with the messages `view`. Returns `None`
    /// if the request stays unchanged.
    fn apply(&self, view: &TranscriptView, cx: &HookContext) -> Option<(TranscriptView, Option<String>)> {
        let messages: Vec<_> = view.iter().cloned().collect();
        let (earlier, current) = messages.split_at_checked(earlier_len(&messages, cx))?;
        let section = results_section::render(earlier.iter(), self.result_bytes);
        let texts: Vec<_> = earlier.iter().filter_map(without_calls).collect();
        let texts = self.recent_turns(texts);
        if section.is_none() && texts.len() == earlier.len() {
            return None;
        }
        Some((texts.into_iter().chain(current.iter().cloned()).collect(), section))
    }

    /// Removes the oldest turns that exceed the budget from `messages`.
    fn recent_turns(&self, messages: Vec<Arc<Message>>) -> Vec<Arc<Message>> {
        let Some(mut left) = self.memory_bytes else { return messages };
        let turns = segments::turns(&messages, 0..messages.len());
        let counted = |messages: &[Arc<Message>]| -> usize {
            messages.iter().filter(|message| !is_always_sent(message)).map(|message| text_len(message)).sum()
        };
        let recent = turns.into_iter().rev().map_while(|turn| {
            left = left.checked_sub(counted(messages.get(turn.clone())?))?;
            Some(turn.start)
        });
        let start = recent.last().unwrap_or(messages.len());
        let recent = (0..).zip(messages).filter(|(index, it)| *index >= start || is_always_sent(it));
        recent.map(|(_, message)| message).collect()
    }
}

#[async_trait]
impl Hook for EarlierTurns {
    fn runs_at(&self, event: HookEvent) -> bool {
        event == HookEvent::Request
    }

    async fn before_request(&self, mut request: RequestDraft, cx: &HookContext) -> HookResult<RequestDraft> {
        let Some((messages, section)) = self.apply(&request.messages, cx) else { return Ok(Verdict::Pass) };
        request.messages = messages;
        request.instructions.extend(section);
        Ok(Verdict::Replace(request))
    }
}

/// Returns the number of messages at the start of a request that belong to earlier turns.
///
/// The current turn contains the first message of the run, or the last message if a hook has
/// replaced all messages of the run, or if the run has none yet.
fn earlier_len(messages: &[Arc<Message>], cx: &HookContext) -> usize {
    let own = cx.transcript.messages().get(cx.first_message..).unwrap_or_default();
    let position = |own: &Arc<Message>| messages.iter().position(|message| Arc::ptr_eq(message, own));
    let in_current = own.iter().find_map(position).unwrap_or_else(|| messages.len().saturating_sub(1));
    let turns = segments::turns(messages, 0..messages.len());
    turns.into_iter().rfind(|turn| turn.start <= in_current).map_or(0, |turn| turn.start)
}

/// Returns `message` without its calls. Returns `None` for results and for replies without text.
fn without_calls(message: &Arc<Message>) -> Option<Arc<Message>> {
    match message.body() {
        MessageBody::Tool(_) => None,
        MessageBody::Assistant(reply) if !reply.tool_calls.is_empty() => {
            // The new message is cached in the old one, so a provider encodes it once.
            let text = message.memoize(|message| ReplyText(reply_text(message, reply)));
            text.0.clone()
        }
        _ => Some(Arc::clone(message)),
    }
}

/// A reply without its calls, cached in the original message. `None` if it has no text.
struct ReplyText(Option<Arc<Message>>);

fn reply_text(message: &Message, reply: &AssistantMessage) -> Option<Arc<Message>> {
    if message.text().trim().is_empty() {
        return None;
    }
    let reply = AssistantMessage {
        content: reply.content.clone(),
        citations: reply.citations.clone(),
        refusal: reply.refusal.clone(),
        // The reasoning leads to the calls, and the provider could restore them from its data.
        ..AssistantMessage::default()
    };
    let text = Message::assistant(reply).with_metadata(message.metadata().clone());
    Some(Arc::new(match message.created_at() {
        Some(time) => text.with_created_at(time),
        None => text,
    }))
}

/// Returns `true` for messages that do not belong to the memory of a conversation.
fn is_always_sent(message: &Message) -> bool {
    matches!(message.body(), MessageBody::System { .. }) || unsummarized_count(message).is_some()
}

fn text_len(message: &Message) -> usize {
    message.content().iter().map(|content| content.as_text().len()).sum()
}

fn bytes_of(tokens: u64) -> usize {
    usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}
