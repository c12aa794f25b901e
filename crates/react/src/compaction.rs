//! Compaction: a model summarizes the oldest messages of a conversation.

use std::ops::RangeInclusive;

use haft_core::{
    ChatModel, Message,
    message::{MessageBody, TranscriptView},
    model::{ChatRequest, ChatResponse, ModelError},
    text::truncate_with_ellipsis,
};

use crate::transcript::unsummarized_count;

/// The minimum and the maximum of the length limit for one text in a [`record`], in bytes. Between
/// these bounds, the limit is the target size of the record divided by the number of its messages
/// and calls.
const MESSAGE_BYTES: RangeInclusive<usize> = 200..=2_000;

/// The target size of a [`record`] in bytes if the context window of the model is unknown.
const DEFAULT_RECORD_BYTES: usize = 100_000;

/// The number of bytes in a [`record`] per token of the model's context window. A token of text
/// usually has at least three bytes, so about a third of the window is left for the summary.
const BYTES_PER_TOKEN: u64 = 2;

const INSTRUCTIONS: &str = "You are given the record of a conversation between a user and an assistant that uses tools. Summarise it \
     for the assistant, who goes on with the work and sees nothing else of it: what is asked, what was found (names, numbers, ids and \
     paths as they are), what was decided, and what is still to do. Write only the summary.";

/// Sends a request to `model` for a summary of the messages in `part`. To perform an
/// [`Effect::Compact`](crate::Effect::Compact), pass the messages of the effect as `part`.
///
/// The request contains the messages as text. Long texts are truncated, and the oldest messages are
/// omitted if necessary, so that the request fits in the context window of `model`.
///
/// # Errors
///
/// Fails with the error of `model`, and with [`ModelError::Panicked`] if its code panics.
pub(crate) async fn summarize(
    model: &dyn ChatModel,
    part: &TranscriptView,
) -> Result<ChatResponse, ModelError> {
    let chat = async {
        let window = model.profile().context_window;
        let size = window.and_then(|tokens| usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).ok());
        let record = record(part, size.unwrap_or(DEFAULT_RECORD_BYTES));
        let mut request = ChatRequest::new([Message::user(record)]);
        request.instructions = Some(Message::system(INSTRUCTIONS).into());
        model.chat(&request).await
    };
    ModelError::catch_panic(chat).await
}

/// Formats the messages in `part` as a record: text of about `size` bytes that the model
/// summarizes. An earlier summary is never truncated, since its end lists the open work. Other
/// messages are truncated, and the oldest messages are omitted if necessary.
fn record(part: &TranscriptView, size: usize) -> String {
    let count: usize = part.iter().map(|message| 1 + message.tool_calls().len()).sum();
    let (min, max) = MESSAGE_BYTES.into_inner();
    let max_len = (size / count.max(1)).clamp(min, max);
    let (summaries, others): (Vec<_>, Vec<_>) =
        part.iter().partition(|message| unsummarized_count(message).is_some());
    let summary: String = summaries.iter().map(|message| format!("user: {}\n", message.text())).collect();
    let mut left = size.saturating_sub(summary.len());
    let latest = others.iter().rev().map(|message| lines(message, max_len));
    let mut latest: Vec<_> = latest
        .map_while(|lines| {
            left = left.checked_sub(lines.len())?;
            Some(lines)
        })
        .collect();
    latest.reverse();
    summary + &latest.concat()
}

/// Formats `message` and its calls as lines such as `user: …` and `assistant calls search: …`, one
/// per text or call. Texts and arguments are truncated to `max_len` bytes.
fn lines(message: &Message, max_len: usize) -> String {
    let (role, text) = match message.body() {
        MessageBody::System { .. } => ("instructions", message.text()),
        MessageBody::User { .. } => ("user", message.text()),
        MessageBody::Assistant(_) => ("assistant", message.text()),
        MessageBody::Tool(result) => {
            return format!(
                "result of {}: {}\n",
                result.name,
                truncate_with_ellipsis(&result.model_text(), max_len)
            );
        }
    };
    let mut lines = if text.is_empty() {
        String::new()
    } else {
        format!("{role}: {}\n", truncate_with_ellipsis(&text, max_len))
    };
    for call in message.tool_calls() {
        lines +=
            &format!("assistant calls {}: {}\n", call.name, truncate_with_ellipsis(&call.arguments, max_len));
    }
    lines
}
