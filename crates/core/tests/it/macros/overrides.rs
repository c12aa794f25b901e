//! Changes to the definition of a tool by `with_definition`, for each kind of tool.

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

/// Each part of a definition can be changed without affecting the other parts.
#[test]
fn parts_of_a_definition_are_overridden_independently() {
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
    assert_eq!(Add.definition().name(), &"add", "the tool itself is unchanged");
}

/// If a definition gets both a new schema and a new argument description, the description is in the
/// new schema, regardless of the order of the two changes.
#[test]
fn overridden_schema_keeps_overridden_descriptions() {
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
    assert_eq!(any.argument_schemas()[1].1, &json!({"description": "Anything."}));
    let referenced = json!({
        "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b~1c"}, "b/c": {"properties": {"x/y": {}}}}
    });
    let referenced =
        Add.with_definition(|it| it.with_input_schema(referenced).with_argument_description("x/y", "Far."));
    assert_eq!(referenced.argument_schemas(), [("x/y", &json!({"description": "Far."}))]);
}

/// Arguments are validated against the new schema. If the schema accepts a value that the Rust type
/// rejects, the call fails with the error of `Deserialize`.
#[test]
fn overridden_schema_replaces_the_inferred_one_in_validation() {
    let narrow = |it: ToolDefinition| {
        it.with_input_schema(
            json!({"properties": {"x": {"type": "integer", "maximum": 9}}, "required": ["x"]}),
        )
    };
    let wide = |it: ToolDefinition| it.with_input_schema(json!({"properties": {"x": {}, "z": {}}}));
    let failure_and_text = |tool: &dyn Tool, arguments| {
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
        assert_eq!(failure_and_text(inferred, json!({"x": 10})), (None, "10".to_owned()));
        let too_large = "invalid arguments: /x: expected at most 9, received integer 10";
        assert_eq!(failure_and_text(narrowed, json!({"x": 10})), (invalid, too_large.to_owned()));
        assert_eq!(failure_and_text(narrowed, json!({"x": 9, "y": 1})), (None, "10".to_owned()));
        assert_eq!(failure_and_text(widened, json!({"x": 3, "z": 1})), (None, "3".to_owned()));
        let (kind, text) = failure_and_text(widened, json!({"x": "three"}));
        assert_eq!(kind, invalid);
        assert!(
            text.starts_with("invalid arguments: /x: invalid type: string \"three\", expected i64"),
            "{text}"
        );
        let (kind, text) = failure_and_text(widened, json!({}));
        assert_eq!(kind, invalid);
        assert!(text.contains('x') && text.contains("missing"), "{text}");
    }
}

/// An invalid change is a defect of the tool. `Toolset::check` reports it, and other tools are not
/// affected.
#[tokio::test]
async fn invalid_override_is_a_defect() {
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
    let tools = Toolset::new().with_tool(wrong).with_tool(closure());
    expect![[r#"tool "add" cannot be used: "get.sum" is not a tool name: use 1 to 64 of the letters A-Z and a-z, digits, "_" and "-""#]].assert_eq(&tools.check().unwrap_err().to_string());
    assert_eq!(tools.names().await, ["add"]);
}

#[test]
fn valid_override_removes_the_defect() {
    let broken = tool_fn("get.sum", "", |list: Vec<i64>| async move { list.len().to_string() });
    assert!(broken.definition().defect().is_some());
    let fixed = broken.with_definition(|it| {
        it.with_name(ToolName::new("sum").unwrap()).with_input_schema(Schema::object())
    });
    assert_eq!(fixed.definition().defect(), None);
}

/// The definition of a tool from a source, such as an MCP server, can be changed like any other
/// definition.
#[tokio::test]
async fn definition_of_a_listed_tool_can_be_overridden() {
    let echo = DynamicTool::new(
        ToolDefinition::new(
            ToolName::new("echo").unwrap(),
            Schema::for_arguments(json!({"properties": {"q": {"type": "string"}}})).unwrap(),
        ),
        |arguments, _| async move { arguments.to_string() },
    );
    let list = ToolList::new("server", [echo]);
    let listed = list.tools().iter().map(|tool| {
        tool.clone().with_definition(|it| {
            it.with_name("repeat").with_argument_description("q", "The text to repeat.")
        })
    });
    let tools = Toolset::new().with_tools(listed.collect::<Vec<_>>());
    tools.check().unwrap();
    assert_eq!(tools.call("repeat", json!({"q": "hello"})).await.model_text(), r#"{"q":"hello"}"#);
    let definition = tools.definition("repeat").await.unwrap();
    assert_eq!(
        definition.input_schema().as_value()["properties"]["q"]["description"],
        json!("The text to repeat.")
    );
}
