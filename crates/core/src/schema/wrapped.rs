//! Schemas inside others.

use serde_json::{Value, json};

use super::Schema;

impl Schema {
    /// The schema of an object whose one property is a value of this schema, for a protocol that wants an object. References
    /// find their places there.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::schema::Schema;
    /// use serde_json::json;
    ///
    /// let tree = Schema::new(json!({"type": "array", "items": {"$ref": "#"}}))?;
    /// assert_eq!(
    ///     tree.wrapped("tree"),
    ///     json!({
    ///         "type": "object",
    ///         "properties": {"tree": {"type": "array", "items": {"$ref": "#/properties/tree"}}},
    ///         "required": ["tree"],
    ///     })
    /// );
    /// # Ok::<(), haft_core::schema::SchemaError>(())
    /// ```
    pub fn wrapped(&self, property: &str) -> Value {
        let mut inner = self.as_value().clone();
        let dialect = inner.as_object_mut().and_then(|inner| inner.shift_remove("$schema"));
        // Below an `$id` of its own a reference counts from there, and stays right.
        if inner.get("$id").is_none() {
            move_references(&mut inner, &super::join("#/properties", property));
        }
        let mut outer = json!({"type": "object", "properties": {property: inner}, "required": [property]});
        if let (Some(dialect), Some(outer)) = (dialect, outer.as_object_mut()) {
            outer.shift_insert(0, "$schema".to_owned(), dialect);
        }
        outer
    }
}

/// Makes references into the document find their places below its new one.
fn move_references(schema: &mut Value, place: &str) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(reference)) => {
                        if let Some(pointer) =
                            reference.strip_prefix('#').filter(|it| it.is_empty() || it.starts_with('/'))
                        {
                            *reference = format!("{place}{pointer}");
                        }
                    }
                    // Data, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    (_, value) => move_references(value, place),
                }
            }
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(|schema| move_references(schema, place)),
        _ => {}
    }
}
