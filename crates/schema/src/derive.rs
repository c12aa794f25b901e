//! Derivation of schemas from Rust types. Keywords that a model does not need are omitted.

#[cfg(test)]
mod tests;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::object::{ObjectSchema, TypedProperties};

/// The values of `format` that `schemars` emits for Rust's number types. JSON Schema does not
/// define them.
const NUMBER_FORMATS: [&str; 14] = [
    "int8", "int16", "int32", "int64", "int128", "int", "uint8", "uint16", "uint32", "uint64", "uint128",
    "uint", "float", "double",
];

/// Derives the schema of the JSON from which `T` is deserialized.
pub(super) fn derive_input_schema<T: JsonSchema + ?Sized>() -> Value {
    // `subschema_for` adds neither `$schema` nor a title, unlike `root_schema_for`.
    derive(SchemaSettings::draft2020_12().for_deserialize(), SchemaGenerator::subschema_for::<T>)
}

/// Derives the schema of the JSON to which `T` is serialized.
pub(super) fn derive_output_schema<T: JsonSchema + ?Sized>() -> Value {
    derive(SchemaSettings::draft2020_12().for_serialize(), SchemaGenerator::subschema_for::<T>)
}

/// Derives the schema of an object with the given `properties`.
pub(super) fn derive_object_schema(properties: &impl TypedProperties) -> Value {
    derive(SchemaSettings::draft2020_12().for_deserialize(), |generator| {
        let mut object = ObjectSchema::new(generator);
        properties.describe(&mut object);
        object.into_schema()
    })
}

/// Generates a schema with `generate`, and adds the definitions of recursive types to it. Recursive
/// references point into `$defs` and not to the root, so a model adapter can move the schema into a
/// larger one.
fn derive(settings: SchemaSettings, generate: impl FnOnce(&mut SchemaGenerator) -> Schema) -> Value {
    let mut generator = SchemaGenerator::new(settings.with(|settings| settings.inline_subschemas = true));
    let mut schema = generate(&mut generator);
    let definitions = generator.take_definitions(false);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    RecursiveTransform(drop_number_format).transform(&mut schema);
    schema.to_value()
}

fn drop_number_format(schema: &mut Schema) {
    let format = schema.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| NUMBER_FORMATS.contains(&format)) {
        schema.remove("format");
    }
}
