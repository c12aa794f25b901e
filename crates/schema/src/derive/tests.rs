//! Schemas are derived from Rust types. Nested types are inlined. Only recursive types become a
//! `$ref`.

#![allow(dead_code, reason = "only the schemas of the types are used")]

use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::super::Schema;

#[expect(clippy::needless_pass_by_value, reason = "keeps the callers short")]
fn check<T: JsonSchema>(expected: Expect) {
    expected.assert_eq(&format!("{:#}", Schema::from_type::<T>().unwrap().as_value()));
}

#[derive(JsonSchema)]
struct Add {
    /// The first number.
    x: i64,
    #[serde(default)]
    y: i64,
    count: u32,
    ratio: Option<f64>,
}

#[derive(JsonSchema)]
enum Unit {
    Celsius,
    Fahrenheit,
}

#[derive(JsonSchema)]
struct Place {
    name: String,
    unit: Option<Unit>,
}

/// A search near a place.
#[derive(JsonSchema)]
struct Search {
    near: Place,
    also: Vec<Place>,
    #[serde(rename(serialize = "limit_out", deserialize = "limit_in"))]
    limit: Option<u8>,
}

#[derive(JsonSchema)]
struct Node {
    children: Vec<Node>,
}

#[derive(JsonSchema)]
struct Plant {
    root: Node,
    seed: Option<Box<Node>>,
}

#[test]
fn number_formats_are_omitted() {
    check::<Add>(expect![[r#"
        {
          "type": "object",
          "properties": {
            "x": {
              "type": "integer",
              "description": "The first number."
            },
            "y": {
              "type": "integer",
              "default": 0
            },
            "count": {
              "type": "integer",
              "minimum": 0
            },
            "ratio": {
              "type": [
                "number",
                "null"
              ]
            }
          },
          "required": [
            "x",
            "count"
          ]
        }"#]]);
}

#[test]
fn subschemas_are_inlined() {
    check::<Search>(expect![[r#"
        {
          "type": "object",
          "properties": {
            "near": {
              "type": "object",
              "properties": {
                "name": {
                  "type": "string"
                },
                "unit": {
                  "type": [
                    "string",
                    "null"
                  ],
                  "enum": [
                    "Celsius",
                    "Fahrenheit",
                    null
                  ]
                }
              },
              "required": [
                "name"
              ]
            },
            "also": {
              "type": "array",
              "items": {
                "type": "object",
                "properties": {
                  "name": {
                    "type": "string"
                  },
                  "unit": {
                    "type": [
                      "string",
                      "null"
                    ],
                    "enum": [
                      "Celsius",
                      "Fahrenheit",
                      null
                    ]
                  }
                },
                "required": [
                  "name"
                ]
              }
            },
            "limit_in": {
              "type": [
                "integer",
                "null"
              ],
              "maximum": 255,
              "minimum": 0
            }
          },
          "required": [
            "near",
            "also"
          ],
          "description": "A search near a place."
        }"#]]);
}

#[test]
fn recursive_types_stay_references() {
    check::<Node>(expect![[r##"
        {
          "type": "object",
          "properties": {
            "children": {
              "type": "array",
              "items": {
                "$ref": "#/$defs/Node"
              }
            }
          },
          "required": [
            "children"
          ],
          "$defs": {
            "Node": {
              "type": "object",
              "properties": {
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Node"
                  }
                }
              },
              "required": [
                "children"
              ]
            }
          }
        }"##]]);
    check::<Plant>(expect![[r##"
        {
          "type": "object",
          "properties": {
            "root": {
              "type": "object",
              "properties": {
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Node"
                  }
                }
              },
              "required": [
                "children"
              ]
            },
            "seed": {
              "type": [
                "object",
                "null"
              ],
              "properties": {
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Node"
                  }
                }
              },
              "required": [
                "children"
              ]
            }
          },
          "required": [
            "root"
          ],
          "$defs": {
            "Node": {
              "type": "object",
              "properties": {
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Node"
                  }
                }
              },
              "required": [
                "children"
              ]
            }
          }
        }"##]]);
    let schema = Schema::from_type::<Plant>().unwrap();
    assert!(schema.is_valid(&json!({"root": {"children": [{"children": []}]}, "seed": null})));
    assert!(!schema.is_valid(&json!({"root": {"children": [{"children": [1]}]}})));
}

#[test]
fn output_schema_describes_the_serialized_form() {
    let schema = Schema::from_output_type::<Search>().unwrap();
    assert!(schema.properties().any(|it| it.name == "limit_out"));
}

#[test]
fn any_type_has_a_schema() {
    check::<()>(expect![[r#"
        {
          "type": "null"
        }"#]]);
    check::<Value>(expect!["true"]);
    check::<Vec<Option<Unit>>>(expect![[r#"
        {
          "type": "array",
          "items": {
            "type": [
              "string",
              "null"
            ],
            "enum": [
              "Celsius",
              "Fahrenheit",
              null
            ]
          }
        }"#]]);
}
