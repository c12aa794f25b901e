//! The part of a prompt that other conversations repeat: instructions and tools.

use haft_core::{Message, message::MessageBody, model::ChatRequest};

use super::encode_prompt;
use crate::engine::Engine;
use crate::profile::PromptProfile;

/// Encodes the prompt of a new conversation with the instructions and tools of `request`, and with
/// another question. The prefix that it has in common with the prompt of `request` repeats in every
/// conversation with these instructions and tools. It contains no text of the user.
///
/// Returns `None` if there is no such prompt, for example because the chat template rejects it.
pub(crate) fn encode_with_other_question(
    engine: &Engine,
    profile: &PromptProfile,
    request: &ChatRequest,
) -> Option<Vec<u32>> {
    let first = request.messages.iter().find(|message| !is_instruction(message))?.text();
    // A question with another first letter has another first token.
    let other = if first.trim_start().starts_with('a') { "b" } else { "a" };
    encode_prompt(engine, profile, &with_question(request, other)).ok()
}

/// Returns a request with the instructions and tools of `request`, and with `question` as its only
/// other message.
pub(crate) fn with_question(request: &ChatRequest, question: &str) -> ChatRequest {
    let instructions = request.messages.iter().take_while(|message| is_instruction(message));
    let messages = instructions.map(|message| message.as_ref().clone()).chain([Message::user(question)]);
    ChatRequest { messages: messages.collect(), ..request.clone() }
}

fn is_instruction(message: &Message) -> bool {
    matches!(message.body(), MessageBody::System { .. })
}
