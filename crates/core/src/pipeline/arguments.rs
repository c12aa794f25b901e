use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Notes;
use crate::{
    call::ToolError,
    limits,
    schema::{self, RepairPolicy},
    tool::ToolDefinition,
};

/// Reads the text of arguments, as a model wrote it.
pub(super) fn parse(text: &str, policy: RepairPolicy, notes: &mut Notes<'_>) -> Result<Value, ToolError> {
    if text.len() > limits::ARGUMENT_BYTES {
        let reason =
            format!("{} bytes are too many, at most {} are read", text.len(), limits::ARGUMENT_BYTES);
        return Err(ToolError::InvalidArguments(reason.into()));
    }
    if text.trim().is_empty() && policy != RepairPolicy::Strict {
        notes.repairs.push(schema::Repair::empty_text());
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_str(text).map_err(|error| {
        ToolError::InvalidArguments(Cow::Owned(format!("not JSON: {error}; write one JSON object")))
    })
}

/// Makes the arguments fit the tool's schema, or says all that is wrong with them.
pub(super) fn fit(
    definition: &ToolDefinition,
    arguments: Value,
    policy: RepairPolicy,
    notes: &mut Notes<'_>,
) -> Result<Value, ToolError> {
    let schema = definition.input_schema();
    if schema.is_valid(&arguments) {
        return Ok(arguments);
    }
    let (arguments, repairs) = schema::repair(schema, arguments, policy);
    if let Err(violations) = schema.validate(&arguments) {
        // What was read otherwise still does not fit.
        notes.repairs.clear();
        return Err(violations.into());
    }
    notes.repairs.extend(repairs);
    Ok(arguments)
}
