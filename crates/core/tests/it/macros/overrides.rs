//! What is given by hand for a tool that is there already: each by itself, whatever kind of tool it is.

use expect_test::{Expect, expect};
use haft_core::{
    Schema, Tool, ToolDefinition, ToolExt, ToolName, Toolset,
    call::FailureKind,
    export::schemars::{self, JsonSchema},
    tool,
    tool::DynamicTool,
    tool_fn,
    toolset::ToolList,
};
use serde::Deserialize;
use serde_json::json;

/// Adds two integers.
#[tool]
fn add(
    /// The first.
    x: i64,
    #[tool(default = 0)] y: i64,
) -> i64 {
    x + y
}

#[derive(Deserialize, JsonSchema)]
struct Sum {
    x: i64,
    #[serde(default)]
    y: i64,
}

fn closure() -> impl Tool + 'static {
    tool_fn("add", "Adds two integers.", |Sum { x, y }| async move { x + y })
}

fn check(definition: &ToolDefinition, expected: Expect) {
    assert_eq!(definition.defect(), None);
    expected.assert_eq(&definition.to_string());
}

/// Behaviour A4, for a tool that somebody else wrote.
#[test]
fn each_part_is_overridden_by_itself() {
    check(
        Add.with_definition(|it| it.with_name("plus")).definition(),
        expect![[
            r#"plus: Adds two integers. Arguments: {"type":"object","properties":{"x":{"type":"integer","description":"The first."},"y":{"type":"integer","default":0}},"required":["x"],"additionalProperties":false}"#
        ]],
    );
    check(
        Add.with_definition(|it| it.with_description("Sums.")).definition(),
        expect![[
            r#"add: Sums. Arguments: {"type":"object","properties":{"x":{"type":"integer","description":"The first."},"y":{"type":"integer","default":0}},"required":["x"],"additionalProperties":false}"#
        ]],
    );
    check(
        Add.with_definition(|it| {
            it.with_argument_description("y", "The second.").with_argument_description("x", "The one.")
        })
        .definition(),
        expect![[
            r#"add: Adds two integers. Arguments: {"type":"object","properties":{"x":{"type":"integer","description":"The one."},"y":{"type":"integer","default":0,"description":"The second."}},"required":["x"],"additionalProperties":false}"#
        ]],
    );
    check(
        closure()
            .with_definition(|it| it.with_input_schema(json!({"properties": {"x": {"enum": [1, 2]}}})))
            .definition(),
        expect![[
            r#"add: Adds two integers. Arguments: {"type":"object","properties":{"x":{"enum":[1,2]}}}"#
        ]],
    );
    assert_eq!(Add.definition().name(), &"add", "the tool itself stays as it is");
}

/// What is said about an argument stays, in whatever order the parts are given.
#[test]
fn a_schema_by_hand_keeps_the_descriptions_by_hand() {
    let schema = || json!({"properties": {"x": {"type": "integer", "maximum": 9}, "y": true}});
    let before = Add
        .with_definition(|it| it.with_input_schema(schema()).with_argument_description("x", "Small."))
        .definition()
        .clone();
    let after = Add
        .with_definition(|it| it.with_argument_description("x", "Small.").with_input_schema(schema()))
        .definition()
        .clone();
    assert_eq!(before.input_schema(), after.input_schema());
    let any =
        Add.with_definition(|it| it.with_input_schema(schema()).with_argument_description("y", "Anything."));
    assert_eq!(any.args()[1].1, &json!({"description": "Anything."}));
    let behind = json!({
        "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b~1c"}, "b/c": {"properties": {"x/y": {}}}}
    });
    let behind =
        Add.with_definition(|it| it.with_input_schema(behind).with_argument_description("x/y", "Far."));
    assert_eq!(behind.args(), [("x/y", &json!({"description": "Far."}))]);
}

