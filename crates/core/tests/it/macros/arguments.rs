//! Schemas of tool parameters, and the parsing of call arguments.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use haft_core::{
    Tool, ToolExt,
    export::schemars::{self, JsonSchema},
    tool, tool_fn,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

fn check(tool: impl Tool, expected: Expect) {
    assert_eq!(tool.definition().defect(), None);
    expected.assert_eq(&serde_json::to_string_pretty(tool.definition().input_schema()).unwrap());
}

fn result_text(tool: impl Tool, arguments: Value) -> String {
    tool.invoke_blocking(arguments).model_text().into_owned()
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

/// A location.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
struct Place {
    city: String,
    /// ISO 3166 code, two letters.
    country: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Node {
    #[expect(dead_code, reason = "a required property")]
    name: String,
    #[serde(default)]
    children: Vec<Node>,
}

/// Nested structs, lists, optional fields and enums have schemas. The error for an invalid enum
/// value lists the allowed values.
#[test]
fn structs_lists_options_and_enums_have_schemas() {
    #[tool]
    fn forecast(
        /// The location.
        place: Place,
        days: Option<u8>,
        also: Vec<Place>,
        unit: Unit,
    ) -> String {
        format!("{place:?} {days:?} {also:?} {unit:?}")
    }

    check(
        Forecast,
        expect![[r#"
        {
          "type": "object",
          "properties": {
            "place": {
              "type": "object",
              "properties": {
                "city": {
                  "type": "string"
                },
                "country": {
                  "type": [
                    "string",
                    "null"
                  ],
                  "description": "ISO 3166 code, two letters."
                }
              },
              "required": [
                "city"
              ],
              "description": "The location."
            },
            "days": {
              "type": [
                "integer",
                "null"
              ],
              "maximum": 255,
              "minimum": 0
            },
            "also": {
              "type": "array",
              "items": {
                "description": "A location.",
                "type": "object",
                "properties": {
                  "city": {
                    "type": "string"
                  },
                  "country": {
                    "description": "ISO 3166 code, two letters.",
                    "type": [
                      "string",
                      "null"
                    ]
                  }
                },
                "required": [
                  "city"
                ]
              }
            },
            "unit": {
              "type": "string",
              "enum": [
                "celsius",
                "fahrenheit"
              ]
            }
          },
          "required": [
            "place",
            "also",
            "unit"
          ],
          "additionalProperties": false
        }"#]],
    );
    let arguments = json!({"place": {"city": "Oslo"}, "days": null, "also": [{"city": "Rome", "country": "IT"}], "unit": "celsius"});
    expect![[
        r#"Place { city: "Oslo", country: None } None [Place { city: "Rome", country: Some("IT") }] Celsius"#
    ]]
    .assert_eq(&result_text(Forecast, arguments));
    let arguments = json!({"place": {"city": "Oslo"}, "also": [], "unit": "kelvin"});
    expect![[
        r#"invalid arguments: /unit: expected one of "celsius", "fahrenheit", received string "kelvin""#
    ]]
    .assert_eq(&result_text(Forecast, arguments));
}

/// An argument can have a recursive type. Its schema keeps the `$ref` into `$defs`, and nested
/// values are validated.
#[test]
fn recursive_type_keeps_its_reference() {
    #[tool]
    fn depth(
        /// The root.
        tree: Node,
    ) -> usize {
        fn depth_of(node: &Node) -> usize {
            1 + node.children.iter().map(depth_of).max().unwrap_or(0)
        }
        depth_of(&tree)
    }

    check(
        Depth,
        expect![[r##"
        {
          "type": "object",
          "properties": {
            "tree": {
              "type": "object",
              "properties": {
                "name": {
                  "type": "string"
                },
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Node"
                  }
                }
              },
              "required": [
                "name"
              ],
              "description": "The root."
            }
          },
          "required": [
            "tree"
          ],
          "additionalProperties": false,
          "$defs": {
            "Node": {
              "type": "object",
              "properties": {
                "name": {
                  "type": "string"
                },
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Node"
                  }
                }
              },
              "required": [
                "name"
              ]
            }
          }
        }"##]],
    );
    let tree = json!({"tree": {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}});
    assert_eq!(result_text(Depth, tree), "3");
    let tree = json!({"tree": {"name": "a", "children": [{"children": []}]}});
    expect![[r#"invalid arguments: /tree/children/0: missing required property "name" (string)"#]]
        .assert_eq(&result_text(Depth, tree));
}

#[test]
fn defaults_are_in_the_schema_and_applied() {
    #[derive(Debug, Default, Deserialize, JsonSchema)]
    struct NotSerializable {}

    #[tool]
    fn show(
        #[tool(default = "metric")] system: String,
        #[tool(default = Unit::Celsius)] unit: Unit,
        #[tool(default = vec![1, 2])] list: Vec<u64>,
        #[tool(default)] ratio: f64,
        #[tool(default)] opaque: NotSerializable,
        #[tool(default = BTreeMap::new())] map: BTreeMap<String, i32>,
    ) -> String {
        format!("{system} {unit:?} {list:?} {ratio} {opaque:?} {map:?}")
    }

    let defaults: Vec<_> = Show
        .argument_schemas()
        .into_iter()
        .map(|(name, schema)| (name, schema.get("default").cloned()))
        .collect();
    assert_eq!(
        defaults,
        [
            ("system", Some(json!("metric"))),
            ("unit", Some(json!("celsius"))),
            ("list", Some(json!([1, 2]))),
            ("ratio", Some(json!(0.0))),
            // `NotSerializable` does not implement `Serialize`, so the schema cannot contain the
            // default of this argument.
            ("opaque", None),
            ("map", Some(json!({}))),
        ]
    );
    assert_eq!(Show.definition().input_schema().as_value().get("required"), None);
    assert_eq!(result_text(Show, json!({})), "metric Celsius [1, 2] 0 NotSerializable {}");
    assert_eq!(
        result_text(Show, json!({"list": [], "ratio": 0.5})),
        "metric Celsius [] 0.5 NotSerializable {}"
    );
}

/// An argument is optional if its type is an alias of an `Option`, although the macro cannot see
/// the `Option`. An argument of type `Value` also accepts `null`, but is required.
#[test]
fn alias_of_an_option_is_optional() {
    type Maybe = Option<i64>;

    #[tool]
    fn count(n: Maybe, any: Value) -> String {
        format!("{n:?} {any}")
    }

    assert_eq!(Count.definition().input_schema().as_value()["required"], json!(["any"]));
    assert_eq!(result_text(Count, json!({"any": null})), "None null");
    assert_eq!(result_text(Count, json!({"any": [1], "n": 4})), "Some(4) [1]");
}

/// A call with an unknown argument is rejected. The error lists the known arguments.
#[test]
fn unknown_argument_is_an_error() {
    #[tool]
    fn add(x: i64, #[tool(default = 0)] y: i64) -> i64 {
        x + y
    }

    expect![[r#"invalid arguments: /: unknown property "z"; known properties: "x", "y""#]]
        .assert_eq(&result_text(Add, json!({"x": 1, "z": 2})));
}

/// If `Deserialize` rejects a value that the schema of the type accepts, the error must contain the
/// path of the invalid value.
#[test]
fn error_of_a_type_stricter_than_its_schema_has_a_path() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(try_from = "u32")]
    struct Even(#[expect(dead_code, reason = "read by `Debug` only")] u32);

    impl TryFrom<u32> for Even {
        type Error = &'static str;

        fn try_from(n: u32) -> Result<Self, Self::Error> {
            if n.is_multiple_of(2) { Ok(Self(n)) } else { Err("not an even number") }
        }
    }

    #[tool]
    fn halve(even: Even) -> String {
        format!("{even:?}")
    }

    assert_eq!(result_text(Halve, json!({"even": 4})), "Even(4)");
    expect!["invalid arguments: /even: not an even number"]
        .assert_eq(&result_text(Halve, json!({"even": 3})));

    #[derive(Deserialize, JsonSchema)]
    struct Numbers {
        all: Vec<Even>,
    }

    #[tool]
    fn halve_all(numbers: Numbers) -> usize {
        numbers.all.len()
    }

    let halve_each = tool_fn("halve_each", "", |Numbers { all }| async move { all.len().to_string() });
    // `4.0` is an integer in JSON Schema.
    assert_eq!(result_text(HalveAll, json!({"numbers": {"all": [2, 4.0]}})), "2");
    assert_eq!(result_text(&halve_each, json!({"all": [2, 4.0]})), "2");
    expect!["invalid arguments: /numbers/all/1: not an even number"]
        .assert_eq(&result_text(HalveAll, json!({"numbers": {"all": [2, 3]}})));
    expect!["invalid arguments: /all/1: not an even number"]
        .assert_eq(&result_text(&halve_each, json!({"all": [2, 3]})));
}
