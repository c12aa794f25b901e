use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{choices::find_choices, lint};
use haft_core::{Schema, ToolDefinition, ToolName, tool::DynamicTool, toolset::ToolList};

fn tool(name: &str, description: &str, properties: Value) -> DynamicTool {
    let schema = Schema::for_arguments(json!({"properties": properties})).unwrap();
    let definition = ToolDefinition::new(ToolName::new(name).unwrap(), schema).with_description(description);
    DynamicTool::new(definition, |_, _| async {})
}

fn check(tools: impl IntoIterator<Item = DynamicTool>, expected: Expect) {
    let lints = lint(&ToolList::new("test", tools));
    expected.assert_eq(&lints.iter().map(|lint| format!("{lint}\n")).collect::<String>());
}

/// The lint reports missing and duplicate descriptions, vague names, and arguments without a
/// description. A tool without a description still works.
#[test]
fn gaps_in_descriptions_and_schemas_are_reported() {
    let described = json!({"type": "string", "description": "The city's name in English."});
    check(
        [
            tool("tool_1", "", json!({})),
            tool("get_weather", "Gets the weather.", json!({"city": described, "unit": {"type": "string"}})),
            tool("get_forecast", "gets  the weather", json!({"data": {"type": "object"}})),
            tool("delete-file", "Delete the file.", json!({"from": described, "to": described})),
            tool(
                "sort",
                &"Sorts. ".repeat(200),
                json!({"by": {"type": "array", "description": "What by.", "items": {"type": "object", "properties": {
                    "order": {"type": "string", "description": "One of `asc`, `desc`."},
                    "a/b": {"type": "string", "description": "asc|desc", "enum": ["asc", "desc"]},
                }}}}),
            ),
        ],
        expect![[r#"
            tool_1: its name is vague: name what it does, or what it is
            tool_1: has no description: say what it does, and when to use it
            get_weather, argument /unit: has no description: say what it is, and in what form
            get_forecast: has the same description as "get_weather": describe the difference
            get_forecast, argument /data: has no description: say what it is, and in what form
            get_forecast, argument /data: its name is vague: name what it does, or what it is
            delete-file: its description only repeats the name: say what the name does not
            delete-file, argument /to: has the same description as "from": describe the difference
            sort: its description is longer than 1024 characters and may be truncated: shorten it
            sort, argument /by/-/order: accepts any text, but its description lists the allowed values: make "asc", "desc" an enum
        "#]],
    );
    let good =
        json!({"city": described, "day": {"type": "string", "format": "date", "description": "The day."}});
    check([tool("get_weather", "Returns the weather of a day.", good)], expect![""]);
}

#[test]
fn allowed_values_are_distinguished_from_examples() {
    assert_eq!(find_choices(r#"Either "up" or "down"."#), ["up", "down"]);
    assert_eq!(find_choices("The format: 'iso', 'unix' and 'rfc-2822'"), ["iso", "unix", "rfc-2822"]);
    assert_eq!(find_choices("The unit (celsius|fahrenheit)."), ["celsius", "fahrenheit"]);
    for open in [
        "A text.",
        r#"A city, such as "Oslo" or "Rome"."#,
        "The word 'up' in capitals, then 'down'.",
        r#"What to say, in "quotes"."#,
        "It's the user's name.",
        "a || b",
    ] {
        assert_eq!(find_choices(open), Vec::<String>::new(), "{open}");
    }
}
