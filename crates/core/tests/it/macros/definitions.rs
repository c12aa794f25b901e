//! Definitions made by `#[tool]`: names, descriptions, schemas, options and constraints.

use std::time::Duration;

use expect_test::{Expect, expect};
use haft_core::{
    Json, Tool, ToolContext, ToolExt, Toolset, tool,
    tool::{Deprecation, StateType, Touch},
};
use serde_json::{Map, Value, json};

/// Add two integers.
#[tool]
fn add(x: i64, #[tool(default = 0)] y: i64) -> i64 {
    x + y
}

fn check(tool: impl Tool, expected: Expect) {
    assert_eq!(tool.definition().defect(), None);
    expected.assert_eq(&serde_json::to_string_pretty(tool.definition()).unwrap());
}

/// Behaviour A1: the tool of a function has the name of the function, its doc comment as the
/// description, and a schema of its parameters. A parameter with a default is optional.
#[test]
fn function_is_a_tool_with_the_schema_of_its_parameters() {
    check(
        Add,
        expect![[r#"
        {
          "name": "add",
          "description": "Add two integers.",
          "input_schema": {
            "type": "object",
            "properties": {
              "x": {
                "type": "integer"
              },
              "y": {
                "type": "integer",
                "default": 0
              }
            },
            "required": [
              "x"
            ],
            "additionalProperties": false
          }
        }"#]],
    );
    assert_eq!(add(17, 25), 42, "the function can still be called");
}

/// Behaviour A3: `Display` prints a definition as one line of prompt text, even if the description
/// has line breaks.
#[test]
fn display_of_a_definition_is_one_prompt_line() {
    /// Looks up the weather.
    ///
    /// Covers
    /// every city.
    #[tool]
    fn weather(
        /// Name of the city.
        city: String,
    ) -> String {
        city
    }

    expect![[r#"weather: Looks up the weather. Covers every city. Arguments: {"type":"object","properties":{"city":{"type":"string","description":"Name of the city."}},"required":["city"],"additionalProperties":false}"#]].assert_eq(&Weather.definition().to_string());
}

/// Behaviour A4: an explicit name, description or schema overrides the inferred one, and the other
/// parts stay inferred.
#[test]
fn explicit_name_description_and_schema_override_inferred_ones() {
    /// Inferred.
    #[tool(name = "given")]
    fn renamed(n: i64) -> i64 {
        n
    }
    let definition = Renamed.definition();
    assert_eq!(definition.name(), &"given");
    assert_eq!(definition.description(), "Inferred.");
    assert_eq!(Renamed.argument_schemas(), [("n", &json!({"type": "integer"}))]);

    const GIVEN: &str = "Given.";
    /// Inferred.
    #[tool(title = "A title", description = GIVEN)]
    fn described(n: i64) -> i64 {
        n
    }
    let definition = Described.definition();
    assert_eq!(definition.name(), &"described");
    assert_eq!(definition.title(), Some("A title"));
    assert_eq!(definition.description(), "Given.");
    assert_eq!(Described.argument_schemas(), [("n", &json!({"type": "integer"}))]);

    let given = json!({"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]});
    /// Inferred.
    #[tool(schema = json!({"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}))]
    fn specified(n: i64) -> i64 {
        n
    }
    let definition = Specified.definition();
    assert_eq!(definition.name(), &"specified");
    assert_eq!(definition.description(), "Inferred.");
    assert_eq!(definition.input_schema().as_value(), &given);
    assert!(Specified.invoke_blocking(json!({"n": 2})).is_success());
    assert!(!Specified.invoke_blocking(json!({"n": 3})).is_success());
}

/// With an explicit schema, an argument type does not need `JsonSchema`. It may be a type of
/// another crate.
#[test]
fn explicit_schema_allows_a_type_without_json_schema() {
    #[derive(serde::Deserialize)]
    struct Foreign {
        n: i64,
    }

    #[tool(schema = json!({"properties": {"foreign": {"type": "object"}}, "required": ["foreign"]}))]
    fn unwrap(foreign: Foreign) -> i64 {
        foreign.n
    }

    assert_eq!(Unwrap.invoke_blocking(json!({"foreign": {"n": 7}})).model_text(), "7");
}

#[test]
fn invalid_explicit_schema_is_a_defect() {
    #[tool(schema = json!({"type": "array"}))]
    fn broken() {}

    expect!["its arguments: invalid schema at /: the arguments of a tool must be an object"]
        .assert_eq(Broken.definition().defect().unwrap_or_default());
}

/// Behaviour A7: a tool without arguments has the schema `{"type":"object","properties":{}}` in
/// every provider format.
#[test]
fn schema_without_arguments_is_an_object_without_properties() {
    #[tool]
    fn ping() -> &'static str {
        "pong"
    }

    check(
        Ping,
        expect![[r#"
        {
          "name": "ping",
          "description": "",
          "input_schema": {
            "type": "object",
            "properties": {}
          }
        }"#]],
    );
    assert_eq!(Ping.invoke_blocking(json!({})).model_text(), "pong");
    assert_eq!(Ping.invoke_blocking(json!({"confirm": true})).model_text(), "pong");
}

/// Behaviour A64: a toolset lists names, definitions and argument schemas, and selects subsets. An
/// unknown name is an error that lists the known names.
#[tokio::test]
async fn arguments_of_a_tool_are_listed_by_name() {
    assert_eq!(
        Add.argument_schemas(),
        [("x", &json!({"type": "integer"})), ("y", &json!({"type": "integer", "default": 0}))]
    );
    let info = Toolset::new().with_tool(Add).definition("add").await.unwrap();
    assert_eq!(info.description(), "Add two integers.");
    assert_eq!(info.input_schema(), Add.definition().input_schema());
}

/// Behaviour A66: a tool without a description works. The lint reports missing or copied
/// descriptions, vague names and undescribed arguments.
#[test]
fn tool_without_a_description_is_valid() {
    #[tool]
    fn silent(n: i64) -> i64 {
        n
    }

    assert_eq!(Silent.definition().description(), "");
    assert_eq!(Silent.argument_schemas(), [("n", &json!({"type": "integer"}))]);
}

#[test]
fn doc_comments_are_trimmed_and_keep_their_paragraphs() {
    /// Searches.
    ///
    /// Give it:
    ///   - words
    ///
    #[doc = concat!("Not a ", "sentence.")]
    #[tool]
    fn search(
        /// The words to search for,
        /// in one line.
        ///
        query: String,
    ) -> String {
        query
    }

    expect![[r#"
        Searches.

        Give it:
          - words

        Not a sentence."#]]
    .assert_eq(Search.definition().description());
    let description = Search.argument_schemas()[0].1["description"].as_str().unwrap();
    assert_eq!(description, "The words to search for,\nin one line.");
}

#[test]
fn context_and_state_parameters_are_not_arguments() {
    #[tool]
    fn stateful(#[tool(context)] cx: &ToolContext, n: i64, #[tool(state)] prefix: String) -> String {
        format!("{prefix}{n}{}", cx.call_id())
    }

    assert_eq!(Stateful.argument_schemas().len(), 1);
    assert_eq!(Stateful.definition().state(), [StateType::of::<String>()]);
}

#[test]
fn options_set_the_policy() {
    #[tool(timeout = Duration::from_secs(5), retries = 7, requires_approval, sequential, idempotent)]
    fn careful() {}

    let policy = Careful.definition().policy();
    assert_eq!((policy.timeout, policy.retries), (Duration::from_secs(5), 7));
    assert!(policy.requires_approval && policy.sequential && policy.idempotent);

    let policy = Add.definition().policy();
    assert_eq!(policy, &tool::ToolPolicy::default());
}

#[test]
fn touches_are_a_function_or_a_closure() {
    fn edited(arguments: &Value) -> Vec<Touch> {
        vec![Touch::write(format!("file:{}", arguments["path"].as_str().unwrap_or_default()))]
    }

    #[tool(touches = edited, retries = 1)]
    fn edit(path: String) -> String {
        path
    }

    #[tool(touches = |_| vec![Touch::read("clock")])]
    fn time() {}

    let touches = |tool: &dyn Tool| {
        let access = tool.definition().policy().touches.clone();
        access.unwrap().touches(&json!({"path": "a"})).unwrap()
    };
    assert_eq!(touches(&Edit), [Touch::write("file:a")]);
    assert_eq!(touches(&Time), [Touch::read("clock")]);
}

#[test]
fn return_type_json_sets_the_output_schema() {
    #[derive(serde::Serialize, haft_core::export::schemars::JsonSchema)]
    #[schemars(crate = "haft_core::export::schemars")]
    struct Total {
        /// The sum.
        sum: i64,
    }

    #[tool]
    async fn sum(x: i64, y: i64) -> Result<Json<Total>, std::num::ParseIntError> {
        Ok(Json(Total { sum: x + y }))
    }

    expect![[r#"{"type":"object","properties":{"sum":{"type":"integer","description":"The sum."}},"required":["sum"]}"#]].assert_eq(&Sum.definition().output_schema().unwrap().as_value().to_string());
}

#[test]
fn options_set_annotations_scopes_and_deprecation() {
    /// Deletes a file.
    #[deprecated(since = "2.0.0", note = "it is too easy")]
    #[tool(
        read_only = false,
        destructive,
        idempotent,
        open_world = false,
        requires_scope = "files:write",
        requires_scope = "files:delete",
        output_limit = 1000,
        replaced_by = "trash"
    )]
    fn delete(file: String) -> String {
        file
    }

    /// An old tool.
    #[tool(deprecated)]
    fn old() {}

    let definition = Delete.definition();
    assert!(definition.policy().idempotent);
    assert_eq!(definition.policy().output_limit, 1000);
    assert_eq!(definition.policy().required_scopes, ["files:write", "files:delete"]);
    let annotations = definition.annotations();
    assert_eq!(
        (annotations.read_only, annotations.destructive, annotations.idempotent, annotations.open_world),
        (Some(false), Some(true), Some(true), Some(false))
    );
    let deprecation = definition.deprecation().unwrap();
    assert_eq!(deprecation.replacement.as_deref(), Some("trash"));
    assert_eq!(deprecation.note.as_deref(), Some("it is too easy"));
    assert_eq!(Old.definition().deprecation(), Some(&Deprecation::default()));
}

/// Behaviour A68: the prompt line and the tool info of a deprecated tool name its replacement.
#[tokio::test]
async fn deprecation_is_in_the_definition() {
    /// Returns the time.
    #[tool(deprecated = "it ignores\nzones", replaced_by = "now")]
    fn time() {}

    #[tool(deprecated)]
    fn bare() {}

    expect![[r#"time: [deprecated: it ignores zones; use "now"] Returns the time. Arguments: {"type":"object","properties":{}}"#]]
        .assert_eq(&Time.definition().to_string());
    expect![[r#"bare: [deprecated] Arguments: {"type":"object","properties":{}}"#]]
        .assert_eq(&Bare.definition().to_string());
    let info = Toolset::new().with_tool(Time).definition("time").await.unwrap();
    assert_eq!(
        serde_json::to_value(info).unwrap()["deprecated"],
        json!({"replacement": "now", "note": "it ignores\nzones"})
    );
}

#[test]
fn constraints_are_in_the_schema_and_enforced() {
    const MAX_FLIGHTS: u32 = 100;
    /// Finds flights.
    ///
    /// # Arguments
    ///
    /// * `from` - The airport, as its code.
    /// * `when`: The day.
    #[tool]
    fn flights(
        #[tool(pattern = "^[A-Z]{3}$", examples = ["MUC"])] from: String,
        #[tool(rename = "date", format = "date")] when: String,
        #[tool(range = 1..=MAX_FLIGHTS, default = 10)] limit: u32,
        #[tool(range = 0.0..1.0)] share: Option<f64>,
        #[tool(length = 1..=2)] classes: Vec<String>,
        #[tool(length = ..20, description = concat!("Anything ", "else."))] note: Option<String>,
    ) -> String {
        format!("{from} {when} {limit} {share:?} {classes:?} {note:?}")
    }

    check(
        Flights,
        expect![[r#"
        {
          "name": "flights",
          "description": "Finds flights.",
          "input_schema": {
            "type": "object",
            "properties": {
              "from": {
                "type": "string",
                "pattern": "^[A-Z]{3}$",
                "examples": [
                  "MUC"
                ],
                "description": "The airport, as its code."
              },
              "date": {
                "type": "string",
                "format": "date",
                "description": "The day."
              },
              "limit": {
                "type": "integer",
                "default": 10,
                "minimum": 1,
                "maximum": 100
              },
              "share": {
                "type": [
                  "number",
                  "null"
                ],
                "exclusiveMaximum": 1.0,
                "minimum": 0.0
              },
              "classes": {
                "type": "array",
                "items": {
                  "type": "string"
                },
                "minItems": 1,
                "maxItems": 2
              },
              "note": {
                "type": [
                  "string",
                  "null"
                ],
                "maxLength": 19,
                "description": "Anything else."
              }
            },
            "required": [
              "from",
              "date",
              "classes"
            ],
            "additionalProperties": false
          }
        }"#]],
    );
    let right = json!({"from": "MUC", "date": "2026-11-22", "classes": ["a"]});
    assert_eq!(Flights.invoke_blocking(&right).model_text(), r#"MUC 2026-11-22 10 None ["a"] None"#);
    let wrong = json!({
        "from": "muc", "date": "tomorrow", "limit": 101, "share": 1.0, "classes": [], "note": "x".repeat(20)
    });
    expect![[r#"
        invalid arguments: /from: expected string that matches the pattern ^[A-Z]{3}$, received string "muc"
        /date: expected string of format date, such as 2026-01-31, received string "tomorrow"
        /limit: expected at most 100, received integer 101
        /share: expected less than 1.0, received number 1.0
        /classes: expected at least 1 item, received array []
        /note: expected at most 19 characters, received string "xxxxxxxxxxxxxxxxxxxx""#]]
    .assert_eq(&Flights.invoke_blocking(wrong).model_text());
}

/// Behaviour A9: a tool with a flattened map accepts additional arguments of the map's value type.
#[test]
fn flattened_parameter_accepts_additional_arguments() {
    #[tool]
    fn label(id: u32, #[tool(flatten)] labels: std::collections::BTreeMap<String, String>) -> String {
        format!("{id} {labels:?}")
    }

    #[tool]
    fn anything(#[tool(flatten)] all: Map<String, Value>) -> String {
        Value::Object(all).to_string()
    }

    let additional =
        |tool: &dyn Tool| tool.definition().input_schema().as_value()["additionalProperties"].clone();
    assert_eq!(additional(&Label), json!({"type": "string"}));
    assert_eq!(additional(&Anything), json!(true));
    let result_text =
        |tool: &dyn Tool, arguments: Value| tool.invoke_blocking(arguments).model_text().into_owned();
    assert_eq!(result_text(&Label, json!({"id": 1, "a": "b"})), r#"1 {"a": "b"}"#);
    assert_eq!(result_text(&Label, json!({"id": 1})), "1 {}");
    expect!["invalid arguments: /a: expected string, received array [3]"]
        .assert_eq(&result_text(&Label, json!({"id": 1, "a": [3]})));
    assert_eq!(result_text(&Anything, json!({"a": [3]})), r#"{"a":[3]}"#);

    #[derive(Debug, serde::Deserialize, haft_core::export::schemars::JsonSchema)]
    #[schemars(crate = "haft_core::export::schemars")]
    #[expect(dead_code, reason = "read by `Debug` only")]
    struct Page {
        number: u32,
        size: Option<u32>,
    }

    #[tool]
    fn list(of: String, #[tool(flatten)] page: Page) -> String {
        format!("{of} {page:?}")
    }

    #[tool]
    fn ranks(#[tool(flatten)] all: std::collections::BTreeMap<u32, String>) -> String {
        format!("{all:?}")
    }

    // The fields of a flattened struct become arguments of the tool.
    let arguments: Vec<_> = List.argument_schemas().into_iter().map(|(name, _)| name).collect();
    assert_eq!(arguments, ["of", "number", "size"]);
    assert_eq!(result_text(&List, json!({"of": "a", "number": 1})), "a Page { number: 1, size: None }");
    expect![[r#"invalid arguments: /: missing required property "number" (integer)"#]]
        .assert_eq(&result_text(&List, json!({"of": "a"})));
    assert_eq!(result_text(&Ranks, json!({"1": "a"})), r#"{1: "a"}"#);
    assert!(!Ranks.invoke_blocking(json!({"one": "a"})).is_success());
}

/// If both the type and the `range` attribute have a bound, the narrower bound applies.
#[test]
fn range_does_not_widen_the_bounds_of_a_type() {
    #[tool]
    fn small(#[tool(range = -5..=1000)] n: u8, #[tool(range = 1..=9)] m: u8) -> u8 {
        n + m
    }

    assert_eq!(
        Small.argument_schemas(),
        [
            ("n", &json!({"type": "integer", "maximum": 255, "minimum": 0})),
            ("m", &json!({"type": "integer", "maximum": 9, "minimum": 1}))
        ]
    );
}
