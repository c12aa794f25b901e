//! The schema of a non-object output. The model writes the output as the member `response` of an
//! object.

use haft_core::{
    Schema,
    schema::{SchemaError, json_text},
};
use serde_json::{Map, Value};

use crate::RunConfig;

/// The property of the wrapper object that contains an output that is not an object.
pub(crate) const RESPONSE: &str = "response";

/// The maximum number of nested references and alternatives that [`is_object`] follows. A deeper
/// schema is wrapped.
const MAX_DEPTH: usize = 16;

/// The keywords that a schema for any string can have.
const ANNOTATIONS: [&str; 3] = ["$schema", "title", "type"];

/// Keywords that imply an object if the schema has no `type`.
const OBJECT_KEYWORDS: [&str; 5] =
    ["properties", "required", "additionalProperties", "patternProperties", "unevaluatedProperties"];

impl RunConfig {
    /// Declares the output of the run. Sets [`outputs`](Self::outputs) and
    /// [`output_property`](Self::output_property):
    ///
    /// - If `schema` describes an object, it is the schema of the outputs.
    /// - If `schema` accepts any string and has no description, the answer is plain text.
    /// - Otherwise, for example for an array, a number, an enum or a nullable object, the outputs
    ///   are an object with the required property `response`, which has the schema `schema`. The
    ///   model writes this object. [`RunAnswer::value`](haft_core::agent::RunAnswer::value) is the
    ///   value in it.
    ///
    /// The builder of an agent calls this function with the schema of
    /// [`output`](crate::ReactAgentBuilder::output).
    ///
    /// # Examples
    ///
    /// ```
    /// use haft_core::Schema;
    /// use haft_react::RunConfig;
    /// use serde_json::json;
    ///
    /// let mut config = RunConfig::default();
    /// config.declare_output(Schema::from_type::<Vec<bool>>()?)?;
    /// assert_eq!(config.output_property.as_deref(), Some("response"));
    /// let outputs = config.outputs.unwrap();
    /// assert!(outputs.is_valid(&json!({"response": [true, false]})));
    /// # Ok::<(), haft_core::schema::SchemaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the schema of the object exceeds a size limit.
    pub fn declare_output(&mut self, schema: Schema) -> Result<(), SchemaError> {
        if is_any_string(schema.as_value()) {
            self.outputs = None;
            return Ok(());
        }
        self.declare_structured_output(schema)
    }

    /// Declares the output like [`declare_output`](Self::declare_output), but wraps a string too.
    /// For outputs with more than one property, such as an answer with its reasoning.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`declare_output`](Self::declare_output).
    pub fn declare_structured_output(&mut self, schema: Schema) -> Result<(), SchemaError> {
        let (schema, property) = if is_object(schema.as_value(), schema.as_value(), MAX_DEPTH) {
            (schema, None)
        } else {
            (Schema::new(schema.wrapped_in_object(RESPONSE))?, Some(RESPONSE.to_owned()))
        };
        self.outputs = Some(schema.into_arguments()?);
        self.output_property = property;
        Ok(())
    }

    /// Splits `outputs`, a valid object of the schema [`outputs`](Self::outputs), into the value of
    /// the [`output_property`](Self::output_property) and the other members. The value is `None` if
    /// the output is an object.
    pub(crate) fn split_outputs(
        &self,
        mut outputs: Map<String, Value>,
    ) -> (Option<Value>, Map<String, Value>) {
        let value = self.output_property.as_ref().and_then(|property| outputs.shift_remove(property));
        (value, outputs)
    }

    /// Joins the parts that [`split_outputs`](Self::split_outputs) returns.
    pub(crate) fn join_outputs(&self, value: Option<Value>, mut outputs: Map<String, Value>) -> Value {
        if let (Some(property), Some(value)) = (&self.output_property, value) {
            outputs.insert(property.clone(), value);
        }
        Value::Object(outputs)
    }
}

/// Returns the text of `value` in an answer: the string itself, or JSON text.
pub(crate) fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| json_text(value), str::to_owned)
}

/// Returns `true` if `schema` accepts every string and nothing else, and has no description. The
/// instructions for the model would not contain a description of a plain text answer.
fn is_any_string(schema: &Value) -> bool {
    schema.as_object().is_some_and(|keywords| {
        keywords.get("type").is_some_and(|it| it == "string")
            && keywords.keys().all(|keyword| ANNOTATIONS.contains(&keyword.as_str()))
    })
}

/// Returns `true` if every value of `schema`, a subschema of `root`, is an object.
fn is_object(root: &Value, schema: &Value, depth: usize) -> bool {
    let (Some(depth), Value::Object(keywords)) = (depth.checked_sub(1), schema) else { return false };
    match keywords.get("type") {
        Some(Value::Array(types)) => return types.iter().all(|it| it == "object"),
        Some(single) => return single == "object",
        None => {}
    }
    let values = keywords
        .get("const")
        .into_iter()
        .chain(keywords.get("enum").and_then(Value::as_array).into_iter().flatten());
    let mut values = values.peekable();
    if values.peek().is_some() {
        return values.all(Value::is_object);
    }
    let subschemas = |keyword| keywords.get(keyword).and_then(Value::as_array);
    let is_object = |schema: &Value| is_object(root, schema, depth);
    let target =
        keywords.get("$ref").and_then(Value::as_str).and_then(|it| root.pointer(it.strip_prefix('#')?));
    target.is_some_and(is_object)
        || subschemas("allOf").is_some_and(|all| all.iter().any(is_object))
        || ["anyOf", "oneOf"].into_iter().any(|keyword| {
            subschemas(keyword).is_some_and(|any| !any.is_empty() && any.iter().all(is_object))
        })
        || OBJECT_KEYWORDS.iter().any(|keyword| keywords.contains_key(*keyword))
}

#[cfg(test)]
mod tests;
