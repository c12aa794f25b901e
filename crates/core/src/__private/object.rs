use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// The schema of the object that a function takes its arguments from, while it is written.
pub struct Object<'a> {
    pub(super) generator: &'a mut SchemaGenerator,
    properties: Map<String, Value>,
    required: Vec<Value>,
    /// What other properties must be, where there may be any.
    others: Option<Value>,
}

impl<'a> Object<'a> {
    pub(super) fn new(generator: &'a mut SchemaGenerator) -> Self {
        Self { generator, properties: Map::new(), required: Vec::new(), others: None }
    }

    pub(super) fn add(&mut self, name: &str, schema: Schema, is_required: bool) {
        self.properties.insert(name.to_owned(), schema.to_value());
        self.required.extend(is_required.then(|| Value::from(name)));
    }

    /// Lets other properties be what the schema of a map says about its own.
    pub(super) fn open(&mut self, map: &Schema) {
        self.others = Some(map.get("additionalProperties").cloned().unwrap_or(Value::Bool(true)));
    }

    /// The schema. It is closed, unless something takes the rest, or there are no arguments: then what a model adds does
    /// not matter.
    pub(super) fn into_schema(self) -> Schema {
        let others = self.others.or_else(|| (!self.properties.is_empty()).then_some(Value::Bool(false)));
        let mut schema = json_schema!({ "type": "object" });
        schema.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), Value::Array(self.required));
        }
        if let Some(others) = others {
            schema.insert("additionalProperties".to_owned(), others);
        }
        schema
    }
}
