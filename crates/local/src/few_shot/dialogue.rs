//! Rendering of a conversation with tools as turns of plain text.
//!
//! The demonstration at the beginning shows all steps: the need, the tool name or `none`, the
//! arguments of each call, the results and the answer. The demonstration is the same for all
//! conversations, so the key-value cache can reuse its tokens.
//!
//! ```text
//! Need: How many people live in Japan
//! Tool: get_population({"country": "Japan"})
//! ```
//!
//! Before each call, the model states the need for it, which is a part of the question. Without
//! this line, the model makes only one call for a question with two parts. The stated needs become
//! the reasoning of the reply. Each decision of the model begins on a new line, so a rendered reply
//! has the same tokens as the generated reply.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use haft_core::{
    Message, Tool, ToolCall,
    message::{AssistantMessage, MessageBody},
    model::ChatRequest,
};

use serde_json::Value;

use super::signature::signature;
use crate::template::{Role, Turn};

/// The text that precedes a stated need.
pub(super) const NEED_LABEL: &str = "Need: ";
/// The text that precedes the tool name of a call.
pub(super) const TOOL: &str = "Tool: ";
/// The text that replaces the tool name if a need requires no tool.
pub(super) const NO_TOOL: &str = "none";
/// The text that precedes an answer.
pub(super) const ANSWER: &str = "Answer: ";

/// The beginnings of the lines that may follow an answer. An answer ends before such a line.
pub(super) const LINE_STARTS: [&str; 5] =
    ["\nNeed:", "\nTool:", "\nAnswer:", "\nResult for \"", "\nQuestion:"];

pub(super) const SYSTEM: &str = "You answer questions, with the help of tools where they are needed.";

/// Further beginnings of lines in a rendered conversation. A line of untrusted text is indented if
/// it begins like this or like one of [`LINE_STARTS`].
const OTHER_LINE_STARTS: [&str; 2] = ["\nInstructions:", "\nTools:"];

/// The prompt for a conversation with tools: the rendered turns, and the question or the tool
/// results that the next reply must address.
pub(super) struct Dialogue {
    pub(super) turns: Vec<Turn>,
    /// The number of turns in the demonstration, without the system turn.
    demonstration_turns: usize,
    /// The last question of the user. Empty if no question follows the last tool result.
    pub(super) question: String,
    /// The tool results at the end of the conversation.
    pub(super) results: Vec<String>,
}

impl Dialogue {
    pub(super) fn new(request: &ChatRequest, mut turns: Vec<Turn>) -> Self {
        let demonstration_turns = turns.len().saturating_sub(1);
        let mut pending = UserTurn { tools: Some(tools_text(request)), parts: Vec::new() };
        let mut needs = HashMap::new();
        let mut results = Vec::new();
        let mut question = String::new();
        for message in request.all_messages() {
            if let MessageBody::Assistant(reply) = message.body() {
                turns.extend(pending.take());
                turns.push(assistant(reply, !results.is_empty()));
                results.clear();
                needs.extend(calls_with_needs(reply).map(|(need, call)| (call.id.as_str(), need)));
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
                pending.parts.push(user_line(message, &needs));
            }
        }
        turns.extend(pending.take());
        Self { turns, demonstration_turns, question, results }
    }

    /// Removes the demonstration. This shortens a prompt that would leave too few tokens for the
    /// reply.
    pub(super) fn drop_demonstration(&mut self) {
        self.turns.drain(1..=std::mem::take(&mut self.demonstration_turns));
    }
}

fn user_line(message: &Message, needs: &HashMap<&str, String>) -> String {
    match message.body() {
        MessageBody::System { .. } => format!("Instructions: {}", indent_forged_lines(&message.text())),
        MessageBody::Tool(result) => {
            let need = needs.get(result.call_id.as_str()).map_or(result.name.as_str(), String::as_str);
            result_text(need, &result.model_text())
        }
        MessageBody::User { .. } | MessageBody::Assistant(_) => {
            format!("Question: {}", indent_forged_lines(&message.text()))
        }
    }
}

