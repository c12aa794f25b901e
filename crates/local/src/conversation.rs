//! Conversion of the messages in a chat request to the turns of a chat template.

use std::collections::HashMap;
use std::fmt::Write as _;

use haft_core::{
    Message, Tool, ToolCall,
    message::{AssistantMessage, MessageBody},
    model::ChatRequest,
};
use serde_json::{Value, json};

use crate::template::{Role, Turn, TurnCall};

/// Returns `true` if `request` has tools or contains tool results.
pub(crate) fn has_tools_or_results(request: &ChatRequest) -> bool {
    let is_traffic = |message: &Message| matches!(message.body(), MessageBody::Tool(_));
    !request.tools.is_empty() || request.all_messages().any(|message| is_traffic(message))
}

/// Converts the messages of `request`, which has no tools and no tool results, to turns.
pub(crate) fn without_tools(request: &ChatRequest) -> Vec<Turn> {
    to_turns(request, |message| match message.body() {
        MessageBody::Assistant(reply) => assistant_turn(reply),
        _ => Turn::new(Role::User, message.text()),
    })
}

/// Converts the messages of `request` to turns for a chat template that supports tools.
pub(crate) fn turns_with_tools(request: &ChatRequest) -> Vec<Turn> {
    let mut ids = CallIds::default();
    to_turns(request, |message| match message.body() {
        MessageBody::Assistant(reply) => {
            let calls = reply.tool_calls.iter().map(|call| turn_call(call, &mut ids)).collect();
            Turn { calls, ..assistant_turn(reply) }
        }
        MessageBody::Tool(result) => {
            let role = Role::Tool { id: ids.get_or_assign(&result.call_id), name: result.name.clone() };
            Turn::new(role, result.model_text())
        }
        _ => Turn::new(Role::User, message.text()),
    })
}

/// Splits each turn with several calls into turns with one call, each followed by its result.
pub(crate) fn split_calls(turns: Vec<Turn>) -> Vec<Turn> {
    let mut split = Vec::new();
    let mut turns = turns.into_iter().peekable();
    while let Some(mut turn) = turns.next() {
        let calls = std::mem::take(&mut turn.calls);
        let mut results = Vec::new();
        while !calls.is_empty()
            && let Some(result) = turns.next_if(|turn| matches!(turn.role, Role::Tool { .. }))
        {
            results.push(result);
        }
        let mut turn = Some(turn);
        for call in calls {
            let is_result = |turn: &Turn| matches!(&turn.role, Role::Tool { id, .. } if *id == call.id);
            let result = results.iter().position(is_result).map(|index| results.remove(index));
            let first = turn.take().unwrap_or_else(|| Turn::new(Role::Assistant, ""));
            split.push(Turn { calls: vec![call], ..first });
            split.extend(result);
        }
        split.extend(turn);
        split.extend(results);
    }
    split
}

/// Converts the messages of `request` to turns for a chat template that does not support tools. The
/// tools, calls and results are rendered as text in Hermes' format.
pub(crate) fn with_tools_as_text(request: &ChatRequest) -> Vec<Turn> {
    let mut turns = to_turns(request, |message| match message.body() {
        MessageBody::Assistant(reply) => Turn { content: reply_with_calls(reply), ..assistant_turn(reply) },
        MessageBody::Tool(result) => {
            let result = escape_tags(&result.model_text());
            Turn::new(Role::User, format!("<tool_response>\n{result}\n</tool_response>"))
        }
        _ => Turn::new(Role::User, escape_tags(&message.text())),
    });
    if !request.tools.is_empty() {
        let tools = tools_text(request);
        match turns.first_mut() {
            Some(first) if first.role == Role::System => {
                first.content = format!("{}\n\n{tools}", first.content);
            }
            _ => turns.insert(0, Turn::new(Role::System, tools)),
        }
    }
    turns
}

/// Merges the system turn into the first user turn, for chat templates without a system role. If
/// the first remaining turn is not a user turn, the system turn becomes a user turn.
pub(crate) fn merge_system_into_user(mut turns: Vec<Turn>) -> Vec<Turn> {
    if turns.first().is_some_and(|first| first.role == Role::System) {
        let system = turns.remove(0);
        match turns.first_mut() {
            Some(first) if first.role == Role::User => {
                first.content = format!("{}\n\n{}", system.content, first.content);
            }
            _ => turns.insert(0, Turn::new(Role::User, system.content)),
        }
    }
    turns
}

/// Returns the tools of `request` as function definitions in the format of Chat Completions, which
/// chat templates expect.
pub(crate) fn tool_definitions(request: &ChatRequest) -> Vec<Value> {
    request.tools.tools().iter().map(|tool| definition(tool.as_ref())).collect()
}

