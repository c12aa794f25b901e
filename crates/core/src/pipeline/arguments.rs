use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Notes;
use crate::{
    call::ToolError,
    schema::{self, JsonText, RepairPolicy},
    tool::ToolDefinition,
};

/// Parses the arguments of a call, of at most `max_bytes`. Empty text means no arguments, unless the
/// policy is strict.
pub(super) fn parse<'a>(
    arguments: &'a JsonText,
    max_bytes: usize,
    policy: RepairPolicy,
    notes: &mut Notes<'_>,
) -> Result<Cow<'a, Value>, ToolError> {
    if arguments.len() > max_bytes {
        let reason = format!("{} bytes are too many, at most {max_bytes} are read", arguments.len());
        return Err(ToolError::InvalidArguments(reason.into()));
    }
    if arguments.trim().is_empty() && policy != RepairPolicy::Strict {
        notes.repairs.push(schema::Repair::empty_text());
        return Ok(Cow::Owned(Value::Object(Map::new())));
    }
    arguments
        .value()
        .map(Cow::Borrowed)
        .map_err(|error| ToolError::InvalidArguments(Cow::Owned(format!("{error}; write one JSON object"))))
}

/// Validates arguments, and repairs those that do not fit the schema of the tool.
pub(super) fn fit<'a>(
    definition: &ToolDefinition,
    arguments: Cow<'a, Value>,
    policy: RepairPolicy,
    notes: &mut Notes<'_>,
) -> Result<Cow<'a, Value>, ToolError> {
    let schema = definition.input_schema();
    if schema.is_valid(&arguments) {
        return Ok(arguments);
    }
    let (arguments, repairs) = schema::repair(schema, arguments.into_owned(), policy);
    if let Err(violations) = schema.validate(&arguments) {
        // Repaired arguments that are still invalid are not used.
        notes.repairs.clear();
        return Err(violations.into());
    }
    notes.repairs.extend(repairs);
    Ok(Cow::Owned(arguments))
}
