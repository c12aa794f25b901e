use haft_core::{
    Schema, ToolDefinition, ToolName,
    model::{ChatEvent, ChatResponse},
    tool::DynamicTool,
    toolset::ToolList,
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::*;
use crate::{Dialect, JsonReact, NativeCalls, ReplyDelta, StreamParser as _, TextReact};

fn offered() -> CallableNames {
    let tool = |name: &str| {
        let schema = json!({
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}, "text": {"type": "string"}},
        });
        let schema = Schema::for_arguments(schema).unwrap();
        DynamicTool::new(ToolDefinition::new(ToolName::new(name).unwrap(), schema), |_, _| async {})
    };
    let tools = ToolList::new("test", [tool("add"), tool("look_up")]);
    CallableNames::Offered { tools: Some(tools), finish: None }
}

fn parse(text: &str) -> Option<Vec<String>> {
    let found = parse_calls(text, &offered())?;
    Some(found.calls.into_iter().map(|call| call.name + &call.arguments).collect())
}

/// The shapes that models write, each with a call of `add` with `x` = 1.
const SHAPES: [&str; 62] = [
    "{\"name\": \"add\", \"arguments\": {\"x\": 1,}}",
    "{'name': 'add', 'arguments': {'x': 1}}",
    "{\"thought\": \"a\nb\", \"name\": \"add\", \"arguments\": {\"x\": 1}}",
    r#"{"id": "a", "type": "function", "arguments": {"x": 1}, "name": "add"}"#,
    "```json\n{\"name\": \"add\", \"arguments\": {\"x\": 1},}\n```",
    // A bracket is missing, or there is one more.
    "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}</tool_call>",
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}}\n</tool_call>",
    // Qwen 2.5 closes with the opening tag, and Qwen3-Coder omits it.
    "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n<tool_call>",
    "<function=add>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n</tool_call>",
    // Llama on Groq
    "<function=add{\"x\": 1}</function>",
    "<function=add {\"x\": 1}></function>",
    "<tools>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tools>",
    // Harmony
    "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"x\": 1}<|call|>",
    "<|start|>assistant<|channel|>analysis<|message|>I add.<|end|>\n<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{\"x\": 1}<|call|>",
    "<|channel|>analysis<|message|>Maybe [look_up()]?<|end|><|channel|>analysis<|message|>No.<|end|><|channel|>commentary to=functions.add<|message|>{\"x\": 1}",
    "<think>I add.</think>\n<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tool_call>",
    "<think>Maybe {\"name\": \"look_up\", \"arguments\": {}}?</think>{\"name\": \"add\", \"arguments\": {\"x\": 1}}",
    r#"{"name": "add", "arguments": {"x": 1}}"#,
    r#"{"name": "add", "arguments": "{\"x\":1}"}"#,
    r#"{"name": "add", "args": {"x": 1}}"#,
    r#"{"name": "add", "parameters": {"x": 1}}"#,
    r#"{"name": "functions.add", "input": {"x": 1}}"#,
    r#"{"tool": "add", "args": {"x": 1}}"#,
    r#"{"thought": "so", "tool_name": "add", "tool_args": {"x": 1}}"#,
    r#"{"action": "add", "action_input": {"x": 1}}"#,
    r#"{"type": "function", "function": {"name": "add", "arguments": {"x": 1}}}"#,
    r#"{"type": "function", "function": {"name": "add", "arguments": "{\"x\":1}"}}"#,
    r#"{"type": "function", "name": "add", "parameters": {"x": 1}}"#,
    r#"{"type": "tool_use", "id": "a", "name": "add", "input": {"x": 1}}"#,
    r#"[{"name": "add", "arguments": {"x": 1}}]"#,
    r#"{"tool_calls": [{"name": "add", "args": {"x": 1}}]}"#,
    r#"{"tool_calls": [{"id": "a", "type": "function", "function": {"name": "add", "arguments": "{\"x\":1}"}}]}"#,
    r#"{"role": "assistant", "content": null, "tool_calls": [{"name": "add", "arguments": {"x": 1}}]}"#,
    r#"{"function_call": {"name": "add", "arguments": {"x": 1}}}"#,
    r#"{"add": {"x": 1}}"#,
    "```json\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n```",
    "```\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}",
    "```tool_call\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n```<|im_end|>",
    "```tool_code\nprint(default_api.add(x=1))\n```",
    "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n</tool_call>",
    "<tool_call>\n{'name': 'add', 'arguments': {'x': 1}}",
    "<tool_call>add\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "<tool_call>\n<function=add>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
    "<function=add>{\"x\": 1}</function>",
    "<function=add><parameter=x>1</parameter></function>",
    "<function_calls><invoke name=\"add\"><parameter name=\"x\">1</parameter></invoke></function_calls>",
    "<antml:function_calls>\n<antml:invoke name=\"add\">\n<antml:parameter name=\"x\">1</antml:parameter>\n</antml:invoke>\n</antml:function_calls>",
    "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"add\">\n<｜DSML｜parameter name=\"x\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "<minimax:tool_call><invoke name=\"add\"><parameter name=\"x\">1</parameter></invoke></minimax:tool_call>",
    "[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"x\": 1}}]</s>",
    "[TOOL_CALLS]add[ARGS]{\"x\": 1}",
    "[TOOL_CALLS]add[CALL_ID]a1[ARGS]{\"x\": 1}",
    "[add(x=1)]",
    "<|python_tag|>add.call(x=1)<|eom_id|>",
    "<|python_tag|>{\"type\": \"function\", \"name\": \"add\", \"parameters\": {\"x\": 1}}",
    "<|tool_call_start|>[add(x=1)]<|tool_call_end|>",
    "functools[{\"name\": \"add\", \"arguments\": {\"x\": 1}}]",
    "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"add\", \"parameters\": {\"x\": 1}}]<|END_ACTION|>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"x\": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|><|tool_calls_section_end|>",
    "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"x\": 1}<|call|>",
];