/// The schema by hand decides which calls are made; the type has the last word, and is quoted.
#[test]
fn a_schema_by_hand_validates_in_place_of_the_inferred_one() {
    let narrow = |it: ToolDefinition| {
        it.with_input_schema(
            json!({"properties": {"x": {"type": "integer", "maximum": 9}}, "required": ["x"]}),
        )
    };
    let wide = |it: ToolDefinition| it.with_input_schema(json!({"properties": {"x": {}, "z": {}}}));
    let told = |tool: &dyn Tool, arguments| {
        let result = tool.invoke_blocking(arguments);
        (result.failure().map(|failure| failure.kind), result.model_text().into_owned())
    };
    let invalid = Some(FailureKind::InvalidArguments);
    for (inferred, narrowed, widened) in [
        (
            &Add as &dyn Tool,
            &Add.with_definition(narrow) as &dyn Tool,
            &Add.with_definition(wide) as &dyn Tool,
        ),
        (&closure(), &closure().with_definition(narrow), &closure().with_definition(wide)),
    ] {
        assert_eq!(told(inferred, json!({"x": 10})), (None, "10".to_owned()));
        let too_large = "invalid arguments: /x: expected at most 9, received integer 10";
        assert_eq!(told(narrowed, json!({"x": 10})), (invalid, too_large.to_owned()));
        assert_eq!(told(narrowed, json!({"x": 9, "y": 1})), (None, "10".to_owned()));
        assert_eq!(told(widened, json!({"x": 3, "z": 1})), (None, "3".to_owned()));
        let (kind, text) = told(widened, json!({"x": "three"}));
        assert_eq!(kind, invalid);
        assert!(
            text.starts_with("invalid arguments: /x: invalid type: string \"three\", expected i64"),
            "{text}"
        );
        let (kind, text) = told(widened, json!({}));
        assert_eq!(kind, invalid);
        assert!(text.contains('x') && text.contains("missing"), "{text}");
    }
}

/// A wrong override is told when the toolset is checked, and costs its own tool.
#[tokio::test]
async fn a_wrong_override_is_a_defect() {
    let defect = |change: &dyn Fn(ToolDefinition) -> ToolDefinition| {
        let tool = Add.with_definition(change);
        tool.definition().defect().unwrap_or_default().to_owned()
    };
    expect![[r#""" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#]]
        .assert_eq(&defect(&|it| it.with_name("")));
    expect![[r#""get.sum" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#]]
        .assert_eq(&defect(&|it| it.with_name("get.sum")));
    expect![[r#"its arguments: there is no "z" to describe; known: "x", "y""#]]
        .assert_eq(&defect(&|it| it.with_argument_description("z", "…")));
    expect![[r#"its arguments: there is no "x" to describe; known: none"#]].assert_eq(&defect(&|it| {
        it.with_argument_description("x", "…").with_input_schema(json!({"type": "object"}))
    }));
    expect!["its arguments: invalid schema at /: expected boolean or object, received array [1]"]
        .assert_eq(&defect(&|it| it.with_input_schema(json!([1]))));
    expect!["its arguments: invalid schema at /: the arguments of a tool must be an object"]
        .assert_eq(&defect(&|it| it.with_input_schema(json!({"type": "string"}))));
    expect![[
        r#"its output: invalid schema at /type: "strnig" is not a type of JSON Schema, expected "string""#
    ]]
    .assert_eq(&defect(&|it| it.with_output_schema(json!({"type": "strnig"}))));

    let wrong = Add.with_definition(|it| it.with_name("get.sum"));
    let tools = Toolset::new().with(wrong).with(closure());
    expect![[r#"tool "add" cannot be used: "get.sum" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#]].assert_eq(&tools.check().unwrap_err().to_string());
    assert_eq!(tools.names().await, ["add"]);
}

/// What is right mends what was wrong.
#[test]
fn a_part_that_is_replaced_has_no_defect() {
    let broken = tool_fn("get.sum", "", |list: Vec<i64>| async move { list.len().to_string() });
    assert!(broken.definition().defect().is_some());
    let mended = broken.with_definition(|it| {
        it.with_name(ToolName::new("sum").unwrap()).with_input_schema(Schema::object())
    });
    assert_eq!(mended.definition().defect(), None);
}

/// The tool of a server has the same overrides, and is called by the name that it knows itself.
#[tokio::test]
async fn a_listed_tool_is_overridden_too() {
    let echo = DynamicTool::new(
        ToolDefinition::new(
            ToolName::new("echo").unwrap(),
            Schema::arguments(json!({"properties": {"q": {"type": "string"}}})).unwrap(),
        ),
        |arguments, _| async move { arguments.to_string() },
    );
    let list = ToolList::new("server", [echo]);
    let listed = list.tools().iter().map(|tool| {
        tool.clone().with_definition(|it| it.with_name("say").with_argument_description("q", "What to say."))
    });
    let tools = Toolset::new().with_all(listed);
    tools.check().unwrap();
    assert_eq!(tools.call("say", json!({"q": "hello"})).await.model_text(), r#"{"q":"hello"}"#);
    let info = tools.info("say").await.unwrap();
    assert_eq!(info.input_schema().as_value()["properties"]["q"]["description"], json!("What to say."));
}
