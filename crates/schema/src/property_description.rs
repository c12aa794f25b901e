//! Replacement of a property's description.

use serde_json::{Map, Value, json};

use super::error::SchemaError;
use super::{Schema, reference};

impl Schema {
    /// Returns a copy of this schema with the given `description` for the property `name` of the
    /// root. Returns `None` if the root, or the target of its `$ref`, does not declare this
    /// property.
    ///
    /// # Errors
    ///
    /// Returns an error if the changed schema does not compile. The [limits](crate::SchemaLimits)
    /// are not checked again, so a long `description` may exceed the size limit.
    pub fn with_property_description(
        &self,
        name: &str,
        description: &str,
    ) -> Option<Result<Self, SchemaError>> {
        let mut value = self.as_value().clone();
        let properties = reference::join_pointer(&reference::root_target(&value), "properties");
        let property = value.pointer_mut(&reference::join_pointer(&properties, name))?;
        if let Value::Bool(allows) = property {
            *property = if *allows { Value::Object(Map::new()) } else { json!({"not": {}}) };
        }
        property.as_object_mut()?.insert("description".to_owned(), description.into());
        Some(self.with_root(value))
    }
}