#[test]
fn all_shapes_are_read() {
    for text in SHAPES {
        let calls = parse(text).unwrap_or_else(|| panic!("{text}"));
        let is_call = calls == [r#"add{"x":1}"#] || calls == [r#"add{"x":"1"}"#];
        assert!(is_call, "{text}: {calls:?}");
    }
}

/// The dialects with written steps read a call in all shapes.
#[test]
fn step_dialects_read_all_shapes() {
    for text in SHAPES.into_iter().filter(|text| *text != r#"{"add": {"x": 1}}"#) {
        for dialect in [&JsonReact::new() as &dyn Dialect, &TextReact] {
            let reply = dialect.parse_reply(ChatResponse::new(text), None);
            let [call] = reply.message.tool_calls.as_slice() else {
                panic!("{}: {text}: {reply:?}", dialect.name())
            };
            assert_eq!(call.name, "add", "{}: {text}", dialect.name());
            let arguments = call.arguments.value().unwrap();
            assert!(*arguments == json!({"x": 1}) || *arguments == json!({"x": "1"}), "{text}: {arguments}");
        }
    }
}

#[test]
fn several_calls_are_read_in_order() {
    let both = [r#"add{"x":1}"#, r#"look_up{"text":"a, b"}"#];
    for text in [
        r#"[{"name": "add", "args": {"x": 1}}, {"name": "look_up", "args": {"text": "a, b"}}]"#,
        r#"{"tool_calls": [{"name": "add", "args": {"x": 1}}, {"name": "look_up", "args": {"text": "a, b"}}]}"#,
        "{\"name\": \"add\", \"args\": {\"x\": 1}}\n{\"name\": \"look_up\", \"args\": {\"text\": \"a, b\"}}",
        "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tool_call>\n<tool_call>{\"name\": \"look_up\", \"arguments\": {\"text\": \"a, b\"}}</tool_call>",
        "```json\n{\"name\": \"add\", \"args\": {\"x\": 1}}\n```\n```json\n{\"name\": \"look_up\", \"args\": {\"text\": \"a, b\"}}\n```",
        "[add(x=1), look_up(text='a, b')]",
        "```tool_code\nadd(x=1)\nlook_up(text=\"a, b\")\n```",
        "[TOOL_CALLS]add[ARGS]{\"x\": 1}[TOOL_CALLS]look_up[ARGS]{\"text\": \"a, b\"}",
        "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n<tool_call>\n{\"name\": \"look_up\", \"arguments\": {\"text\": \"a, b\"}}\n<tool_call>",
        "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}</tool_call><tool_call>{\"name\": \"look_up\", \"arguments\": {\"text\": \"a, b\"}}}</tool_call>",
    ] {
        assert_eq!(parse(text).as_deref(), Some(&both.map(str::to_owned)[..]), "{text}");
    }
}

#[test]
fn other_text_is_not_a_call() {
    for text in [
        "",
        "add",
        "I could call add(x=1).",
        "add(x=1)",
        "Use this:\n```json\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n```",
        "```json\n{\"name\": \"add\", \"arguments\": {\"x\": 1}}\n```\nThis calls the tool.",
        "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tool_call> is how it is done.",
        // Not offered.
        r#"{"name": "rm", "arguments": {"x": 1}}"#,
        r#"[{"name": "add", "arguments": {"x": 1}}, {"name": "rm", "arguments": {}}]"#,
        "[rm(x=1)]",
        // Data.
        r#"{"name": "add"}"#,
        r#"{"name": "add", "arguments": {"x": 1}, "result": 2}"#,
        r#"{"add": {"sum": 42}}"#,
        r#"{"add": 1}"#,
        r#"[1, 2]"#,
        "[add](https://example.com)",
        r#"{"name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {"x": {}}}}"#,
        r#"{"name": "add", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}"#,
        "```python\nadd(x=1)\n```",
        // Incomplete.
        r#"{"name": "add", "arguments": {"x": 1}"#,
        r#"<tool_call>{"name": "add", "arguments": {"x": 1}"#,
        "[add(x=1",
        "<function=add><parameter=x>1",
        "[TOOL_CALLS]",
        "<tool_call></tool_call>",
        "<tool_call>",
        "<tool_call>add",
        // Reasoning, definitions and results.
        "<think>{\"name\":\"add\",\"arguments\":{\"x\":1}}</think>Done.",
        "<think>{\"name\":\"add\",\"arguments\":{\"x\":1}}",
        "<tools>[{\"name\": \"add\"}]</tools>",
        "<tools>[{\"name\": \"add\", \"parameters\": {\"type\": \"object\", \"properties\": {}}}]</tools>",
        "<|start|>functions.add to=assistant<|channel|>commentary<|message|>{\"x\": 1}",
        "<|channel|>analysis<|message|>{\"x\": 1}<|end|>",
        "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant<|channel|>final<|message|>{\"x\": 1}",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

/// A closing tag in a string does not end the call, and GLM writes the name alone if the call has
/// no arguments.
#[test]
fn closing_tag_is_found_after_the_call() {
    let call =
        "<tool_call>{\"name\":\"look_up\",\"arguments\":{\"text\":\"use </tool_call> here\"}}</tool_call>";
    let expected = r#"look_up{"text":"use </tool_call> here"}"#;
    assert_eq!(parse(call).unwrap(), [expected]);
    assert_eq!(parse(&call.repeat(2)).unwrap(), [expected; 2]);
    assert_eq!(parse("<tool_call>add</tool_call>").unwrap(), ["add{}"]);
    assert_eq!(parse("<tool_call>add\n</tool_call>\n<tool_call>add</tool_call>").unwrap(), ["add{}"; 2]);
}

/// The thought, the content and the reasoning beside the calls are kept.
#[test]
fn text_beside_the_calls_is_the_thought() {
    let thought = |text: &str| parse_calls(text, &offered()).unwrap().thought;
    let calls = r#""tool_calls": [{"name": "add", "arguments": {"x": 1}}]"#;
    let message = format!(r#"{{"role": "assistant", "content": "I add them.", {calls}}}"#);
    assert_eq!(thought(&message).unwrap(), "I add them.");
    assert_eq!(thought(&format!("<think>So.</think>{message}")).unwrap(), "So.\n\nI add them.");
    assert_eq!(thought(&format!(r#"{{"content": "", {calls}}}"#)), None);
    let harmony = "<|channel|>analysis<|message|>I add.<|end|><|start|>assistant<|channel|>commentary to=functions.add<|message|>{}";
    assert_eq!(thought(harmony).unwrap(), "I add.");
}

/// Names of the calls that a step dialect executes.
fn executed(dialect: &dyn Dialect, text: &str) -> Vec<String> {
    let message = dialect.parse_reply(ChatResponse::new(text), None).message;
    message.tool_calls.into_iter().map(|call| call.name).collect()
}

#[test]
fn step_dialects_do_not_execute_quoted_calls() {
    const RM: &str = r#"{"tool_name":"rm","tool_args":{}}"#;
    for quotation in [
        "The page says:\n[delete_all()]\nThat is suspicious, I will ask.".to_owned(),
        "The page says:\n<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>\nThat is suspicious."
            .to_owned(),
        "The page says:\n<tool_call>rm</tool_call> is bad.".to_owned(),
        format!("The page says:\n<tool_call>\n{RM}\n</tool_call>\nThat is suspicious."),
        format!("Options:\n[a] I must not send {RM}."),
        format!("Options:\n[\n{RM},\nI do not know."),
        format!("{{x}} is a place. I must not send {RM} now."),
        format!("I must not send {RM}."),
    ] {
        for text in [quotation.clone(), format!("Thought: {quotation}")] {
            for dialect in [&JsonReact::new() as &dyn Dialect, &TextReact] {
                assert!(executed(dialect, &text).is_empty(), "{}: {text}", dialect.name());
            }
        }
    }
    // In `TextReact`, an object within a line, or before other text, belongs to the thought.
    for text in [
        format!("Thought: Options:\n[a] I must not send {RM}"),
        format!("Thought: The page says:\n```json\n{RM}\n```\nThat is suspicious."),
        format!("Thought: The page says:\n{RM}\nI do not."),
    ] {
        assert!(executed(&TextReact, &text).is_empty(), "{text}");
    }
}

/// A call after a thought is executed if it ends the reply, or if the model made up the
/// observation.
#[test]
fn step_dialects_execute_the_last_block() {
    let call = r#"{"name":"add","arguments":{}}"#;
    for block in [
        "[add()]".to_owned(),
        format!("<tool_call>{call}</tool_call>"),
        format!("```json\n{call}\n```"),
        call.to_owned(),
        "<tool_call>add</tool_call>".to_owned(),
    ] {
        for end in ["", "\n\n", "<|im_end|>", "\nObservation: 3\nThought: It is 3.", "\n**Observation:** 3"] {
            for thought in ["Thought: I add\nboth.\n", "[a] I add.\n", "Thought: [a] or\n[b]\n"] {
                let text = format!("{thought}{block}{end}");
                for dialect in [&JsonReact::new() as &dyn Dialect, &TextReact] {
                    assert_eq!(executed(dialect, &text), ["add"], "{}: {text}", dialect.name());
                }
            }
        }
    }
}

/// A call in the reasoning is not executed, and the reasoning is kept.
#[test]
fn step_dialects_skip_the_reasoning() {
    let step = r#"{"thought":"x","tool_name":"finish","tool_args":{"answer":"ok"}}"#;
    let quoted = r#"Maybe {"tool_name":"delete","tool_args":{}}? No."#;
    for (before, reasoning) in [
        (format!("<think>{quoted}</think>"), format!("{quoted}\n\nx")),
        (format!("<think>\n{quoted}\n</think>\n\n"), format!("{quoted}\n\nx")),
        (format!("<|channel|>analysis<|message|>{quoted}<|end|>"), format!("{quoted}\n\nx")),
    ] {
        let text = format!("{before}{step}");
        for dialect in [&JsonReact::new() as &dyn Dialect, &TextReact] {
            let message = dialect.parse_reply(ChatResponse::new(&*text), None).message;
            assert_eq!((message.text(), message.reasoning), ("ok".to_owned(), Some(reasoning.clone())));
        }
    }
    // The template has opened the block in the prompt.
    let text = format!("{quoted}\n</think>\n\n{step}");
    let message = JsonReact::new().parse_reply(ChatResponse::new(text), None).message;
    assert_eq!((message.text(), message.reasoning), ("ok".to_owned(), Some(format!("{quoted}\n\nx"))));
}

/// A written call is not the structured answer, even if its arguments or its object are valid
/// outputs.
#[test]
fn step_dialects_prefer_a_call_to_an_answer() {
    let parse = |outputs: Value, text: &str| {
        let outputs = Schema::new(outputs).unwrap();
        let message = JsonReact::new().parse_reply(ChatResponse::new(text), Some(&outputs)).message;
        let calls = message.tool_calls.iter().map(|call| format!("{}{}", call.name, call.arguments));
        calls.chain(Some(message.text()).filter(|text| !text.is_empty())).collect::<Vec<_>>()
    };
    let city = json!({"properties": {"city": {"type": "string"}}, "required": ["city"]});
    assert_eq!(
        parse(city, r#"[TOOL_CALLS]get_weather[ARGS]{"city":"Paris"}"#),
        [r#"get_weather{"city":"Paris"}"#]
    );
    let sum = || json!({"properties": {"sum": {"type": ["integer", "null"]}}});
    assert_eq!(parse(sum(), r#"{"name":"add","arguments":{"x":1}}"#), [r#"add{"x":1}"#]);
    assert_eq!(parse(sum(), r#"{"name":"finish","arguments":{"sum":42}}"#), [r#"{"sum":42}"#]);
    assert_eq!(parse(sum(), r#"{"sum":42}"#), [r#"{"sum":42}"#]);
    let call = json!({"properties": {"name": {}, "arguments": {}}});
    assert_eq!(parse(call, r#"{"name":"add","arguments":{}}"#), [r#"{"name":"add","arguments":{}}"#]);
}

#[test]
fn parser_is_bounded() {
    let call = r#"{"name": "add", "arguments": {"x": 1}}"#;
    assert!(parse(&call.repeat(MAX_CALLS)).is_some());
    assert_eq!(parse(&call.repeat(MAX_CALLS + 1)), None);
    for opener in
        ["[", "{", "{\"a\":", "```", "```json\n", "<tool_call>", "<function=", "[add(x=", "print(", "<think>"]
    {
        assert_eq!(parse(&opener.repeat(100_000)), None);
        assert!(executed(&JsonReact::new(), &opener.repeat(100_000)).is_empty());
        let lines = format!("I think.\n{}", format!("{opener}\n").repeat(50_000));
        assert!(executed(&JsonReact::new(), &lines).is_empty());
    }
    assert_eq!(parse(&format!("{}{call}{}", "<tool_call>".repeat(9), "</tool_call>".repeat(9))), None);
}

/// Streams `text` in pieces that end at the byte indices `cuts`. Returns the emitted text.
fn stream(text: &str, cuts: &[usize]) -> String {
    let mut parser = HeldTextParser::new(NativeCalls.stream_parser(None), offered());
    let mut cuts: Vec<_> = cuts.iter().map(|cut| text.floor_char_boundary(cut % (text.len() + 1))).collect();
    cuts.push(text.len());
    cuts.sort_unstable();
    let mut start = 0;
    let pieces = cuts.into_iter().map(|end| {
        let piece = text[start..end].to_owned();
        start = end;
        ChatEvent::TextDelta { text: piece }
    });
    let finished = ChatEvent::Finished(Box::new(ChatResponse::new(text)));
    let deltas = pieces.chain([finished]).flat_map(|event| parser.push(&event));
    deltas.map(|delta| if let ReplyDelta::Text(text) = delta { text } else { String::new() }).collect()
}

#[test]
fn prose_is_streamed_without_delay() {
    for text in [
        "It",
        "{x",
        "{\"sum",
        "{\"name\": \"Ada",
        "```python",
        "```json\n{\"total",
        "<h",
        "<ta",
        "[1",
        "[see",
        "fine",
        "functools is a Python module",
        "{\"a\": 1",
        "{\"in\": 1",
        "{\"t\": 1",
        "{\"add\": 1",
        "{\"reasoning\": \"So.\", \"result",
        "{\"calls\": 1",
        "{\"id\": 7, \"total",
        "{\"type\": \"circle\", \"radius",
        "{\"content\": \"It is, {as} \\\"we\\\" know,\"}",
        "{\"input\": {\"name\": \"add\"}, \"output",
        "<|channel|>final<|message|>It",
        "<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>It",
        "<think>So.</think>It",
    ] {
        let mut parser = HeldTextParser::new(NativeCalls.stream_parser(None), offered());
        let deltas = parser.push(&ChatEvent::TextDelta { text: text.to_owned() });
        assert_eq!(deltas, [ReplyDelta::Text(text.to_owned())]);
    }
}

/// Texts that are similar to calls: pieces of calls in any order.
fn similar_text() -> impl Strategy<Value = String> {
    let pieces = select(vec![
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "'",
        ":",
        ",",
        "=",
        " ",
        "\n",
        "```",
        "json",
        "tool_code",
        "<tool_call>",
        "</tool_call>",
        "<function=",
        "add",
        "look_up",
        ">",
        "<",
        "</",
        "<parameter=",
        "</function>",
        "name",
        "\"name\":",
        "<think>",
        "</think>",
        "functions.",
        ":0",
        "\"arguments\":",
        "{\"x\":1}",
        "\"add\"",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|python_tag|>",
        "add(x=1)",
        "print(",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<|message|>",
        "<|channel|>",
        " to=add",
        "<arg_key>",
        "ä",
        "1",
        "\\",
        "<|end|>",
        "<|start|>assistant",
        "analysis",
        "</tool_call>",
        "\"type\":",
        "\"content\":",
        "functools",
    ]);
    vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No text makes the parser panic. A streamed reply emits its text if and only if it is not
    /// taken as calls, for any chunking.
    #[test]
    fn streamed_text_agrees_with_the_parser(
        text in prop_oneof![any::<String>(), similar_text(), select(SHAPES.to_vec()).prop_map(str::to_owned)],
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let expected = if parse(&text).is_some() { "" } else { &text };
        prop_assert_eq!(stream(&text, &cuts), expected);
        for dialect in [&JsonReact::new() as &dyn Dialect, &TextReact] {
            executed(dialect, &text);
        }
    }
}
