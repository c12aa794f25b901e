use std::mem;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// The schema of the object that a function takes its arguments from, while it is written.
pub struct Object<'a> {
    pub(super) generator: &'a mut SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// What takes the rest says about it.
    rest: Option<Map<String, Value>>,
}

impl<'a> Object<'a> {
    pub(super) fn new(generator: &'a mut SchemaGenerator) -> Self {
        Self { generator, properties: Map::new(), required: Vec::new(), rest: None }
    }

    pub(super) fn add(&mut self, name: &str, schema: Schema, is_required: bool) {
        self.properties.insert(name.to_owned(), schema.to_value());
        self.required.extend(is_required.then(|| Value::from(name)));
    }

    /// Lets other properties be what the schema of a map, or of a struct, says about its own.
    pub(super) fn open(&mut self, mut schema: Schema) {
        let mut rest = mem::take(schema.ensure_object());
        if let Some(Value::Object(properties)) = rest.remove("properties") {
            self.properties.extend(properties);
        }
        if let Some(Value::Array(required)) = rest.remove("required") {
            self.required.extend(required);
        }
        // They are said of the whole, and what is told of a type is told of its value.
        for told in ["type", "title", "description"] {
            rest.remove(told);
        }
        self.rest = Some(rest);
    }

    /// The schema. It is closed, unless something takes the rest, or there are no arguments: then what a model adds does
    /// not matter.
    pub(super) fn into_schema(self) -> Schema {
        let is_closed = self.rest.is_none() && !self.properties.is_empty();
        let mut schema = json_schema!({ "type": "object" });
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(self.required));
        }
        if is_closed {
            schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        for (keyword, value) in self.rest.into_iter().flatten() {
            schema.insert(keyword, value);
        }
        schema
    }
}
