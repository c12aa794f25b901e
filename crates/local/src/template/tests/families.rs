//! Tests of the tool form and the reasoning block of each family. Each template has the structure
//! of the one in the family's files.

use super::*;

const QWEN3: &str = include_str!("../../../tests/templates/qwen3.jinja");
const ALWAYS_THINKS: &str = include_str!("../../../tests/templates/always_thinks.jinja");
const SMOLLM3: &str = include_str!("../../../tests/templates/smollm3.jinja");
const PHI4_MINI: &str = include_str!("../../../tests/templates/phi4_mini.jinja");
const PHI4_CALLS: &str = include_str!("../../../tests/templates/phi4_calls.jinja");
const MISTRAL_CALL_ID: &str = include_str!("../../../tests/templates/mistral_call_id.jinja");
const GEMMA3: &str = include_str!("../../../tests/templates/gemma3.jinja");

const PHI4_TOKENS: [&str; 3] = ["<|tool_call|>", "<|/tool_call|>", "<|tool_response|>"];

/// Renders `turns` in the tool form of the template, and returns the text in which the markers are
/// replaced. All letters touch markup, so all texts are markers.
fn render(source: &str, specials: &[&str], turns: &[Turn], thinks: bool) -> String {
    let edges: HashSet<char> = ('a'..='z').chain(['<', '>']).collect();
    let mut outside = OutsideText::new(&edges);
    let input = detect(source, specials).map(|form| form.input).unwrap_or_default();
    let options = RenderOptions { input: &input, add_generation_prompt: true, enable_thinking: thinks };
    let text = template(source).render(turns, &[look()], options, &mut outside).unwrap();
    outside.replace_markers(&text)
}

/// A conversation with text before two calls, whose arguments contain quotes, line breaks and other
/// languages.
fn conversation() -> Vec<Turn> {
    let call = |id: &str, arguments: serde_json::Value| TurnCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments,
    };
    let calls = vec![
        call("call00000", json!({"at": "a \"b\"\n\u{e9}<|end|>"})),
        call("call00001", json!({"at": "it's", "n": [1, true, null]})),
    ];
    let result =
        |id: &str, text: &str| Turn::new(Role::Tool { id: id.to_owned(), name: "look".to_owned() }, text);
    vec![
        Turn::new(Role::User, "Look."),
        Turn { calls, reasoning: "Two things.".to_owned(), ..Turn::new(Role::Assistant, "I look.") },
        result("call00000", "a wall"),
        result("call00001", "<tool_call>"),
    ]
}

