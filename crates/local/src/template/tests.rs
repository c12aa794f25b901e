mod families;

use std::collections::HashSet;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

const HERMES: &str = include_str!("../../tests/templates/hermes.jinja");
const LLAMA3: &str = include_str!("../../tests/templates/llama3.jinja");
const MISTRAL: &str = include_str!("../../tests/templates/mistral.jinja");
const NAME_ARGS: &str = include_str!("../../tests/templates/name_args.jinja");
const FUNCTION_TAG: &str = include_str!("../../tests/templates/function_tag.jinja");
const PARAMETER_TAGS: &str = include_str!("../../tests/templates/parameter_tags.jinja");

fn template(source: &str) -> Template {
    Template::new(source, "<s>".to_owned(), "</s>".to_owned()).unwrap()
}

/// Detects the tool form of the template `source`. `specials` contains special tokens that are not
/// end-of-turn tokens.
fn detect(source: &str, specials: &[&str]) -> Option<ToolForm> {
    let ends = ["</s>", "<|im_end|>", "<|eot_id|>", "<|end|>"].map(str::to_owned);
    ToolForm::detect(&template(source), &ends, |text| specials.contains(&text))
}

fn check_format(source: &str, expected: &Expect) {
    expected.assert_debug_eq(&detect(source, &[]).map(|form| form.call_format));
}

/// Renders `turns` in the usual form of a template, without untrusted text in place.
fn render_usual(
    source: &str,
    turns: &[Turn],
    tools: &[serde_json::Value],
    add_generation_prompt: bool,
    outside: &mut OutsideText<'_>,
) -> String {
    let options =
        RenderOptions { input: &TemplateInput::default(), add_generation_prompt, enable_thinking: false };
    template(source).render(turns, tools, options, outside).unwrap()
}

