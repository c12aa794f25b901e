//! How the model is asked: a conversation with tools as a conversation in plain words.
//!
//! Small models do not follow the tool format that their template writes, and constraining them to it makes them
//! call for ever. What they follow is an example. So a conversation with tools begins with a short one that shows
//! the whole way: what a question needs, the tool for it or `none`, the calls, their results, and the answer. It
//! is the same for all conversations, so that the cache keeps it. The figures are in ADR 4.
//!
//! ```text
//! Need: How many people live in Japan
//! Tool: get_population({"country": "Japan"})
//! ```
//!
//! What is needed is said before the tool is chosen, once for each call: without it a question with two parts gets
//! the call for one. It is kept as the reply's reasoning. Each line ends before the next decision, so that what
//! the model reads is cut into tokens as what it writes.

mod demonstration;
mod signature;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use haft_core::{
    Message, Tool, ToolCall,
    message::{AssistantMessage, MessageBody},
    model::ChatRequest,
};

use self::signature::signature;
use crate::template::{Role, Turn};

/// Introduces what is needed.
pub(crate) const NEED: &str = "Need: ";
/// Introduces the tool for it.
pub(crate) const TOOL: &str = "Tool: ";
/// Stands for a tool where there is none for it.
pub(crate) const NO_TOOL: &str = "none";
/// Introduces the answer.
pub(crate) const ANSWER: &str = "Answer: ";

/// What a reply must not go on with: the lines of this form.
pub(crate) const LINES: [&str; 5] = ["\nNeed:", "\nTool:", "\nAnswer:", "\nResult for \"", "\nQuestion:"];

const SYSTEM: &str = "You answer questions, with the help of tools where they are needed.";

/// What else a line of a conversation begins with.
const OTHER_LINES: [&str; 2] = ["\nInstructions:", "\nTools:"];

/// A conversation in which tools are, or were, on offer.
pub(crate) struct Dialogue {
    pub(crate) turns: Vec<Turn>,
    /// How many turns the demonstration has, behind the first.
    demonstration: usize,
    /// What was asked last, unless there are results for it.
    pub(crate) question: String,
    /// The results that were said last, which may be all that is needed.
    pub(crate) results: Vec<String>,
}

impl Dialogue {
    pub(crate) fn new(request: &ChatRequest) -> Self {
        let mut turns = demonstration::turns();
        let demonstration = turns.len().saturating_sub(1);
        let mut speech = Speech { tools: Some(tools_text(request)), parts: Vec::new() };
        let mut needs = HashMap::new();
        let mut results = Vec::new();
        let mut question = String::new();
        for message in request.all_messages() {
            if let MessageBody::Assistant(said) = message.body() {
                turns.extend(speech.turn());
                turns.push(assistant(said, !results.is_empty()));
                results.clear();
                needs.extend(calls(said).map(|(need, call)| (call.id.as_str(), need)));
            } else {
                match message.body() {
                    MessageBody::Tool(result) => {
                        question.clear();
                        results.push(result.model_text().into_owned());
                    }
                    MessageBody::User { .. } => {
                        question = message.text();
                        results.clear();
                    }
                    _ => results.clear(),
                }
                speech.parts.push(said_to_model(message, &needs));
            }
        }
        turns.extend(speech.turn());
        Self { turns, demonstration, question, results }
    }

    /// Leaves the demonstration out, where the context has no room for it.
    pub(crate) fn drop_demonstration(&mut self) {
        self.turns.drain(1..=std::mem::take(&mut self.demonstration));
    }
}

fn said_to_model(message: &Message, needs: &HashMap<&str, String>) -> String {
    match message.body() {
        MessageBody::System { .. } => format!("Instructions: {}", told(&message.text())),
        MessageBody::Tool(result) => {
            let need = needs.get(result.call_id.as_str()).map_or(result.name.as_str(), String::as_str);
            result_text(need, &result.model_text())
        }
        MessageBody::User { .. } | MessageBody::Assistant(_) => {
            format!("Question: {}", told(&message.text()))
        }
    }
}

/// Text from outside, none of whose lines begins like a line of the conversation: a result cannot ask a question.
fn told(text: &str) -> String {
    let lines = LINES.iter().chain(&OTHER_LINES);
    lines.fold(text.to_owned(), |text, line| text.replace(line, &line.replace('\n', "\n  ")))
}

/// A result under what it was needed for: beside the name of a tool alone, the model adds it up once more.
fn result_text(need: &str, result: &str) -> String {
    format!("Result for \"{}\": {}", told(need), told(result))
}

/// What the model said, as it said it, or as it would have if another model did.
fn assistant(said: &AssistantMessage, has_results: bool) -> Turn {
    let mut content = String::new();
    for (need, call) in calls(said) {
        content.push_str(&format!("{NEED}{need}\n{TOOL}{}({})\n", told(&call.name), told(&call.arguments)));
    }
    if said.tool_calls.is_empty() && !has_results {
        let need = said.reasoning.as_deref().filter(|need| !need.contains('\n')).unwrap_or("an answer");
        content.push_str(&format!("{NEED}{need}\n{TOOL}{NO_TOOL}\n"));
    }
    if said.tool_calls.is_empty() {
        content.push_str(&format!("{ANSWER}{}", told(&said.text())));
    }
    Turn { role: Role::Assistant, content }
}

/// The calls of a message, each with what it was needed for: a line of the reasoning, where this engine wrote it.
fn calls(said: &AssistantMessage) -> impl Iterator<Item = (String, &ToolCall)> {
    let reasoning = said.reasoning.as_deref().unwrap_or_default();
    let needs: Vec<_> = reasoning.lines().collect();
    let ours = needs.len() == said.tool_calls.len();
    said.tool_calls.iter().enumerate().map(move |(index, call)| {
        let need = needs.get(index).filter(|_| ours).map(|need| (*need).to_owned());
        (need.unwrap_or_else(|| format!("the result of {}", call.name)), call)
    })
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
    let signature = signature(definition.input_schema()).replace('\n', " ");
    format!("- {}({signature}): {}", definition.name(), description.join(" "))
}
