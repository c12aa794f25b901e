//! How the model is asked: a conversation with tools as a conversation in plain words.
//!
//! Small models do not follow the tool format that their template writes, and constraining them to it makes them
//! call for ever. What they follow is an example. So a conversation with tools begins with a short one that shows
//! the whole way: a question, the tools that it needs, the calls, their results, and the answer when nothing more
//! is needed. The form is a line `Needed: ` with names or `nothing`, and then the calls or the answer. It is fixed
//! for all conversations, so that the cache keeps it. The figures are in ADR 4.

mod demonstration;
mod signature;

use haft_core::{ChatRequest, Message, MessageBody, Tool, ToolCall};

use self::signature::signature;
use crate::template::{Role, Turn};

/// Introduces the names of the tools that the next step needs.
pub(crate) const NEEDED: &str = "Needed: ";
/// Stands for their names when the answer is known.
pub(crate) const NOTHING: &str = "nothing";
/// Introduces the answer.
pub(crate) const ANSWER: &str = "Answer: ";

const SYSTEM: &str = "You answer questions, with the help of tools where they are needed.";

/// The turns of a conversation in which tools are, or were, on offer.
pub(crate) fn with_tools(request: &ChatRequest) -> Vec<Turn> {
    let mut turns = demonstration::turns();
    let mut speech = Speech { tools: Some(tools_text(request)), parts: Vec::new() };
    for message in request.all_messages() {
        match message.body() {
            MessageBody::System { .. } => speech.parts.push(format!("Instructions: {}", message.text())),
            MessageBody::User { .. } => speech.parts.push(format!("Question: {}", message.text())),
            MessageBody::Tool(result) => {
                speech.parts.push(format!("Result of {}: {}", result.name, result.model_text()));
            }
            MessageBody::Assistant(said) => {
                turns.extend(speech.turn());
                let content = match said.tool_calls.as_slice() {
                    [] => answer(&said.text()),
                    calls => calls_text(calls),
                };
                turns.push(Turn { role: Role::Assistant, content });
            }
        }
    }
    turns.extend(speech.turn());
    turns
}

/// The turns of a conversation without tools, as the template has them.
pub(crate) fn without_tools(request: &ChatRequest) -> Vec<Turn> {
    let system: Vec<_> = leading_instructions(request).map(Message::text).collect();
    let rest = request.all_messages().skip(system.len()).map(|message| {
        let role = match message.body() {
            MessageBody::Assistant(_) => Role::Assistant,
            MessageBody::System { .. } | MessageBody::User { .. } | MessageBody::Tool(_) => Role::User,
        };
        Turn { role, content: message.text() }
    });
    let system = (!system.is_empty()).then(|| Turn { role: Role::System, content: system.join("\n\n") });
    joined(system.into_iter().chain(rest))
}

/// Whether tools play a part in a conversation.
pub(crate) fn mentions_tools(request: &ChatRequest) -> bool {
    let is_traffic = |message: &Message| matches!(message.body(), MessageBody::Tool(_));
    !request.tools.is_empty() || request.all_messages().any(|message| is_traffic(message))
}

fn leading_instructions(request: &ChatRequest) -> impl Iterator<Item = &Message> {
    let messages = request.all_messages().map(AsRef::as_ref);
    messages.take_while(|message| matches!(message.body(), MessageBody::System { .. }))
}

/// Templates want the roles to alternate.
fn joined(turns: impl Iterator<Item = Turn>) -> Vec<Turn> {
    let mut joined: Vec<Turn> = Vec::new();
    for turn in turns {
        match joined.last_mut() {
            Some(last) if last.role == turn.role => {
                last.content.push_str("\n\n");
                last.content.push_str(&turn.content);
            }
            _ => joined.push(turn),
        }
    }
    joined
}

/// What is said to the model between two of its turns.
struct Speech {
    /// The tools, until they have been named once.
    tools: Option<String>,
    parts: Vec<String>,
}

impl Speech {
    fn turn(&mut self) -> Option<Turn> {
        if self.parts.is_empty() {
            return None;
        }
        let tools = self.tools.take().map(|tools| format!("{tools}\n\n")).unwrap_or_default();
        let content = format!("{tools}{}", std::mem::take(&mut self.parts).join("\n"));
        Some(Turn { role: Role::User, content })
    }
}

fn tools_text(request: &ChatRequest) -> String {
    let lines: Vec<_> = request.tools.tools().iter().map(|tool| tool_line(tool.as_ref())).collect();
    match lines.is_empty() {
        true => "Tools: none".to_owned(),
        false => format!("Tools:\n{}", lines.join("\n")),
    }
}

fn tool_line(tool: &dyn Tool) -> String {
    let definition = tool.definition();
    let description: Vec<&str> = definition.description().split_whitespace().collect();
    let signature = signature(definition.input_schema());
    format!("- {}({signature}): {}", definition.name(), description.join(" "))
}

fn answer(text: &str) -> String {
    format!("{NEEDED}{NOTHING}\n{ANSWER}{text}")
}

fn calls_text(calls: &[ToolCall]) -> String {
    let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
    let calls: Vec<_> = calls.iter().map(|call| format!("{}({})", call.name, call.arguments)).collect();
    format!("{NEEDED}{}\n{}", names.join(", "), calls.join("\n"))
}
