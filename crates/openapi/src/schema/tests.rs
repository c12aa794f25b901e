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

/// Documents in which `Pet` is one of `Cat` and `Dog`, by each way to write a discriminator.
fn pets(pet: &Value, cat: &Value, dog: &Value) -> Value {
    json!({"openapi": "3.0.3", "components": {"schemas": {
        "Pet": pet, "Cat": cat, "Dog": dog,
        "Base": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}},
        "Kind": {"type": "string", "enum": ["cat", "dog"]},
    }}})
}

fn pet_ref(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Checks which of `values` the schema `Pet` of `document` permits in a request and in a response,
/// as it is and nested in other schemas.
fn check_selection(document: &Value, values: &[(Value, bool)]) {
    let pet = pet_ref("Pet");
    let forms = [
        (pet.clone(), json!(["$"])),
        (json!({"type": "object", "properties": {"pet": pet}}), json!({"pet": "$"})),
        (json!({"type": "array", "items": pet}), json!(["$", "$"])),
        (json!({"allOf": [pet], "description": "The pet."}), json!("$")),
        (
            json!({"allOf": [{"type": "object", "properties": {"id": {"type": "integer"}}}, {"properties": {"pet": {"allOf": [pet]}}}]}),
            json!({"id": 1, "pet": "$"}),
        ),
    ];
    for direction in [Direction::Request, Direction::Response] {
        for (index, (schema, shape)) in forms.iter().enumerate() {
            let translated = translate(document.clone(), schema, direction).unwrap();
            let compiled = Schema::new(translated.clone()).unwrap();
            for (value, is_valid) in values {
                let text = if index == 0 {
                    value.to_string()
                } else {
                    shape.to_string().replace("\"$\"", &value.to_string())
                };
                let nested: Value = serde_json::from_str(&text).unwrap();
                let result = compiled.validate(&nested);
                assert_eq!(result.is_ok(), *is_valid, "{direction:?} {nested}: {result:?}\n{translated:#}");
            }
        }
    }
}

/// Values fit several alternatives without the discriminator.
#[test]
fn discriminator_selects_its_alternative() {
    let object = |own: Value| json!({"type": "object", "required": ["kind"], "properties": own});
    let cat = object(json!({"kind": {"type": "string"}, "lives": {"type": "integer"}}));
    let dog = object(json!({"kind": {"type": "string"}, "tricks": {"type": "integer"}}));
    let extended = |own: &str| json!({"allOf": [pet_ref("Base"), {"type": "object", "properties": {own: {"type": "integer"}}}]});
    let child = |own: &str| json!({"allOf": [pet_ref("Pet"), {"type": "object", "properties": {own: {"type": "integer"}}}]});
    let one_of = json!([pet_ref("Cat"), pet_ref("Dog")]);
    let mapping =
        json!({"cat": "#/components/schemas/Cat", "kitten": "Cat", "dog": "#/components/schemas/Dog"});
    let mapped = json!({"propertyName": "kind", "mapping": mapping});
    let by_name = json!({"propertyName": "kind"});
    let parent = |discriminator: &Value| json!({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}, "discriminator": discriminator});
    let by_mapping = [
        (json!({"kind": "cat", "lives": 9}), true),
        (json!({"kind": "kitten", "lives": 9}), true),
        (json!({"kind": "dog", "tricks": 1}), true),
        (json!({"kind": "cat", "lives": "nine"}), false),
        (json!({"kind": "dog", "lives": "nine"}), true),
        (json!({"kind": "cow"}), false),
        (json!({"kind": 1}), false),
    ];
    let by_schema_name = [
        (json!({"kind": "Cat", "lives": 9}), true),
        (json!({"kind": "Dog", "tricks": 1}), true),
        (json!({"kind": "Cat", "lives": "nine"}), false),
        (json!({"kind": "cat"}), false),
    ];
    let without_kitten: Vec<_> =
        by_mapping.iter().filter(|(value, _)| value["kind"] != "kitten").cloned().collect();
    let enumerated = |name: &str, own: &str| {
        object(json!({"kind": {"type": "string", "enum": [name]}, own: {"type": "integer"}}))
    };
    let shared = |own: &str| object(json!({"kind": pet_ref("Kind"), own: {"type": "integer"}}));
    let nullable_pet =
        json!({"oneOf": [pet_ref("Cat"), pet_ref("Dog")], "discriminator": mapped, "nullable": true});
    for (pet, cat, dog, values) in [
        (json!({"oneOf": one_of, "discriminator": mapped}), cat.clone(), dog.clone(), &by_mapping[..]),
        (json!({"anyOf": one_of, "discriminator": mapped}), cat.clone(), dog.clone(), &by_mapping),
        (json!({"oneOf": one_of, "discriminator": by_name}), cat.clone(), dog.clone(), &by_schema_name),
        (
            json!({"oneOf": one_of, "discriminator": mapped}),
            extended("lives"),
            extended("tricks"),
            &by_mapping,
        ),
        // The property is beside the alternatives.
        (
            json!({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}, "oneOf": one_of, "discriminator": mapped}),
            json!({"type": "object", "properties": {"lives": {"type": "integer"}}}),
            json!({"type": "object", "properties": {"tricks": {"type": "integer"}}}),
            &by_mapping,
        ),
        // The alternatives have values of their own.
        (
            json!({"oneOf": one_of, "discriminator": by_name}),
            enumerated("cat", "lives"),
            enumerated("dog", "tricks"),
            &without_kitten,
        ),
        (
            json!({"oneOf": one_of, "discriminator": mapped}),
            shared("lives"),
            shared("tricks"),
            &without_kitten,
        ),
        // A supertype stands for its subtypes.
        (parent(&mapped), child("lives"), child("tricks"), &by_mapping),
        (parent(&by_name), child("lives"), child("tricks"), &by_schema_name),
        (parent(&json!("kind")), child("lives"), child("tricks"), &by_schema_name),
        // An abstract supertype: its property excludes its own name.
        (
            json!({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string", "enum": ["Cat", "Dog"]}}, "discriminator": by_name}),
            child("lives"),
            child("tricks"),
            &by_schema_name,
        ),
        // The supertype has its subtypes as alternatives.
        (
            json!({"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}, "oneOf": one_of, "discriminator": mapped}),
            child("lives"),
            child("tricks"),
            &by_mapping,
        ),
    ] {
        check_selection(&pets(&pet, &cat, &dog), values);
    }
    check_selection(
        &pets(&nullable_pet, &cat, &dog),
        &[(json!(null), true), (json!({"kind": "dog"}), true), (json!({"kind": "x"}), false)],
    );
    // Indirect subtypes, and names in the schemas of Azure.
    let mut document = pets(&parent(&by_name), &child("lives"), &child("tricks"));
    document["components"]["schemas"]["Puppy"] = json!({"allOf": [pet_ref("Dog"), {"type": "object", "properties": {"age": {"type": "integer"}}}], "x-ms-discriminator-value": "#puppy"});
    check_selection(
        &document,
        &[
            (json!({"kind": "#puppy", "age": 1}), true),
            (json!({"kind": "#puppy", "age": "x"}), false),
            (json!({"kind": "Puppy"}), false),
        ],
    );
    // Integers as names.
    let numbered = |own: &str| object(json!({"kind": {"type": "integer"}, own: {"type": "integer"}}));
    let numbers = json!({"propertyName": "kind", "mapping": {"1": "Cat", "2": "Dog"}});
    check_selection(
        &pets(&json!({"oneOf": one_of, "discriminator": numbers}), &numbered("lives"), &numbered("tricks")),
        &[
            (json!({"kind": 1, "lives": 9}), true),
            (json!({"kind": 1, "lives": "x"}), false),
            (json!({"kind": "1"}), false),
            (json!({"kind": 3}), false),
        ],
    );
}

/// Models, clients and grammars see the values in the schema, and an error lists them.
#[test]
fn discriminator_is_in_the_schema() {
    let cat =
        json!({"type": "object", "properties": {"kind": {"type": "string", "description": "The kind."}}});
    let pet = json!({"oneOf": [pet_ref("Cat"), pet_ref("Dog")], "discriminator": {"propertyName": "kind", "mapping": {"cat": "Cat", "kitten": "Cat"}}});
    let dog = json!({"allOf": [pet_ref("Base")]});
    let translated = translate(pets(&pet, &cat, &dog), &pet_ref("Pet"), Direction::Request).unwrap();
    expect![[r##"
        {
          "$ref": "#/$defs/Pet",
          "$defs": {
            "Pet": {
              "oneOf": [
                {
                  "$ref": "#/$defs/Cat"
                },
                {
                  "$ref": "#/$defs/Dog"
                }
              ]
            },
            "Cat": {
              "type": "object",
              "properties": {
                "kind": {
                  "type": "string",
                  "description": "The kind.",
                  "enum": [
                    "cat",
                    "kitten"
                  ]
                }
              },
              "required": [
                "kind"
              ]
            },
            "Dog": {
              "allOf": [
                {
                  "$ref": "#/$defs/Base"
                }
              ],
              "properties": {
                "kind": {
                  "const": "Dog"
                }
              },
              "required": [
                "kind"
              ]
            },
            "Base": {
              "type": "object",
              "required": [
                "kind"
              ],
              "properties": {
                "kind": {
                  "type": "string"
                }
              }
            }
          }
        }"##]]
    .assert_eq(&format!("{translated:#}"));
    let error = Schema::new(translated).unwrap().validate(&json!({"kind": "cow"})).unwrap_err().to_string();
    expect![[r#"/kind: expected one of "cat", "kitten" or "Dog", received string "cow""#]].assert_eq(&error);
}

/// A discriminator that selects nothing leaves the schema as it is.
#[test]
fn discriminator_without_its_property_changes_nothing() {
    let plain = json!({"type": "object", "properties": {"lives": {"type": "integer"}}});
    let dog = json!({"type": "object", "required": ["tricks"], "properties": {"kind": {"type": "string"}, "tricks": {"type": "integer"}}});
    let alternatives = json!([pet_ref("Cat"), pet_ref("Dog")]);
    for pet in [
        json!({"oneOf": alternatives, "discriminator": {"propertyName": "kind"}}),
        json!({"oneOf": alternatives, "discriminator": {"mapping": {"a": "Cat"}}}),
        json!({"oneOf": alternatives, "discriminator": null}),
    ] {
        let without = json!({"oneOf": alternatives});
        let translated =
            |pet: &Value| translate(pets(pet, &plain, &dog), &pet_ref("Pet"), Direction::Request).unwrap();
        assert_eq!(translated(&pet), translated(&without));
    }
}

/// Null is permitted in each way that documents write it.
#[test]
fn null_is_permitted() {
    let nullable = json!({"type": "string", "nullable": true});
    for schema in [
        nullable.clone(),
        json!({"type": "string", "x-nullable": true}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["string", null]}),
        json!({"type": ["string", "integer"], "nullable": true}),
        json!({"type": "string", "enum": ["a"], "nullable": true}),
        json!({"type": ["string", "null"], "enum": ["a"]}),
        json!({"const": "a", "nullable": true}),
        json!({"oneOf": [nullable, {"type": "integer", "nullable": true}]}),
        json!({"oneOf": [{"type": ["string", "null"]}, {"type": ["integer", "null"]}]}),
        json!({"oneOf": [{"type": "string"}, {"type": "null"}, {"enum": [null]}]}),
        json!({"oneOf": [pet_ref("Maybe"), {"type": "integer", "x-nullable": true}]}),
        json!({"oneOf": [{"nullable": true}, {"type": "string"}]}),
        json!({"oneOf": [{"type": "null"}, {"type": "string"}]}),
        json!({"oneOf": [{"type": null}, {"type": "string"}]}),
        json!({"allOf": [{"type": "string"}], "x-nullable": true}),
        json!({"$ref": "#/components/schemas/Text", "nullable": true}),
    ] {
        let document = json!({"openapi": "3.0.0", "components": {"schemas": {
            "Maybe": {"type": "string", "nullable": true}, "Text": {"type": "string"}}}});
        let translated = translate(document, &schema, Direction::Request).unwrap();
        let compiled = Schema::new(translated.clone()).unwrap();
        assert!(compiled.is_valid(&json!(null)) && compiled.is_valid(&json!("a")), "{schema} {translated}");
        assert!(!compiled.is_valid(&json!({})), "{schema} {translated}");
    }
    // Alternatives that do not name null stay strict.
    let strict = json!({"oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]});
    let translated = translate(json!({"openapi": "3.0.0"}), &strict, Direction::Request).unwrap();
    assert_eq!(translated, strict);
}

/// Returns the keywords in `schema` that a strict validator rejects.
fn faults(schema: &Value, pointer: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Value::Object(keywords) = schema {
        for key in ["enum", "required", "type"] {
            let Some(Value::Array(values)) = keywords.get(key) else { continue };
            let is_equal =
                |a: &Value, b: &Value| a == b || (a.is_number() && b.is_number() && a.as_f64() == b.as_f64());
            let repeated = values
                .iter()
                .enumerate()
                .any(|(index, value)| values[..index].iter().any(|it| is_equal(it, value)));
            if repeated || values.is_empty() {
                found.push(format!("{pointer}/{key}: {values:?}"));
            }
        }
    }
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                found.extend(faults(value, &format!("{pointer}/{key}")));
            }
        }
        Value::Array(items) => items.iter().for_each(|value| found.extend(faults(value, pointer))),
        _ => {}
    }
    found
}

/// Clients check schemas with the meta-schema of draft 7 or 2020-12.
#[test]
fn schemas_are_valid_for_strict_clients() {
    let schema = json!({
        "type": "object",
        "required": ["kind", "kind", 7, "level"],
        "title": 1.5,
        "description": null,
        "minProperties": null,
        "properties": {
            "kind": {"type": ["string", "string"], "enum": ["a", "b", "a"], "format": null},
            "level": {"type": "integer", "enum": [1, 2, 1.0, -0.0, 0]},
            "deep": {"enum": [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, "1", 1, [null, "1"]]},
            "none": {"type": "string", "enum": []},
            "never": {"type": "null", "nullable": true},
            "maybe": {"type": ["string", "null", null], "nullable": true, "enum": ["x", "x", null]},
            "untyped": {"type": null, "enum": ["a"]},
            "empty": {"type": [], "anyOf": [], "allOf": [], "oneOf": []},
            "pair": {"type": "array", "items": [{"enum": [1, 1]}, {"type": "string"}], "additionalItems": {"enum": [2, 2]}},
            "tuple": {"type": "array", "items": []},
            "upload": {"type": ["file", "string"]},
            "old": {"type": "string", "deprecated": "yes", "writeOnly": 1},
            "enum": {"type": "string"},
        },
        "dependentRequired": {"kind": ["level", "level"]},
        "allOf": [{"required": ["kind", "kind"]}, {"properties": {"x": {"enum": [true, true]}}}],
    });
    for direction in [Direction::Request, Direction::Response] {
        let mut translated = translate(json!({"openapi": "3.1.0"}), &schema, direction).unwrap();
        assert_eq!(faults(&translated, ""), Vec::<String>::new());
        for draft in
            ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"]
        {
            translated["$schema"] = draft.into();
            Schema::new(translated.clone()).unwrap();
        }
    }
    let translated = translate(json!({"openapi": "3.1.0"}), &schema, Direction::Request).unwrap();
    expect![[r#"{"type":"object","required":["kind","level"],"title":"1.5","properties":{"kind":{"type":"string","enum":["a","b"]},"level":{"type":"integer","enum":[1,2,-0.0]},"deep":{"enum":[{"a":1,"b":[2]},"1",1,[null,"1"]]},"none":{"type":"string"},"never":{"type":"null"},"maybe":{"type":["string","null"],"enum":["x",null]},"untyped":{"enum":["a"]},"empty":{},"pair":{"type":"array","prefixItems":[{"enum":[1]},{"type":"string"}],"items":{"enum":[2]}},"tuple":{"type":"array"},"upload":{"type":"string"},"old":{"type":"string"},"enum":{"type":"string"}},"dependentRequired":{"kind":["level"]},"allOf":[{"required":["kind"]},{"properties":{"x":{"enum":[true]}}}]}"#]].assert_eq(&format!("{translated}"));
}
