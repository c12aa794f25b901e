//! Embedding of a schema in a larger JSON document.
//!
//! References are rewritten for the new location of the schema.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::Schema;
use super::reference::join_pointer;

/// A copy of a schema whose references are valid at a location in a larger document, created by
/// [`Schema::embedded_at`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EmbeddedSchema {
    /// The schema with rewritten references. Its JSON pointer references start at the root of the
    /// larger document.
    pub schema: Value,
    /// `true` if the schema contains JSON pointer references. They are valid only at the location
    /// for which the schema was rewritten.
    pub has_references: bool,
    /// `true` if the schema defines or references anchors. An anchor may collide with an anchor in
    /// the rest of the larger document.
    pub has_anchors: bool,
}

impl Schema {
    /// Returns a copy of the schema with its references rewritten for the location `place` in a
    /// larger document, such as `#/$defs/tree`.
    ///
    /// References must be rewritten because a JSON pointer reference starts at the root of the
    /// document (JSON Schema Core 2020-12, section 8.2.3).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::Schema;
    /// use serde_json::json;
    ///
    /// let tree = Schema::new(json!({"type": "array", "items": {"$ref": "#"}}))?;
    /// let embedded = tree.embedded_at("#/$defs/tree");
    /// assert_eq!(embedded.schema, json!({"type": "array", "items": {"$ref": "#/$defs/tree"}}));
    /// assert!(embedded.has_references && !embedded.has_anchors);
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn embedded_at(&self, place: &str) -> EmbeddedSchema {
        let mut embedded = EmbeddedSchema { schema: Value::Null, has_references: false, has_anchors: false };
        let mut schema = self.as_value().clone();
        embedded.rewrite_keywords(&mut schema, place);
        EmbeddedSchema { schema, ..embedded }
    }

    /// Returns an object schema with the single required property `property`, described by this
    /// schema. Use it for protocols that accept only objects. References stay valid at the new
    /// location.
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_schema::Schema;
    /// use serde_json::json;
    ///
    /// let tree = Schema::new(json!({"type": "array", "items": {"$ref": "#"}}))?;
    /// assert_eq!(
    ///     tree.wrapped_in_object("tree"),
    ///     json!({
    ///         "type": "object",
    ///         "properties": {
    ///             "tree": {"type": "array", "items": {"$ref": "#/properties/tree"}}
    ///         },
    ///         "required": ["tree"],
    ///     })
    /// );
    /// # Ok::<(), haft_schema::SchemaError>(())
    /// ```
    pub fn wrapped_in_object(&self, property: &str) -> Value {
        // A reference in a schema with an `$id` is relative to this `$id`, so it stays correct
        // without a rewrite.
        let mut inner = match self.as_value().get("$id") {
            Some(_) => self.as_value().clone(),
            None => self.embedded_at(&join_pointer("#/properties", property)).schema,
        };
        let dialect = inner.as_object_mut().and_then(|inner| inner.shift_remove("$schema"));
        let mut outer = json!({"type": "object", "properties": {property: inner}, "required": [property]});
        if let (Some(dialect), Some(outer)) = (dialect, outer.as_object_mut()) {
            outer.shift_insert(0, "$schema".to_owned(), dialect);
        }
        outer
    }
}

impl EmbeddedSchema {
    fn rewrite_keywords(&mut self, schema: &mut Value, place: &str) {
        let Value::Object(keywords) = schema else { return };
        for (keyword, value) in keywords {
            self.rewrite_keyword(keyword, value, place);
        }
    }

    fn rewrite_keyword(&mut self, keyword: &str, value: &mut Value, place: &str) {
        match (keyword, value) {
            ("$ref" | "$dynamicRef", Value::String(reference)) => {
                match reference.strip_prefix('#').filter(|it| it.is_empty() || it.starts_with('/')) {
                    Some(pointer) => {
                        *reference = format!("{place}{pointer}");
                        self.has_references = true;
                    }
                    None => self.has_anchors = true,
                }
            }
            ("$anchor" | "$dynamicAnchor", _) => self.has_anchors = true,
            // The values of these keywords are data, so a `$ref` in them is not a reference.
            ("const" | "enum" | "default" | "examples", _) => {}
            // The keys are names of properties or definitions. A name may be equal to a keyword
            // such as `$ref`.
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(schemas),
            ) => schemas.values_mut().for_each(|schema| self.rewrite_keywords(schema, place)),
            (_, Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| self.rewrite_keywords(schema, place));
            }
            (_, schema) => self.rewrite_keywords(schema, place),
        }
    }
}
