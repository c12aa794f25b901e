//! What the types of the parameters become, and what is read by them.

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

fn told(tool: impl Tool, arguments: Value) -> String {
    tool.invoke_blocking(arguments).model_text().into_owned()
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

/// A place on earth.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "read by `Debug` only")]
struct Place {
    city: String,
    /// Two letters.
    country: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Node {
    #[expect(dead_code, reason = "there to be missing")]
    name: String,
    #[serde(default)]
    children: Vec<Node>,
}

/// Behaviour A6.
#[test]
fn structs_lists_options_and_enums_have_their_schemas() {
    #[tool]
    fn forecast(
        /// Where.
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
                  "description": "Two letters."
                }
              },
              "required": [
                "city"
              ],
              "description": "Where."
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
                "description": "A place on earth.",
                "type": "object",
                "properties": {
                  "city": {
                    "type": "string"
                  },
                  "country": {
                    "description": "Two letters.",
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
    .assert_eq(&told(Forecast, arguments));
    let arguments = json!({"place": {"city": "Oslo"}, "also": [], "unit": "kelvin"});
    expect![[
        r#"invalid arguments: /unit: expected one of "celsius", "fahrenheit", received string "kelvin""#
    ]]
    .assert_eq(&told(Forecast, arguments));
}

/// Behaviour A8.
#[test]
fn a_recursive_type_keeps_its_reference() {
    #[tool]
    fn depth(
        /// The root.
        tree: Node,
    ) -> usize {
        fn of(node: &Node) -> usize {
            1 + node.children.iter().map(of).max().unwrap_or(0)
        }
        of(&tree)
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
    assert_eq!(told(Depth, tree), "3");
    let tree = json!({"tree": {"name": "a", "children": [{"children": []}]}});
    expect![[r#"invalid arguments: /tree/children/0: missing required property "name" (string)"#]]
        .assert_eq(&told(Depth, tree));
}

#[test]
fn defaults_are_shown_and_used() {
    #[derive(Debug, Default, Deserialize, JsonSchema)]
    struct Unwritable {}

    #[tool]
    fn show(
        #[tool(default = "metric")] system: String,
        #[tool(default = Unit::Celsius)] unit: Unit,
        #[tool(default = vec![1, 2])] list: Vec<u64>,
        #[tool(default)] ratio: f64,
        #[tool(default)] hidden: Unwritable,
        #[tool(default = BTreeMap::new())] map: BTreeMap<String, i32>,
    ) -> String {
        format!("{system} {unit:?} {list:?} {ratio} {hidden:?} {map:?}")
    }

    let defaults: Vec<_> =
        Show.args().into_iter().map(|(name, schema)| (name, schema.get("default").cloned())).collect();
    assert_eq!(
        defaults,
        [
            ("system", Some(json!("metric"))),
            ("unit", Some(json!("celsius"))),
            ("list", Some(json!([1, 2]))),
            ("ratio", Some(json!(0.0))),
            // Its type cannot be written.
            ("hidden", None),
            ("map", Some(json!({}))),
        ]
    );
    assert_eq!(Show.definition().input_schema().as_value().get("required"), None);
    assert_eq!(told(Show, json!({})), "metric Celsius [1, 2] 0 Unwritable {}");
    assert_eq!(told(Show, json!({"list": [], "ratio": 0.5})), "metric Celsius [] 0.5 Unwritable {}");
}

/// An alias is as optional as what it stands for.
#[test]
fn what_behaves_like_an_option_is_optional() {
    type Maybe = Option<i64>;

    #[tool]
    fn count(n: Maybe, any: Value) -> String {
        format!("{n:?} {any}")
    }

    assert_eq!(Count.definition().input_schema().as_value()["required"], json!(["any"]));
    assert_eq!(told(Count, json!({"any": null})), "None null");
    assert_eq!(told(Count, json!({"any": [1], "n": 4})), "Some(4) [1]");
}

/// Behaviour A9, the closed half.
#[test]
fn an_unknown_argument_is_named_with_the_known_ones() {
    #[tool]
    fn add(x: i64, #[tool(default = 0)] y: i64) -> i64 {
        x + y
    }

    expect![[r#"invalid arguments: /: unknown property "z"; known properties: "x", "y""#]]
        .assert_eq(&told(Add, json!({"x": 1, "z": 2})));
}

/// A type may be stricter than its schema: it is asked last, and says which argument it was.
#[test]
fn a_type_that_is_stricter_than_its_schema_is_told_by_name() {
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

    assert_eq!(told(Halve, json!({"even": 4})), "Even(4)");
    expect!["invalid arguments: /even: not an even number"].assert_eq(&told(Halve, json!({"even": 3})));

    #[derive(Deserialize, JsonSchema)]
    struct Numbers {
        all: Vec<Even>,
    }

    #[tool]
    fn halve_all(numbers: Numbers) -> usize {
        numbers.all.len()
    }

    let halve_each = tool_fn("halve_each", "", |Numbers { all }| async move { all.len().to_string() });
    // As integers, as everywhere: `4.0` is one.
    assert_eq!(told(HalveAll, json!({"numbers": {"all": [2, 4.0]}})), "2");
    assert_eq!(told(&halve_each, json!({"all": [2, 4.0]})), "2");
    expect!["invalid arguments: /numbers/all/1: not an even number"]
        .assert_eq(&told(HalveAll, json!({"numbers": {"all": [2, 3]}})));
    expect!["invalid arguments: /all/1: not an even number"]
        .assert_eq(&told(&halve_each, json!({"all": [2, 3]})));
}
