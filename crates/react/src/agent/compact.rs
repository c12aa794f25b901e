//! Summaries of what a model is no longer shown.

use haft_core::{ChatModel, ChatRequest, ChatResponse, Message, MessageBody, ModelError, View};

/// How much of one message is summarised, in bytes: together they must fit where they did not fit before.
const PIECE: usize = 2_000;

const INSTRUCTIONS: &str = "You are given the record of a conversation between a user and an assistant that uses tools. Summarise it \
     for the assistant, who goes on with the work and sees nothing else of it: what is asked, what was found (names, numbers, ids and \
     paths as they are), what was decided, and what is still to do. Write only the summary.";

/// Asks a model for a summary.
pub(super) async fn summarise(model: &dyn ChatModel, part: &View) -> Result<ChatResponse, ModelError> {
    let record: String = part.iter().map(|message| line(message)).collect();
    let mut request = ChatRequest::new([Message::user(record)]);
    request.instructions = Some(Message::system(INSTRUCTIONS).into());
    model.chat(&request).await
}

fn line(message: &Message) -> String {
    let (who, text) = match message.body() {
        MessageBody::System { .. } => ("instructions", message.text()),
        MessageBody::User { .. } => ("user", message.text()),
        MessageBody::Assistant(_) => ("assistant", message.text()),
        MessageBody::Tool(result) => {
            return format!("result of {}: {}\n", result.name, start(&result.model_text()));
        }
    };
    let mut lines = if text.is_empty() { String::new() } else { format!("{who}: {}\n", start(&text)) };
    for call in message.tool_calls() {
        lines += &format!("assistant calls {}: {}\n", call.name, start(&call.arguments));
    }
    lines
}

fn start(text: &str) -> String {
    let start = text.get(..text.floor_char_boundary(PIECE)).unwrap_or_default();
    if start.len() < text.len() { format!("{start}…") } else { start.to_owned() }
}
