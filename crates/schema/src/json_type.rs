use serde_json::Value;

/// Returns the name of the JSON Schema type of `value`, such as `integer`. A number with a decimal
/// point or exponent is a `number`, even without a fraction.
///
/// # Examples
///
/// ```
/// use haft_schema::json_type;
/// use serde_json::json;
///
/// assert_eq!([json_type(&json!(3)), json_type(&json!(3.0)), json_type(&json!([]))], ["integer", "number", "array"]);
/// ```
#[must_use]
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