/// Returns the id of the tool call at `index` in the conversation, such as `call00003`. Mistral's
/// template requires exactly nine letters and digits.
pub(crate) fn call_id(index: usize) -> String {
    format!("call{index:05}")
}

/// Returns the number of tool calls in the messages of `request`.
pub(crate) fn call_count(request: &ChatRequest) -> usize {
    let calls = request.all_messages().map(|message| match message.body() {
        MessageBody::Assistant(reply) => reply.tool_calls.len(),
        _ => 0,
    });
    calls.sum()
}

fn definition(tool: &dyn Tool) -> Value {
    let definition = tool.definition();
    let function = json!({
        "name": definition.name(),
        "description": definition.description(),
        "parameters": definition.input_schema().as_value(),
    });
    json!({"type": "function", "function": function})
}

/// Converts the messages of `request` to turns. The leading system messages become one system turn,
/// and `turn` converts each remaining message.
///
/// Adjacent turns of the same role are joined if they have no tool calls, because most templates
/// require alternating roles.
fn to_turns(request: &ChatRequest, turn: impl FnMut(&Message) -> Turn) -> Vec<Turn> {
    let system: Vec<_> = leading_instructions(request).map(Message::text).collect();
    let rest = request.all_messages().skip(system.len()).map(AsRef::as_ref).map(turn);
    let system = (!system.is_empty()).then(|| Turn::new(Role::System, system.join("\n\n")));
    join_turns(system.into_iter().chain(rest))
}

fn leading_instructions(request: &ChatRequest) -> impl Iterator<Item = &Message> {
    let messages = request.all_messages().map(AsRef::as_ref);
    messages.take_while(|message| matches!(message.body(), MessageBody::System { .. }))
}

fn join_turns(turns: impl Iterator<Item = Turn>) -> Vec<Turn> {
    let mut joined: Vec<Turn> = Vec::new();
    for turn in turns {
        match joined.last_mut() {
            Some(last) if last.role == turn.role && last.calls.is_empty() && turn.calls.is_empty() => {
                last.content.push_str("\n\n");
                last.content.push_str(&turn.content);
                last.reasoning.push_str(&turn.reasoning);
            }
            _ => joined.push(turn),
        }
    }
    joined
}

/// A map from the call ids of a conversation to ids such as `call00000`, numbered in the order of
/// first use.
#[derive(Default)]
struct CallIds(HashMap<String, String>);

impl CallIds {
    fn get_or_assign(&mut self, id: &str) -> String {
        let next = call_id(self.0.len());
        self.0.entry(id.to_owned()).or_insert(next).clone()
    }
}

/// Converts `reply` to a turn without calls.
fn assistant_turn(reply: &AssistantMessage) -> Turn {
    let reasoning = reply.reasoning.clone().unwrap_or_default();
    Turn { reasoning, ..Turn::new(Role::Assistant, reply.text()) }
}

fn turn_call(call: &ToolCall, ids: &mut CallIds) -> TurnCall {
    TurnCall {
        id: ids.get_or_assign(&call.id),
        name: call.name.clone(),
        arguments: (*call.arguments.value_or_string()).clone(),
    }
}

fn reply_with_calls(reply: &AssistantMessage) -> String {
    let mut text = escape_tags(&reply.text());
    for call in &reply.tool_calls {
        let name = Value::from(escape_tags(&call.name));
        let arguments = escape_tags(&call.arguments);
        let line = if text.is_empty() { "" } else { "\n" };
        // Writing to a string cannot fail.
        let _ =
            write!(text, "{line}<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>");
    }
    text
}

fn tools_text(request: &ChatRequest) -> String {
    let tools: Vec<_> = tool_definitions(request).iter().map(|tool| escape_tags(&tool.to_string())).collect();
    format!(
        "You can call tools. These are their definitions, one per line:\n\
         <tools>\n{}\n</tools>\n\
         To call a tool, write its name and arguments as JSON:\n\
         <tool_call>\n{{\"name\": \"tool_name\", \"arguments\": {{\"argument\": \"value\"}}}}\n</tool_call>\n\
         The result follows in <tool_response></tool_response>. Answer in plain text if no call is needed.",
        tools.join("\n"),
    )
}

/// Inserts a space into the tags of Hermes' format in untrusted text, for example `< tool_call>`.
/// An unchanged tag would allow a tool result to forge a call.
fn escape_tags(text: &str) -> String {
    text.replace("<tool", "< tool").replace("</tool", "< /tool")
}
