//! Conversations for servers that accept one system message, the first, as the chat templates of
//! Qwen and other open models do.

use std::sync::Arc;

use crate::message::{Message, MessageBody};

/// Splits `messages` for a server that accepts one system message. Returns the texts of the system
/// messages at the start, joined with empty lines, and the other messages. `None` if there are
/// none, or if their texts are empty.
///
/// A later system message is sent as a user message with the text of [`later_system_text`].
///
/// # Examples
///
/// ```
/// use haft_core::{Message, model::{ChatRequest, split_system_messages}};
///
/// let request = ChatRequest {
///     instructions: Some(Message::system("Be brief.").into()),
///     ..ChatRequest::new([Message::system("You are Ada."), Message::user("Hi.")])
/// };
/// let (system, others) = split_system_messages(request.all_messages());
/// assert_eq!((system.as_deref(), others.len()), (Some("Be brief.\n\nYou are Ada."), 1));
/// ```
pub fn split_system_messages<'a>(
    messages: impl IntoIterator<Item = &'a Arc<Message>>,
) -> (Option<String>, Vec<&'a Arc<Message>>) {
    let is_system = |message: &Message| matches!(message.body(), MessageBody::System { .. });
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for message in messages {
        if others.is_empty() && is_system(message) {
            texts.push(message.text());
        } else {
            others.push(message);
        }
    }
    texts.retain(|text| !text.is_empty());
    ((!texts.is_empty()).then(|| texts.join("\n\n")), others)
}

/// Returns the text of a user message that stands for a system message with the text `text`.
pub fn later_system_text(text: &str) -> String {
    format!("System: {text}")
}
