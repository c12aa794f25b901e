//! Summaries of messages that are no longer sent.

use haft_core::{
    ChatModel, Message,
    message::{MessageBody, View},
    model::{ChatRequest, ChatResponse, ModelError},
};

use crate::run::summarized;

/// Maximum and minimum number of bytes of one message in a record.
const PIECE: (usize, usize) = (2_000, 200);

/// Maximum number of bytes of a record, for a model without a known context window.
const RECORD: usize = 100_000;

/// Bytes of a record for each token of the context window. Text has at least three, and the summary
/// needs room.
const BYTES_PER_TOKEN: u64 = 2;

const INSTRUCTIONS: &str = "You are given the record of a conversation between a user and an assistant that uses tools. Summarise it \
     for the assistant, who goes on with the work and sees nothing else of it: what is asked, what was found (names, numbers, ids and \
     paths as they are), what was decided, and what is still to do. Write only the summary.";

/// Requests a summary.
pub(super) async fn summarize(model: &dyn ChatModel, part: &View) -> Result<ChatResponse, ModelError> {
    let window = model.profile().context_window;
    let size = window.and_then(|tokens| usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).ok());
    let mut request = ChatRequest::new([Message::user(record(part, size.unwrap_or(RECORD)))]);
    request.instructions = Some(Message::system(INSTRUCTIONS).into());
    model.chat(&request).await
}

/// The conversation as text of about `size` bytes. It contains an earlier summary as a whole, since
/// that ends with what is still to do. Other messages are truncated, and the oldest are omitted if
/// necessary.
fn record(part: &View, size: usize) -> String {
    let count: usize = part.iter().map(|message| 1 + message.tool_calls().len()).sum();
    let (most, least) = PIECE;
    let piece = (size / count.max(1)).clamp(least, most);
    let (summaries, others): (Vec<_>, Vec<_>) =
        part.iter().partition(|message| summarized(message).is_some());
    let summary: String = summaries.iter().map(|message| format!("user: {}\n", message.text())).collect();
    let mut left = size.saturating_sub(summary.len());
    let latest = others.iter().rev().map(|message| lines(message, piece));
    let mut latest: Vec<_> = latest
        .map_while(|lines| {
            left = left.checked_sub(lines.len())?;
            Some(lines)
        })
        .collect();
    latest.reverse();
    summary + &latest.concat()
}

fn lines(message: &Message, piece: usize) -> String {
    let (who, text) = match message.body() {
        MessageBody::System { .. } => ("instructions", message.text()),
        MessageBody::User { .. } => ("user", message.text()),
        MessageBody::Assistant(_) => ("assistant", message.text()),
        MessageBody::Tool(result) => {
            return format!("result of {}: {}\n", result.name, start(&result.model_text(), piece));
        }
    };
    let mut lines = if text.is_empty() { String::new() } else { format!("{who}: {}\n", start(&text, piece)) };
    for call in message.tool_calls() {
        lines += &format!("assistant calls {}: {}\n", call.name, start(&call.arguments, piece));
    }
    lines
}

fn start(text: &str, piece: usize) -> String {
    let start = text.get(..text.floor_char_boundary(piece)).unwrap_or_default();
    if start.len() < text.len() { format!("{start}…") } else { start.to_owned() }
}
