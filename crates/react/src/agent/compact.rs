//! Summaries of what a model is no longer shown.

use haft_core::{
    ChatModel, Message,
    message::{MessageBody, View},
    model::{ChatRequest, ChatResponse, ModelError},
};

use crate::run::summarised;

/// How much of one message is summarised, in bytes: at most, and where there are many.
const PIECE: (usize, usize) = (2_000, 200);

/// How much is summarised at all, in bytes, by a model of which nobody knows how much it reads. What there was too much of
/// for one model must fit where it is summarised.
const RECORD: usize = 100_000;

/// How many bytes of a record stand for a token of the window: text has three and more, and the summary needs room as well.
const BYTES_PER_TOKEN: u64 = 2;

const INSTRUCTIONS: &str = "You are given the record of a conversation between a user and an assistant that uses tools. Summarise it \
     for the assistant, who goes on with the work and sees nothing else of it: what is asked, what was found (names, numbers, ids and \
     paths as they are), what was decided, and what is still to do. Write only the summary.";

/// Asks a model for a summary.
pub(super) async fn summarise(model: &dyn ChatModel, part: &View) -> Result<ChatResponse, ModelError> {
    let window = model.profile().context_window;
    let size = window.and_then(|tokens| usize::try_from(tokens.saturating_mul(BYTES_PER_TOKEN)).ok());
    let mut request = ChatRequest::new([Message::user(record(part, size.unwrap_or(RECORD)))]);
    request.instructions = Some(Message::system(INSTRUCTIONS).into());
    model.chat(&request).await
}

/// The conversation as text of about this size. An earlier summary is in it whole, since it ends with what is still to do; where
/// the beginnings of the other messages are too much, those of the oldest are left out.
fn record(part: &View, size: usize) -> String {
    let count: usize = part.iter().map(|message| 1 + message.tool_calls().len()).sum();
    let (most, least) = PIECE;
    let piece = (size / count.max(1)).clamp(least, most);
    let (summaries, others): (Vec<_>, Vec<_>) =
        part.iter().partition(|message| summarised(message).is_some());
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
