use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::*;
use crate::Schema;

fn check_schema(properties: &impl TypedProperties, expected: Expect) {
    let schema = Schema::from_properties(properties).unwrap();
    expected.assert_eq(&serde_json::to_string_pretty(schema.as_value()).unwrap());
}

fn take<P: TypedProperties>(properties: &P, object: Value) -> Result<P::Values, String> {
    let Value::Object(mut object) = object else { panic!("not an object: {object}") };
    properties.take(&mut object).map_err(|error| error.to_string())
}

/// Properties with an `Option` type or a default value are optional in the schema and in the
/// object. The error for a missing or invalid value names the property.
#[test]
fn optional_and_default_properties_are_not_required() {
    let properties = (
        TypedProperty::<u32>::new("id"),
        (
            TypedProperty::<Option<bool>>::new("verbose"),
            (TypedProperty::<u32>::new("limit").with_default(|| 10, |limit| Some(limit.into())), ()),
        ),
    );
    check_schema(
        &properties,
        expect![[r#"
            {
              "type": "object",
              "properties": {
                "id": {
                  "type": "integer",
                  "minimum": 0
                },
                "verbose": {
                  "type": [
                    "boolean",
                    "null"
                  ]
                },
                "limit": {
                  "type": "integer",
                  "default": 10,
                  "minimum": 0
                }
              },
              "required": [
                "id"
              ],
              "additionalProperties": false
            }"#]],
    );
    assert_eq!(take(&properties, json!({"id": 1})), Ok((1, (None, (10, ())))));
    assert_eq!(take(&properties, json!({"verbose": true})), Err("/id: missing".to_owned()));
    let wrong = take(&properties, json!({"id": 1, "limit": -1}));
    assert_eq!(wrong, Err("/limit: invalid value: integer `-1`, expected u32".to_owned()));
}

#[test]
fn constraint_never_widens_the_bound_of_the_type() {
    let narrow = TypedProperty::<u8>::new("a").with_constraints(|schema| {
        schema.at_least(json!(-5));
        schema.at_most(json!(1_000));
    });
    let properties = (
        narrow,
        (
            TypedProperty::<Vec<String>>::new("b").with_constraints(|schema| schema.length(1, Some(3))),
            (
                TypedProperty::<BTreeMap<String, u8>>::new("c")
                    .with_constraints(|schema| schema.length(0, Some(2))),
                (
                    TypedProperty::<Option<String>>::new("d")
                        .with_constraints(|schema| schema.length(2, None)),
                    (),
                ),
            ),
        ),
    );
    let schema = Schema::from_properties(&properties).unwrap();
    let bounds = |name: &str, keyword: &str| schema.as_value()["properties"][name].get(keyword).cloned();
    assert_eq!(bounds("a", "minimum"), Some(json!(0)));
    assert_eq!(bounds("a", "maximum"), Some(json!(255)));
    assert_eq!((bounds("b", "minItems"), bounds("b", "maxItems")), (Some(json!(1)), Some(json!(3))));
    assert_eq!((bounds("c", "minProperties"), bounds("c", "maxProperties")), (None, Some(json!(2))));
    assert_eq!((bounds("d", "minLength"), bounds("d", "maxLength")), (Some(json!(2)), None));
}

/// A person.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Person {
    name: String,
    age: Option<u8>,
}

/// The properties of a flattened struct are properties of the object.
#[test]
fn flattened_property_takes_the_remaining_members() {
    let properties = (TypedProperty::<bool>::new("save"), TypedProperty::<Person>::new("person").flattened());
    check_schema(
        &properties,
        expect![[r#"
            {
              "type": "object",
              "properties": {
                "save": {
                  "type": "boolean"
                },
                "name": {
                  "type": "string"
                },
                "age": {
                  "type": [
                    "integer",
                    "null"
                  ],
                  "maximum": 255,
                  "minimum": 0
                }
              },
              "required": [
                "save",
                "name"
              ]
            }"#]],
    );
    let ada = Person { name: "Ada".to_owned(), age: None };
    assert_eq!(take(&properties, json!({"save": true, "name": "Ada"})), Ok((true, ada)));
    assert_eq!(take(&properties, json!({"save": true})), Err("/: missing field `name`".to_owned()));
}

#[test]
fn description_of_the_property_replaces_the_description_of_the_type() {
    let described = |property: TypedProperty<Person>| {
        let schema = Schema::from_properties(&(property, ())).unwrap();
        schema.as_value()["properties"]["person"]["description"].clone()
    };
    assert_eq!(described(TypedProperty::new("person")), json!("A person."));
    assert_eq!(described(TypedProperty::new("person").with_description("The owner.")), json!("The owner."));
}

#[test]
fn object_without_properties_is_open() {
    check_schema(
        &(),
        expect![[r#"
            {
              "type": "object",
              "properties": {}
            }"#]],
    );
    assert_eq!(().take(&mut Map::new()), Ok(()));
}

/// A type without a schema.
#[derive(Debug, PartialEq, Deserialize)]
struct Opaque(u8);

#[test]
fn property_without_a_schema_accepts_any_value() {
    let properties = (TypedProperty::<Opaque>::without_schema("value"), ());
    let schema = Schema::from_properties(&properties).unwrap();
    assert_eq!(schema.as_value()["properties"]["value"], json!(true));
    assert_eq!(take(&properties, json!({"value": 7})), Ok((Opaque(7), ())));
}

/// A type that refers to itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Tree {
    children: Vec<Tree>,
}

#[test]
fn recursive_type_is_a_reference_to_a_definition() {
    let schema = Schema::from_properties(&(TypedProperty::<Tree>::new("tree"), ())).unwrap();
    assert!(schema.as_value()["$defs"]["Tree"].is_object(), "{}", schema.as_value());
    assert!(schema.is_valid(&json!({"tree": {"children": [{"children": []}]}})));
    assert!(!schema.is_valid(&json!({"tree": {"children": [{}]}})));
}