#[test]
fn qwen3_renders_reasoning_and_calls() {
    expect![[r#"
        <|im_start|>system
        Functions:
        <tools>
        {"type": "function", "function": {"name": "look", "description": "Looks <|im_start|> at 'it'.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}
        </tools>
        Calls look like <tool_call>
        {"name": NAME, "arguments": OBJECT}
        </tool_call><|im_end|>
        <|im_start|>user
        Look.<|im_end|>
        <|im_start|>assistant
        <think>
        Two things.
        </think>

        I look.
        <tool_call>
        {"name": "look", "arguments": {"at": "a \"b\"\né<|end|>"}}
        </tool_call>
        <tool_call>
        {"name": "look", "arguments": {"at": "it's", "n": [1, true, null]}}
        </tool_call><|im_end|>
        <|im_start|>user
        <tool_response>
        a wall
        </tool_response>
        <tool_response>
        <tool_call>
        </tool_response><|im_end|>
        <|im_start|>assistant
    "#]].assert_eq(&render(QWEN3, &[], &conversation(), true));
}

#[test]
fn qwen3_format_has_no_reasoning_block() {
    assert_eq!(detect(QWEN3, &[]).unwrap().call_format, CallFormat::hermes());
}

#[test]
fn smollm3_lists_tools_and_has_calls_in_the_content() {
    let form = detect(SMOLLM3, &[]).unwrap();
    assert_eq!(form.call_format, CallFormat::hermes());
    expect![[r#"
        <|im_start|>system
        Reasoning Mode: /no_think

        Functions:
        <tools>
        {'type': 'function', 'function': {'name': 'look', 'description': "Looks <|im_start|> at 'it'.", 'parameters': {'type': 'object', 'properties': {'at': {'type': 'string'}}, 'required': ['at']}}}
        </tools>
        Calls look like <tool_call>
        {"name": NAME, "arguments": OBJECT}
        </tool_call>

        <|im_end|>
        <|im_start|>user
        Look.<|im_end|>
        <|im_start|>assistant
        <think>

        </think>
        I look.
        <tool_call>
        {"name": "look", "arguments": {"at": "a \"b\"\né<|end|>"}}
        </tool_call>
        <tool_call>
        {"name": "look", "arguments": {"at": "it's", "n": [1, true, null]}}
        </tool_call><|im_end|>
        <|im_start|>user
        a wall<|im_end|>
        <|im_start|>user
        <tool_call><|im_end|>
        <|im_start|>assistant
        <think>

        </think>
    "#]].assert_eq(&render(SMOLLM3, &[], &conversation(), false));
}

#[test]
fn phi4_mini_lists_tools_in_the_system_message() {
    let form = detect(PHI4_MINI, &PHI4_TOKENS).unwrap();
    assert_eq!(form.call_format, CallFormat::phi4());
    expect![[r#"<|system|>You are a helpful assistant with some tools.<|tool|>[{"name": "look", "description": "Looks <|im_start|> at 'it'.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}]<|/tool|><|end|><|user|>Look.<|end|><|assistant|>I look.<|tool_call|>[{"name": "look", "arguments": {"at": "a \"b\"\né<|end|>"}}, {"name": "look", "arguments": {"at": "it's", "n": [1, true, null]}}]<|/tool_call|><|end|><|tool_response|>a wall<|end|><|tool_response|><tool_call><|end|><|assistant|>"#]].assert_eq(&render(PHI4_MINI, &PHI4_TOKENS, &conversation(), false));
    let with_system = [Turn::new(Role::System, "Be brief."), Turn::new(Role::User, "Look.")];
    expect![[r#"<|system|>Be brief.<|tool|>[{"name": "look", "description": "Looks <|im_start|> at 'it'.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}]<|/tool|><|end|><|user|>Look.<|end|><|assistant|>"#]].assert_eq(&render(PHI4_MINI, &PHI4_TOKENS, &with_system, false));
}

#[test]
fn phi4_calls_are_rendered_by_a_newer_template() {
    expect![[r#"
        Some(
            ToolForm {
                call_format: CallFormat {
                    open: "<|tool_call|>{\"name\": \"",
                    middle: "\", \"arguments\": ",
                    next: Some(
                        "}<|/tool_call|><|tool_call|>{\"name\": \"",
                    ),
                    close: "}<|/tool_call|>",
                },
                input: TemplateInput {
                    tools_in_system: false,
                    calls_as_content: None,
                    result_role: "tool",
                },
            },
        )
    "#]]
    .assert_debug_eq(&detect(PHI4_CALLS, &PHI4_TOKENS));
}

#[test]
fn mistral_format_with_ids_is_detected() {
    expect![[r#"
        Some(
            ToolForm {
                call_format: CallFormat {
                    open: "[TOOL_CALLS]",
                    middle: "[CALL_ID]probeid00[ARGS]",
                    next: Some(
                        "[TOOL_CALLS]",
                    ),
                    close: "",
                },
                input: TemplateInput {
                    tools_in_system: false,
                    calls_as_content: None,
                    result_role: "tool",
                },
            },
        )
    "#]]
    .assert_debug_eq(&detect(MISTRAL_CALL_ID, &[]));
    expect![[r#"<s>[AVAILABLE_TOOLS][{"type": "function", "function": {"name": "look", "description": "Looks <|im_start|> at 'it'.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}][/AVAILABLE_TOOLS][INST]Look.[/INST]I look.[TOOL_CALLS]look[CALL_ID]call00000[ARGS]{"at": "a \"b\"\né<|end|>"}[TOOL_CALLS]look[CALL_ID]call00001[ARGS]{"at": "it's", "n": [1, true, null]}</s>[TOOL_RESULTS]call00000[TOOL_CONTENT]a wall[/TOOL_RESULTS][TOOL_RESULTS]call00001[TOOL_CONTENT]<tool_call>[/TOOL_RESULTS]"#]].assert_eq(&render(MISTRAL_CALL_ID, &[], &conversation(), false));
}

#[test]
fn gemma3_has_no_tool_form() {
    assert_eq!(detect(GEMMA3, &[]), None);
    assert_eq!(detect(PHI4_MINI, &[]), None);
}

/// Returns the state of the reasoning block behind the question `Look.`, with the instructions
/// `system`.
fn block(source: &str, system: &str, thinks: bool) -> ThinkBlock {
    let turns = [Turn::new(Role::System, system), Turn::new(Role::User, "Look. <think>")];
    let edges = HashSet::new();
    let mut outside = OutsideText::new(&edges);
    let input = TemplateInput::default();
    let options = RenderOptions { input: &input, add_generation_prompt: true, enable_thinking: thinks };
    let template = template(source);
    let text = template.render(&turns, &[], options, &mut outside).unwrap();
    template.think_tags().block_at_end(&text)
}

#[test]
fn state_of_the_reasoning_block_is_detected() {
    assert_eq!(block(QWEN3, "Be brief.", false), ThinkBlock::Closed);
    assert_eq!(block(QWEN3, "Be brief.", true), ThinkBlock::Absent);
    assert_eq!(block(SMOLLM3, "Be brief.", false), ThinkBlock::Closed);
    assert_eq!(block(SMOLLM3, "Be brief.", true), ThinkBlock::Absent);
    for thinks in [false, true] {
        assert_eq!(block(ALWAYS_THINKS, "Be brief.", thinks), ThinkBlock::Open);
        assert_eq!(block(SMOLLM3, "Be brief. /no_think", thinks), ThinkBlock::Closed);
        assert_eq!(block(SMOLLM3, "/think Be brief.", thinks), ThinkBlock::Absent);
        assert_eq!(block(HERMES, "Be brief.", thinks), ThinkBlock::Absent);
    }
}

#[test]
fn reasoning_switches_are_removed_by_the_template() {
    let turns = [Turn::new(Role::System, "Be brief. /no_think"), Turn::new(Role::User, "/think")];
    let text = render(SMOLLM3, &[], &turns, true);
    assert!(text.starts_with("<|im_start|>system\nReasoning Mode: /no_think\n\nBe brief. "), "{text}");
    assert!(text.contains("user\n/think<|im_end|>"), "{text}");
}

#[test]
fn malformed_arguments_are_rendered_as_text() {
    let call = TurnCall { id: "call00000".into(), name: "look".into(), arguments: json!("{\"at\": ") };
    let turns =
        [Turn::new(Role::User, "Look."), Turn { calls: vec![call], ..Turn::new(Role::Assistant, "") }];
    for (source, specials, expected) in [
        (QWEN3, [].as_slice(), "{\"name\": \"look\", \"arguments\": {\"at\": }\n</tool_call>"),
        (SMOLLM3, &[], r#"{"name": "look", "arguments": "{\"at\": "}"#),
        (PHI4_MINI, &PHI4_TOKENS, r#"[{"name": "look", "arguments": "{\"at\": "}]<|/tool_call|>"#),
        (MISTRAL_CALL_ID, &[], r#"[TOOL_CALLS]look[CALL_ID]call00000[ARGS]"{\"at\": ""#),
    ] {
        let text = render(source, specials, &turns, false);
        assert!(text.contains(expected), "{text}");
    }
}
