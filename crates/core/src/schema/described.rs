//! Properties that are described from outside.

use serde_json::{Map, Value, json};

use super::error::SchemaError;
use super::{Schema, reference};

impl Schema {
    /// The same schema with another description of a property that its root declares; `None` if there is no such
    /// property.
    pub(crate) fn with_described(&self, name: &str, description: &str) -> Option<Result<Self, SchemaError>> {
        let mut value = self.as_value().clone();
        let properties = reference::join(&reference::place(&value), "properties");
        let property = value.pointer_mut(&reference::join(&properties, name))?;
        if let Value::Bool(allows) = property {
            *property = if *allows { Value::Object(Map::new()) } else { json!({"not": {}}) };
        }
        property.as_object_mut()?.insert("description".to_owned(), description.into());
        Some(self.with_root(value))
    }
}