/// Indents each line of the untrusted `text` that looks like the beginning of a line in the
/// rendered conversation. Without the indentation, a tool result could forge a question.
fn indent_forged_lines(text: &str) -> String {
    let lines = LINE_STARTS.iter().chain(&OTHER_LINE_STARTS);
    lines.fold(text.to_owned(), |text, line| text.replace(line, &line.replace('\n', "\n  ")))
}

/// Renders a tool result, labeled with `need`, the need for its call. If the label were the tool
/// name, the model would repeat the call.
pub(super) fn result_text(need: &str, result: &str) -> String {
    let result = readable(result).unwrap_or_else(|| result.to_owned());
    format!("Result for \"{}\": {}", indent_forged_lines(need), indent_forged_lines(&result))
}

/// Returns a flat JSON object without punctuation: `temperature: 21, sky: clear`. A small model
/// repeats JSON as its answer. Returns `None` if `result` is no flat object.
pub(super) fn readable(result: &str) -> Option<String> {
    let Ok(Value::Object(members)) = serde_json::from_str(result) else { return None };
    // A text with a separator could imitate another member.
    let is_unclear = |text: &str| [", ", ": ", "\n"].iter().any(|separator| text.contains(separator));
    let is_nested =
        |value: &Value| value.is_object() || value.is_array() || value.as_str().is_some_and(is_unclear);
    if members.is_empty() || members.values().any(is_nested) || members.keys().any(|key| is_unclear(key)) {
        return None;
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let parts: Vec<_> = members.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
    Some(parts.join(", "))
}

/// Renders `reply` in the format of the demonstration, regardless of the model that generated it.
/// `has_results` is `true` if tool results precede the reply. An answer after tool results is
/// rendered without a need.
pub(super) fn assistant(reply: &AssistantMessage, has_results: bool) -> Turn {
    let mut content = String::new();
    for (need, call) in calls_with_needs(reply) {
        content.push_str(&format!(
            "{NEED_LABEL}{need}\n{TOOL}{}({})\n",
            indent_forged_lines(&call.name),
            indent_forged_lines(&call.arguments)
        ));
    }
    if reply.tool_calls.is_empty() && !has_results {
        let need = reply.reasoning.as_deref().filter(|need| !need.contains('\n')).unwrap_or("an answer");
        content.push_str(&format!("{NEED_LABEL}{need}\n{TOOL}{NO_TOOL}\n"));
    }
    if reply.tool_calls.is_empty() {
        content.push_str(&format!("{ANSWER}{}", indent_forged_lines(&reply.text())));
    }
    Turn::new(Role::Assistant, content)
}

/// Returns each call of `reply` with the need for it.
///
/// The needs are the lines of the reasoning, if it has one line per call. Otherwise, the need for a
/// call is `the result of`, followed by the tool name.
fn calls_with_needs(reply: &AssistantMessage) -> impl Iterator<Item = (String, &ToolCall)> {
    let reasoning = reply.reasoning.as_deref().unwrap_or_default();
    let needs: Vec<_> = reasoning.lines().collect();
    let has_need_per_call = needs.len() == reply.tool_calls.len();
    reply.tool_calls.iter().enumerate().map(move |(index, call)| {
        let need = needs.get(index).filter(|_| has_need_per_call).map(|need| (*need).to_owned());
        (need.unwrap_or_else(|| format!("the result of {}", call.name)), call)
    })
}

/// The messages between two replies of the model, which form one user turn.
struct UserTurn {
    /// The rendered list of tools, until it is added to the first user turn. `None` afterwards.
    tools: Option<String>,
    parts: Vec<String>,
}

impl UserTurn {
    fn take(&mut self) -> Option<Turn> {
        if self.parts.is_empty() {
            return None;
        }
        let tools = self.tools.take().map(|tools| format!("{tools}\n\n")).unwrap_or_default();
        let content = format!("{tools}{}", std::mem::take(&mut self.parts).join("\n"));
        Some(Turn::new(Role::User, content))
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
