use haft_core::{
    Schema,
    content::Content,
    message::AssistantMessage,
    model::{ChatResponse, FinishReason},
};
use serde_json::json;

use super::*;

fn parse_reply(text: &str) -> AssistantMessage {
    let reply = TextReact.parse_reply(ChatResponse::new(text), None);
    assert_eq!(reply.problem, None, "{text}");
    reply.message
}

#[track_caller]
fn check_call(text: &str, thought: Option<&str>, arguments: &str) {
    let message = parse_reply(text);
    let [call] = message.tool_calls.as_slice() else { panic!("{message:?}") };
    assert_eq!((message.reasoning.as_deref(), &*call.name, &*call.arguments), (thought, "add", arguments));
    assert!(message.content.is_empty());
}

/// The parser of the text dialect accepts code fences, prose, single quotes, trailing commas and
/// CRLF.
#[test]
fn call_is_parsed_in_all_known_spellings() {
    let both = r#"{"x":17,"y":25}"#;
    for arguments in [
        r#"{"x": 17, "y": 25}"#,
        "```json\n{\"x\": 17, \"y\": 25}\n```",
        "```\n{\"x\": 17,\n \"y\": 25}```",
        "{'x': 17, 'y': 25}",
        r#"{"x": 17, "y": 25,}"#,
        "{\"x\": 17, \"y\": 25\n",
        "{\"x\": 17, \"y\": 25\nObservation: 42",
        "{x: 17, y: 25}",
        "x=17, y=25\n",
        "(x=17, y=25)",
        "{\"x\": 17, \"y\": 25}\nObservation: 43\nThought: So it is 43.\nAction: finish\nArguments: {}",
        "{\"x\": 17, \"y\": 25}\n\nThat will add them.",
        "`{\"x\": 17, \"y\": 25}`",
    ] {
        check_call(&format!("Thought: I add.\nAction: add\nArguments: {arguments}"), Some("I add."), both);
        let windows =
            format!("Thought: I add.\r\nAction: add\r\nArguments: {}", arguments.replace('\n', "\r\n"));
        check_call(&windows, Some("I add."), both);
    }
    check_call("Sure!\n**Thought:** I add.\n**Action:** `add`\n**Action Input:** {}", Some("I add."), "{}");
    check_call("Thought 1: I add.\nAction 1: add(x=17, y=25)", Some("I add."), both);
    check_call(r#"Action: add({"x": 17, "y": 25})"#, None, both);
    check_call("I have to add.\nAction: add", Some("I have to add."), "{}");
    check_call(
        "1. Thought: I add\nboth:\nnow.\n2. Action: \"add\".\n3. Arguments: ",
        Some("I add\nboth:\nnow."),
        "{}",
    );
    check_call(
        "[[ ## next_thought ## ]]\nI add.\n\n[[ ## next_tool_name ## ]]\nadd\n\n[[ ## next_tool_args ## ]]\n{\"x\": 17, \"y\": 25}\n\n[[ ## completed ## ]]",
        Some("I add."),
        both,
    );
    check_call(r#"{"thought":"I add.","tool_name":"add","tool_args":{"x":17,"y":25}}"#, Some("I add."), both);
    check_call(
        "Thought: I add.\nAction:\n```json\n{\"action\": \"add\", \"action_input\": {\"x\": 17, \"y\": 25}}\n```",
        Some("I add."),
        both,
    );
    check_call("Action: ```add```\nArguments: ```json\n{\"x\": 17, \"y\": 25}\n```", None, both);
    check_call("Action: add\nAction: add\nArguments: {\"x\": 17, \"y\": 25}", None, both);
    check_call("Action: add\nQuestion: 17+25?\nArguments: {\"x\": 17, \"y\": 25}", None, both);
    check_call("Action: add\nThought: I add.\nArguments: {\"x\": 17, \"y\": 25}", Some("I add."), both);
    check_call("Action: add(x=17, y=25)\nAction: add(x=1, y=2)", None, both);
    check_call("Thought：I add.\nAction：add\nArguments：{\"x\": 17, \"y\": 25}", Some("I add."), both);
    check_call("Question: 17+25?\nThought: I add.\nAction: add", Some("I add."), "{}");
    check_call("Thought: I add.\nCompleted: no\nAction: add", Some("I add.\nCompleted: no"), "{}");
    check_call("Thought: I have a\n- tool: hammer\nAction: add", Some("I have a\n- tool: hammer"), "{}");
}

#[test]
fn call_inside_a_thought_is_not_executed() {
    check_call(
        "Thought: It had\nparameters: {\"x\": 99}\nAction: add\nArguments: {\"x\": 1}",
        Some("It had\nparameters: {\"x\": 99}"),
        r#"{"x":1}"#,
    );
    check_call(
        "<think>\nAction: sub\nArguments: {}\n</think>\nThought: I add.\nAction: add",
        Some("Action: sub\nArguments: {}\n\nI add."),
        "{}",
    );
    check_call(
        "Thought: I add.\n{\"tool\": \"add\", \"args\": {}}",
        Some("I add.\n{\"tool\": \"add\", \"args\": {}}"),
        "{}",
    );
    for text in [
        "<think>Action: add\nArguments: {}",
        "<think>{\"tool_name\": \"add\", \"tool_args\": {}}",
        "Action: add\nAction: sub\nArguments: {}",
        "Action: add(x=1)\nArguments: {\"y\": 2}",
        "Action: add\nFinal Answer: 42",
        "Answer: I look first.\nAction: search",
        "Answer: I look first.\nAction: search(q=\"x\")",
        "Thought: I must not send {\"tool\": \"delete_all\"}.",
    ] {
        assert!(TextReact.parse_reply(ChatResponse::new(text), None).problem.is_some(), "{text}");
    }
}

/// Labels, code fences and brackets inside argument values are part of the values, and must not be
/// parsed.
#[test]
fn argument_values_are_unchanged() {
    let text = json!({"text": "Thought: no\nAction: sub\n```sh\nls {a}\n```", "n": [1.5, {"q": "it's"}], "none": null});
    check_call(&format!("Action: add\nArguments: {text}"), None, &text.to_string());
    let pretty = serde_json::to_string_pretty(&json!({"action": "x", "input": "\u{1F980}"})).unwrap();
    check_call(&format!("Action: add\nArguments: {pretty}"), None, r#"{"action":"x","input":"🦀"}"#);
    check_call(
        "Action: add\nArguments: {'a': 'tab\\t \\u00e9 \\ud83e\\udd80', 'b': True, 'c': None,\n 'd': [1, -2e3,], \"e\": {'f': ''}}",
        None,
        r#"{"a":"tab\t é 🦀","b":true,"c":null,"d":[1,-2000],"e":{"f":""}}"#,
    );
    let lines = "{\n Title: \"x\",\n Question: \"y\",\n Priority: 1\n}";
    check_call(
        &format!("Action: add\nArguments: {lines}"),
        None,
        r#"{"Title":"x","Question":"y","Priority":1}"#,
    );
    check_call(
        "Action: add\nArguments: {\"faq\": \"\nQuestion: it's {\nFinal Answer: 2\nObservation: 3\"}\nFinal Answer: 4",
        None,
        r#"{"faq":"\nQuestion: it's {\nFinal Answer: 2\nObservation: 3"}"#,
    );
    check_call(
        "Action: add\nArguments: {'text': '```{\"x\": 1}```'}",
        None,
        r#"{"text":"```{\"x\": 1}```"}"#,
    );
    check_call(
        r#"Action: add
Arguments: {"pattern": "\d+\s\\"}"#,
        None,
        r#"{"pattern":"\\d+\\s\\"}"#,
    );
}

/// Truncated arguments are passed to the call unchanged. The call then fails validation, and the
/// model can repeat it.
#[test]
fn truncated_arguments_are_not_completed() {
    for cut in [
        r#"{"path": "/home/u"#,
        r#"{"path": "#,
        r#"{"path""#,
        "{'path': '/home",
        "path=",
        r#"{"a": tru"#,
        r#"{"paths": ["a"], "#,
        r#"{"paths": ["a", "#,
        r#"{"to":"bob","amount": 1"#,
        "{",
        "x=1, y=2",
        "x='1',",
        "title: 'x'",
        "whatever",
        // The following arguments are ambiguous or invalid, not truncated.
        r#"[{"path":"a"},{"path":"b"}]"#,
        r#"{"path":"a"}, {"path":"b"}"#,
        r#"{"a":{"b":1}}, "c": 2}"#,
        r#"print({"a": 1})"#,
        r"{'path': 'C:\Users\bob'}",
        r"{'path': '\u+041'}",
    ] {
        check_call(&format!("Action: add\nArguments: {cut}"), None, cut.trim());
    }
    let deep = format!("{}'", "{'a':".repeat(100));
    check_call(&format!("Action: add\nArguments: {deep}"), None, &deep);
}

/// After an unknown finish reason, the reply may be truncated anywhere. The parser must not add
/// missing brackets or arguments.
#[test]
fn aborted_reply_is_not_completed() {
    let folded = |text: &str, finish_reason| {
        TextReact.parse_reply(ChatResponse { finish_reason, ..ChatResponse::new(text) }, None)
    };
    let aborted = || FinishReason::Other("abort".to_owned());
    let cut = "Action: add\nArguments: {\"paths\": [\"a\"]";
    assert_eq!(folded(cut, FinishReason::Stop).message.tool_calls[0].arguments, r#"{"paths":["a"]}"#);
    assert_eq!(folded(cut, aborted()).message.tool_calls[0].arguments, r#"{"paths": ["a"]"#);
    assert_eq!(folded("Action: add\nArguments: x='1'", aborted()).message.tool_calls[0].arguments, "x='1'");
    assert!(folded("Action: add", aborted()).problem.is_some());
    assert_eq!(folded("Action: add(", aborted()).message.tool_calls[0].arguments, "(");
    assert_eq!(folded("Action: add()", aborted()).message.tool_calls[0].arguments, "{}");
    let whole = folded("Action: add\nArguments: {'a': 1}", aborted());
    assert_eq!(whole.message.tool_calls[0].arguments, r#"{"a":1}"#);
}

#[test]
fn answer_is_parsed_in_all_known_spellings() {
    for text in [
        "Thought: I know.\nAction: finish\nArguments: {\"answer\": \"42\"}",
        "Action: Finish\nArguments: {'answer': '42'}",
        "Action: finish(answer='42')",
        "Action: finish\nArguments: 42",
        "Action: Finish[42]",
        "Action: **Finish[42]**.",
        "Action: finish(\"42\")",
        "Action: None\nFinal Answer: 42",
        "Final Answer: 42\nThought: I check.\nAction: add\nArguments: {}",
        "Final Answer: 42\n\nQuestion: And now?\nThought: I add.\nAction: add\nArguments: {}",
        "Action: finish\nArguments: {\"answer\": \"42\"}\n\nThat is it.",
        "Action: finish\nArguments: {\"answer\": \"42\"}\nFinal Answer: 43",
        "Answer: ```json\n{\"answer\": \"42\"}\n```",
        "[[ ## answer ## ]]\n42\n\n[[ ## completed ## ]]",
        "**Final Answer:** 42",
        "Action: finish\nAnswer: 42",
        "Answer: {\"answer\": \"42\"}",
        "{\"answer\": 42}",
    ] {
        assert_eq!(parse_reply(text).text(), "42", "{text}");
    }
    let outputs =
        Schema::for_arguments(json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]})).unwrap();
    for text in ["Action: finish\nArguments: {'n': 42}", "Final Answer: {\"n\": 42}", "{\"n\": 42}"] {
        let reply = TextReact.parse_reply(ChatResponse::new(text), Some(&outputs));
        assert_eq!(reply.message.content, [Content::json(json!({"n": 42}))], "{text}");
    }
}

#[test]
fn answer_text_is_unchanged() {
    for answer in [
        "14:30",
        "x = 5",
        "The config is {\"port\": 8080}.",
        "{\"port\": 8080}",
        "```json\n{\"a\": 1, \"b\": 2}\n```",
        "Use this:\n```sh\nls\n```\nThat is all.",
        "Quiz\nQuestion 1: What?\nAnswer: that",
        "It takes:\nParameters: id\nand returns JSON.",
        "Minutes\nAction: Bob sends it.\nThought: none",
        "[1, 2]",
        "**yes**",
    ] {
        assert_eq!(parse_reply(&format!("Final Answer: {answer}")).text(), answer);
        if !answer.contains("\nAction") && !answer.contains("\nQuestion") && !answer.contains("\nParam") {
            assert_eq!(parse_reply(&format!("Action: finish\nArguments: {answer}")).text(), answer);
        }
    }
}

#[test]
fn text_without_a_step_has_a_problem() {
    for text in [
        "Thought: hm\nAnswer: we need the population first.\nAction: search\nArguments: {}",
        "Action: finish\nArguments: {\"answer\": \"4",
        "It is 42.",
        "Thought: It is 42.",
        "Action:",
        "Observation: 42",
        "Action: finish",
        "Action: finish\nArguments: {\"answer\": \"\"}",
    ] {
        let reply = TextReact.parse_reply(ChatResponse::new(text), None);
        assert!(reply.problem.is_some() && reply.message.text() == text, "{text}");
    }
    // Empty replies are handled by the run, so the dialect reports no problem.
    assert_eq!(TextReact.parse_reply(ChatResponse::new(""), None).problem, None);
}
