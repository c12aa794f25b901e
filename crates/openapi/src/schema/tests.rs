use expect_test::{Expect, expect};
use haft_core::Schema;
use serde_json::{Value, json};

use super::{Direction, SchemaTranslator, with_definitions};
use crate::document::Document;

fn translate(document: Value, schema: &Value, direction: Direction) -> Result<Value, String> {
    let document = Document::parse(&document.to_string(), None, usize::MAX).unwrap();
    let mut translator = SchemaTranslator::new(&document, direction);
    let translated = translator.translate(schema)?;
    Ok(with_definitions(translated, translator.into_definitions()?))
}

/// Checks the translation of `schema`, which must be a valid JSON Schema.
fn check(openapi: &str, schema: Value, direction: Direction, expected: &Expect) {
    let document = json!({
        "openapi": openapi,
        "components": {"schemas": {
            "Tree": {"type": "object", "properties": {"children": {
                "type": "array", "items": {"$ref": "#/components/schemas/Tree"},
            }}},
            "Id": {"type": "integer", "readOnly": true},
            "a/b": {"type": "string"},
        }},
    });
    let translated = translate(document, &schema, direction).unwrap();
    Schema::new(translated.clone()).unwrap();
    expected.assert_eq(&format!("{translated:#}"));
}

#[test]
fn keywords_of_openapi_30_become_json_schema() {
    let schema = json!({
        "type": "object",
        "xml": {"name": "pet"},
        "x-internal": true,
        "required": ["price"],
        "properties": {
            "price": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
            "color": {"type": "string", "nullable": true, "enum": ["red", "blue"], "example": "red"},
            "parent": {"nullable": true, "allOf": [{"$ref": "#/components/schemas/a~1b"}], "description": "The parent."},
            "name": {"type": "string", "required": true, "example": {"a": 1}},
        },
    });
    check(
        "3.0.3",
        schema,
        Direction::Request,
        &expect![[r##"
            {
              "type": "object",
              "required": [
                "price"
              ],
              "properties": {
                "price": {
                  "type": "number",
                  "maximum": 9,
                  "exclusiveMinimum": 0
                },
                "color": {
                  "type": [
                    "string",
                    "null"
                  ],
                  "enum": [
                    "red",
                    "blue",
                    null
                  ],
                  "examples": [
                    "red"
                  ]
                },
                "parent": {
                  "description": "The parent.",
                  "anyOf": [
                    {
                      "allOf": [
                        {
                          "$ref": "#/$defs/a_1b"
                        }
                      ]
                    },
                    {
                      "type": "null"
                    }
                  ]
                },
                "name": {
                  "type": "string"
                }
              },
              "$defs": {
                "a_1b": {
                  "type": "string"
                }
              }
            }"##]],
    );
}

/// A property that a client cannot set is no argument. It is a part of the result.
#[test]
fn read_only_properties_are_for_results() {
    let schema = json!({
        "type": "object",
        "required": ["id", "name", "password"],
        "properties": {
            "id": {"$ref": "#/components/schemas/Id"},
            "created": {"type": "string", "readOnly": true},
            "name": {"type": "string"},
            "password": {"type": "string", "writeOnly": true},
        },
    });
    check(
        "3.1.0",
        schema.clone(),
        Direction::Request,
        &expect![[r#"
        {
          "type": "object",
          "required": [
            "name",
            "password"
          ],
          "properties": {
            "name": {
              "type": "string"
            },
            "password": {
              "type": "string",
              "writeOnly": true
            }
          }
        }"#]],
    );
    check(
        "3.1.0",
        schema,
        Direction::Response,
        &expect![[r##"
        {
          "type": "object",
          "required": [
            "id",
            "name"
          ],
          "properties": {
            "id": {
              "$ref": "#/$defs/Id"
            },
            "created": {
              "type": "string"
            },
            "name": {
              "type": "string"
            },
            "password": {
              "type": "string",
              "writeOnly": true
            }
          },
          "$defs": {
            "Id": {
              "type": "integer"
            }
          }
        }"##]],
    );
}

#[test]
fn recursive_schemas_become_definitions() {
    let schema = json!({"$ref": "#/components/schemas/Tree", "description": "A tree."});
    check(
        "3.0.0",
        schema,
        Direction::Request,
        &expect![[r##"
        {
          "$ref": "#/$defs/Tree",
          "description": "A tree.",
          "$defs": {
            "Tree": {
              "type": "object",
              "properties": {
                "children": {
                  "type": "array",
                  "items": {
                    "$ref": "#/$defs/Tree"
                  }
                }
              }
            }
          }
        }"##]],
    );
}

/// A property may be called like a keyword.
#[test]
fn names_of_properties_are_no_keywords() {
    let schema =
        json!({"type": "object", "properties": {"example": {"type": "string"}, "nullable": {}, "x-a": {}}});
    let translated = translate(json!({"openapi": "3.0.0"}), &schema, Direction::Request).unwrap();
    assert_eq!(translated, schema);
}

#[test]
fn unusable_references_are_reported() {
    for (reference, reason) in [
        (
            "pet.yaml#/Pet",
            "the reference \"pet.yaml#/Pet\" is to another document, which is not fetched: bundle the documents into one",
        ),
        (
            "https://example.org/pet.json",
            "the reference \"https://example.org/pet.json\" is to another document, which is not fetched: bundle the documents into one",
        ),
        ("#/components/schemas/None", "the reference \"#/components/schemas/None\" has no target"),
    ] {
        let schema = json!({"type": "array", "items": {"$ref": reference}});
        let error = translate(json!({"openapi": "3.1.0"}), &schema, Direction::Request).unwrap_err();
        assert_eq!(error, reason);
    }
}

#[test]
fn size_and_depth_are_limited() {
    let values: Vec<_> = (0..10_000).collect();
    let error =
        translate(json!({"openapi": "3.1.0"}), &json!({"enum": values}), Direction::Request).unwrap_err();
    assert_eq!(error, "the schemas of the operation have more than 10000 values");
    let deep = (0..100).fold(json!({}), |schema, _| json!({"items": schema}));
    let error = translate(json!({"openapi": "3.1.0"}), &deep, Direction::Request).unwrap_err();
    assert_eq!(error, "a schema is nested more than 64 levels deep");
}

/// The target of a dynamic reference is not in the schema of the tool. OpenAI's document has one.
#[test]
fn dynamic_references_are_dropped() {
    let schema = json!({"$recursiveAnchor": true, "type": "array", "items": {"$recursiveRef": "#"}});
    let translated = translate(json!({"openapi": "3.1.0"}), &schema, Direction::Request).unwrap();
    assert_eq!(translated, json!({"type": "array", "items": {}}));
}
