use std::mem;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// A builder for the schema of an object with [typed properties](super::TypedProperties).
///
/// A flattened property adds no property for itself. The keywords of its schema, such as
/// `properties`, are merged into the object schema.
#[derive(Debug)]
pub struct ObjectSchema<'a> {
    pub(super) generator: &'a mut SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// The schema keywords of the flattened property that [`flatten`](Self::flatten) neither merges
    /// nor drops, for example `additionalProperties`. `None` if no property is flattened.
    flattened: Option<Map<String, Value>>,
}

impl<'a> ObjectSchema<'a> {
    pub(crate) fn new(generator: &'a mut SchemaGenerator) -> Self {
        Self { generator, properties: Map::new(), required: Vec::new(), flattened: None }
    }

    pub(super) fn add(&mut self, name: &str, schema: Schema, is_required: bool) {
        self.properties.insert(name.to_owned(), schema.to_value());
        self.required.extend(is_required.then(|| Value::from(name)));
    }

    /// Merges `schema`, the schema of a flattened property, into the schema of the object. The type
    /// of the property is a map or a struct.
    pub(super) fn flatten(&mut self, mut schema: Schema) {
        let mut keywords = mem::take(schema.ensure_object());
        if let Some(Value::Object(properties)) = keywords.remove("properties") {
            self.properties.extend(properties);
        }
        if let Some(Value::Array(required)) = keywords.remove("required") {
            self.required.extend(required);
        }
        // These keywords describe the flattened property and not the whole object, so they are
        // dropped.
        for keyword in ["type", "title", "description"] {
            keywords.remove(keyword);
        }
        self.flattened = Some(keywords);
    }

    /// Returns the finished schema. Additional properties are forbidden, unless a property is
    /// flattened or the object has no properties.
    pub(crate) fn into_schema(self) -> Schema {
        let is_closed = self.flattened.is_none() && !self.properties.is_empty();
        let mut schema = json_schema!({ "type": "object" });
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(self.required));
        }
        if is_closed {
            schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        for (keyword, value) in self.flattened.into_iter().flatten() {
            schema.insert(keyword, value);
        }
        schema
    }
}
