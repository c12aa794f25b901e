use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// The schema of the object that a function takes its arguments from, while it is written.
pub struct Object<'a> {
    pub(super) generator: &'a mut SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
}

impl<'a> Object<'a> {
    pub(super) fn new(generator: &'a mut SchemaGenerator) -> Self {
        Self { generator, properties: Map::new(), required: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &str, schema: Schema, is_required: bool) {
        self.properties.insert(name.to_owned(), schema.to_value());
        self.required.extend(is_required.then(|| Value::from(name)));
    }

    /// The schema. It is closed, unless there are no arguments: then what a model adds does not matter.
    pub(super) fn into_schema(self) -> Schema {
        let is_closed = !self.properties.is_empty();
        let mut schema = json_schema!({ "type": "object" });
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(self.required));
        }
        if is_closed {
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        schema
    }
}
