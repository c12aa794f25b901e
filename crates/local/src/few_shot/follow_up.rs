//! Short questions that continue an earlier question, such as "And in Madrid?".
//!
//! They name only what differs. The call for such a question has the tool of the earlier call, and the
//! arguments of the earlier call that the question does not change.

use haft_core::{Schema, ToolCall, message::MessageBody, model::ChatRequest};
use serde_json::Value;

use super::grounding::{KnownWords, is_composed, spaced_json};

/// The beginnings of a question that continues an earlier question.
const BEGINNINGS: [&str; 10] = [
    "and ",
    "also ",
    "how about ",
    "instead ",
    "now ",
    "or ",
    "same for ",
    "the same ",
    "what about ",
    "what if ",
];
/// The maximum number of words of such a question.
const MAX_WORDS: usize = 10;

/// Returns the last call of an earlier reply, if `question` continues its question.
pub(super) fn continued_call<'a>(request: &'a ChatRequest, question: &str) -> Option<&'a ToolCall> {
    let lower = question.to_lowercase();
    let is_follow_up = BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning))
        && question.split_whitespace().count() <= MAX_WORDS;
    if !is_follow_up {
        return None;
    }
    let calls = request.all_messages().filter_map(|message| match message.body() {
        MessageBody::Assistant(reply) => reply.tool_calls.last(),
        _ => None,
    });
    calls.last().filter(|call| request.tools.get(call.name.as_str()).is_some())
}

/// Returns `call` with the arguments of `earlier` that `question` does not change: texts and numbers
/// without a word of the question, and texts that the model composed from the question itself. Returns
/// `None` if there are none, or if `schema` does not permit the result.
pub(super) fn with_earlier_arguments(
    call: &ToolCall,
    earlier: &ToolCall,
    question: &str,
    schema: &Schema,
) -> Option<ToolCall> {
    let words = KnownWords::new(question);
    let has_quotation = question.contains(['"', '\u{201c}', '\'']);
    let (arguments, known) = (call.arguments.value_or_string(), earlier.arguments.value_or_string());
    let mut merged = arguments.as_object()?.clone();
    for (name, value) in known.as_object()? {
        let is_changed = match merged.get(name) {
            Some(Value::String(_)) if is_composed(name) => has_quotation,
            Some(Value::String(text)) => words.mentions(&text.to_lowercase()) || text.len() <= 3,
            Some(Value::Number(number)) => words.has_words(&number.to_string()),
            Some(_) => true,
            None => false,
        };
        if !is_changed {
            merged.insert(name.clone(), value.clone());
        }
    }
    let merged = Value::Object(merged);
    (merged != *arguments && schema.is_valid(&merged))
        .then(|| ToolCall::new(call.id.clone(), call.name.clone(), spaced_json(&merged)))
}

#[cfg(test)]
mod tests {
    use haft_core::{
        Message, ToolDefinition, ToolError, ToolName, ToolOutput, message::AssistantMessage,
        tool::DynamicTool, toolset::ToolList,
    };
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        let properties =
            json!({"city": {"type": "string"}, "days": {"type": "integer"}, "text": {"type": "string"}});
        Schema::new(json!({"type": "object", "properties": properties})).unwrap()
    }

    fn call(arguments: Value) -> ToolCall {
        ToolCall::new("1", "look", arguments.to_string())
    }

    #[test]
    fn a_short_question_continues_the_last_call() {
        let definition = ToolDefinition::new(ToolName::new("look").unwrap(), schema());
        let tool = DynamicTool::new(definition, |_, _| async { Ok::<_, ToolError>(ToolOutput::from("ok")) });
        let reply = AssistantMessage {
            tool_calls: vec![call(json!({"city": "Rome"}))],
            ..AssistantMessage::default()
        };
        let messages =
            [Message::user("Rain in Rome?"), Message::assistant(reply), Message::user("And in Oslo?")];
        let request = ChatRequest::new(messages).with_tools(ToolList::new("test", [tool]));
        assert!(continued_call(&request, "And in Oslo?").is_some());
        assert!(continued_call(&request, "What about Oslo?").is_some());
        assert!(continued_call(&request, "Which rain is it?").is_none());
        assert!(continued_call(&request, &"And in Oslo".repeat(5)).is_none());
        assert!(continued_call(&ChatRequest::new([]), "And in Oslo?").is_none());
    }

    #[test]
    fn unchanged_arguments_are_kept() {
        let merged = |question: &str, arguments: Value| {
            let earlier = call(json!({"city": "Rome", "days": 3, "text": "Good morning"}));
            let call = call(arguments);
            let merged = with_earlier_arguments(&call, &earlier, question, &schema()).unwrap_or(call);
            merged.arguments.value_or_string().as_ref().clone()
        };
        let oslo = json!({"city": "Oslo", "days": 3, "text": "Good morning"});
        assert_eq!(merged("And in Oslo?", json!({"city": "Oslo", "days": 1})), oslo);
        assert_eq!(merged("And in Oslo?", json!({"city": "Oslo", "text": "And in Oslo"})), oslo);
        let quoted = json!({"city": "Rome", "days": 3, "text": "Bye"});
        assert_eq!(merged("And \"Bye\"?", json!({"text": "Bye"})), quoted);
        let days = json!({"city": "Rome", "days": 5, "text": "Good morning"});
        assert_eq!(merged("What about 5 days?", json!({"city": "Lima", "days": 5})), days);
    }
}
