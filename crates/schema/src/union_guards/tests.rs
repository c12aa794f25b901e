use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};

use super::super::Schema;
use super::with_guards;

fn expression_schema() -> Value {
    let operators = ["add", "subtract", "multiply", "divide", "power"].map(|operator| {
        json!({
            "type": "object",
            "properties": {"op": {"const": operator}, "left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}},
            "required": ["op", "left", "right"],
        })
    });
    let number =
        json!({"type": "object", "properties": {"value": {"type": "number"}}, "required": ["value"]});
    let alternatives: Vec<_> = operators.into_iter().chain([number]).collect();
    json!({"$ref": "#/$defs/e", "$defs": {"e": {"oneOf": alternatives}}})
}

/// Without guards, the number of listed errors is exponential in the depth of the tree. With
/// guards, an error at level 30 must be found quickly.
#[test]
fn error_in_a_deep_tree_of_alternatives_is_found_quickly() {
    let schema = Schema::new(expression_schema()).unwrap();
    let value = (0..30)
        .fold(json!({"value": "one"}), |inner, _| json!({"op": "add", "left": inner, "right": {"value": 1}}));
    let started = Instant::now();
    let violations = schema.validate(&value).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let place = "/left".repeat(30);
    assert_eq!(violations.to_string(), format!(r#"{place}/value: expected number, received string "one""#));
}

#[test]
fn guard_is_the_signature_of_the_alternative() {
    let schema = json!({
        "anyOf": [
            {"properties": {"kind": {"enum": ["a"]}, "x": {"oneOf": [{"type": "string"}, true]}}, "required": ["kind"]},
            {"$ref": "#/$defs/b"},
            {"minimum": 3},
        ],
        "$defs": {"b": {"properties": {"n": {"$ref": "#/anyOf/0/properties/x/oneOf/0"}}, "required": ["n"]}},
    });
    expect![[r##"
        {
          "anyOf": [
            {
              "if": {
                "properties": {
                  "kind": {
                    "const": "a"
                  }
                }
              },
              "then": {
                "properties": {
                  "kind": {
                    "enum": [
                      "a"
                    ]
                  },
                  "x": {
                    "oneOf": [
                      {
                        "if": {
                          "type": "string"
                        },
                        "then": {
                          "type": "string"
                        },
                        "else": {
                          "type": "string"
                        }
                      },
                      true
                    ]
                  }
                },
                "required": [
                  "kind"
                ]
              },
              "else": {
                "properties": {
                  "kind": {
                    "const": "a"
                  }
                }
              }
            },
            {
              "if": {
                "required": [
                  "n"
                ]
              },
              "then": {
                "$ref": "#/$defs/b"
              },
              "else": {
                "required": [
                  "n"
                ]
              }
            },
            {
              "minimum": 3
            }
          ],
          "$defs": {
            "b": {
              "properties": {
                "n": {
                  "$ref": "#/anyOf/0/then/properties/x/oneOf/0/then"
                }
              },
              "required": [
                "n"
              ]
            }
          }
        }"##]]
    .assert_eq(&format!("{:#}", with_guards(&schema).unwrap()));
    assert_eq!(with_guards(&json!({"const": {"anyOf": [{"type": "string"}]}})), None);
}

#[test]
fn all_violations_of_an_optional_object_are_listed() {
    let place = json!({
        "type": "object",
        "properties": {"unit": {"enum": ["m", "ft"]}, "x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["unit", "x", "y"],
    });
    let schema = Schema::new(json!({"properties": {"at": {"anyOf": [place, {"type": "null"}]}}})).unwrap();
    let violations = schema.validate(&json!({"at": {"unit": "km", "x": "1"}})).unwrap_err();
    expect![[r#"
        /at: missing required property "y" (integer)
        /at/unit: expected one of "m", "ft", received string "km"
        /at/x: expected integer, received string "1""#]]
    .assert_eq(&violations.to_string());
}

/// Messages must describe the original schema, without the `if`, `then` and `else` of a guard.
#[test]
fn guards_do_not_appear_in_messages() {
    let point = json!({"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x", "y"]});
    let name = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let place = json!({"anyOf": [{"$ref": "#/$defs/point"}, {"$ref": "#/$defs/name"}]});
    let schema = Schema::new(json!({
        "properties": {"from": place, "to": place},
        "required": ["from"],
        "$defs": {"point": point, "name": name},
    }));
    let schema = schema.unwrap();
    let violations = |value: Value| schema.validate(&value).unwrap_err().to_string();
    expect![[r#"/: missing required property "from" (object with "x", "y" or object with "name")"#]]
        .assert_eq(&violations(json!({})));
    expect![[r#"/from: expected object with "x", "y" or object with "name", received integer 1"#]]
        .assert_eq(&violations(json!({"from": 1})));
    expect!["/from/name: expected string, received integer 1"]
        .assert_eq(&violations(json!({"from": {"name": 1}})));
    let one = json!({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"properties": {"k": {"const": 1}}, "type": "array"}]});
    expect![[r#"/: missing required property "n" (integer)"#]]
        .assert_eq(&Schema::new(one).unwrap().validate(&json!({})).unwrap_err().to_string());
}