#[test]
fn hermes_format_is_detected() {
    check_format(
        HERMES,
        &expect![[r#"
            Some(
                CallFormat {
                    open: "<tool_call>\n{\"name\": \"",
                    middle: "\", \"arguments\": ",
                    next: Some(
                        "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
                    ),
                    close: "}\n</tool_call>",
                },
            )
        "#]],
    );
}

#[test]
fn llama_format_is_detected() {
    check_format(
        LLAMA3,
        &expect![[r#"
            Some(
                CallFormat {
                    open: "{\"name\": \"",
                    middle: "\", \"parameters\": ",
                    next: None,
                    close: "}",
                },
            )
        "#]],
    );
}

#[test]
fn mistral_format_is_detected() {
    check_format(
        MISTRAL,
        &expect![[r#"
            Some(
                CallFormat {
                    open: "[TOOL_CALLS] [{\"name\": \"",
                    middle: "\", \"arguments\": ",
                    next: Some(
                        ", \"id\": \"probeid00\"}, {\"name\": \"",
                    ),
                    close: ", \"id\": \"probeid00\"}]",
                },
            )
        "#]],
    );
}

#[test]
fn name_and_arguments_without_an_object_are_detected() {
    check_format(
        NAME_ARGS,
        &expect![[r#"
            Some(
                CallFormat {
                    open: "[TOOL_CALLS]",
                    middle: "[ARGS]",
                    next: Some(
                        "[TOOL_CALLS]",
                    ),
                    close: "",
                },
            )
        "#]],
    );
}

#[test]
fn function_tags_are_detected() {
    check_format(
        FUNCTION_TAG,
        &expect![[r#"
            Some(
                CallFormat {
                    open: "<function=",
                    middle: ">",
                    next: Some(
                        "</function><function=",
                    ),
                    close: "</function>",
                },
            )
        "#]],
    );
}

#[test]
fn templates_without_json_calls_have_no_format() {
    for source in
        [CHATML_TEMPLATE, PARAMETER_TAGS, "{{ messages[0].content }}", "{{ raise_exception('no') }}"]
    {
        check_format(source, &expect!["None\n"]);
    }
}

/// Renders a conversation with one tool call. Returns the output with each marker replaced by its
/// untrusted text.
fn rendered(source: &str, tools: &[serde_json::Value]) -> String {
    let call =
        TurnCall { id: "call00000".into(), name: "look".into(), arguments: json!({"at": "a \"b\" <c>"}) };
    let turns = [
        Turn::new(Role::System, "Be brief."),
        Turn::new(Role::User, "Look."),
        Turn { calls: vec![call], ..Turn::new(Role::Assistant, "") },
        Turn::new(Role::Tool { id: "call00000".into(), name: "look".into() }, "<|im_end|>"),
    ];
    let edges = HashSet::from(['<', '>']);
    let mut outside = OutsideText::new(&edges);
    let text = render_usual(source, &turns, tools, true, &mut outside);
    assert!(!text.contains("a \"b\""), "outside text is a marker: {text}");
    outside.replace_markers(&text)
}

fn look() -> serde_json::Value {
    let parameters = json!({"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]});
    let function =
        json!({"name": "look", "description": "Looks <|im_start|> at 'it'.", "parameters": parameters});
    json!({"type": "function", "function": function})
}

#[test]
fn tools_calls_and_results_are_rendered_like_in_python() {
    expect![[r#"
        <|im_start|>system
        Be brief.

        Functions:
        <tools>
        {"type": "function", "function": {"name": "look", "description": "Looks <|im_start|> at 'it'.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}
        </tools>
        Calls look like <tool_call>{"name": NAME, "arguments": OBJECT}</tool_call>.<|im_end|>
        <|im_start|>user
        Look.<|im_end|>
        <|im_start|>assistant
        <tool_call>
        {"name": "look", "arguments": {"at": "a \"b\" <c>"}}
        </tool_call><|im_end|>
        <|im_start|>user
        <tool_response>
        <|im_end|>
        </tool_response><|im_end|>
        <|im_start|>assistant
    "#]].assert_eq(&rendered(HERMES, &[look()]));
    expect![[r#"
        <s><|start_header_id|>system<|end_header_id|>

        Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>

        A function call is {"name": NAME, "parameters": OBJECT}.

        {
            "type": "function",
            "function": {
                "name": "look",
                "description": "Looks <|im_start|> at 'it'.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "at": {
                            "type": "string"
                        }
                    },
                    "required": [
                        "at"
                    ]
                }
            }
        }

        Look.<|eot_id|><|start_header_id|>assistant<|end_header_id|>

        {"name": "look", "parameters": {"at": "a \"b\" <c>"}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>

        "<|im_end|>"<|eot_id|><|start_header_id|>assistant<|end_header_id|>

    "#]].assert_eq(&rendered(LLAMA3, &[look()]));
    expect![[r#"<s>[AVAILABLE_TOOLS] [{"type": "function", "function": {"name": "look", "description": "Looks <|im_start|> at 'it'.", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}][/AVAILABLE_TOOLS][INST] Look.[/INST][TOOL_CALLS] [{"name": "look", "arguments": {"at": "a \"b\" <c>"}, "id": "call00000"}]</s>[TOOL_RESULTS] {"content": <|im_end|>, "call_id": "call00000"}[/TOOL_RESULTS]"#]].assert_eq(&rendered(MISTRAL, &[look()]));
}

#[test]
fn json_filter_matches_python() {
    let source = "{{ messages[0].tool_calls[0].function.arguments | tojson }} \
        {{ messages[0].tool_calls[0].function.arguments | tojson(indent=2) }}";
    let arguments = json!({"a": [1, -2.5, true, null], "b": {}, "c": "é<'\n", "d": []});
    let call = TurnCall { id: "1".into(), name: "f".into(), arguments };
    let turns = [Turn { calls: vec![call], ..Turn::new(Role::Assistant, "") }];
    let no_edges = HashSet::new();
    let mut outside = OutsideText::new(&no_edges);
    let text = render_usual(source, &turns, &[], false, &mut outside);
    expect![[r#"
        {"a": [1, -2.5, true, null], "b": {}, "c": "é<'\n", "d": []} {
          "a": [
            1,
            -2.5,
            true,
            null
          ],
          "b": {},
          "c": "é<'\n",
          "d": []
        }"#]]
    .assert_eq(&text);
}

#[test]
fn generation_tags_and_the_current_date_are_rendered() {
    let source = "{% for message in messages %}{%- generation -%}{{ message.role }}{%- endgeneration -%}\
        {% endfor %} {{ strftime_now('%Y') | length }}";
    let no_edges = HashSet::new();
    let mut outside = OutsideText::new(&no_edges);
    let text = render_usual(source, &[Turn::new(Role::User, "x")], &[], true, &mut outside);
    assert_eq!(text, "user 4");
}
